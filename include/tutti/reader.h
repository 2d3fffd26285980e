// SPDX-License-Identifier: Apache-2.0
// reader.h -- minibatches. Every rank walks the same global minibatch order and takes its share of each, perhaps empty,
// so every rank makes the same number of steps and no end-of-data protocol exists. Where work units are handed out
// (work_queue.h) ranks walk the same order with different steps.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/config.h"
#include "tutti/work_queue.h"

namespace tutti {

struct StreamInfo {
  std::string name;  // equals the name of the network's input node
  std::size_t dim = 0;
  bool sparse = false;
};

// One stream of this rank's share: sequence after sequence, without gaps. Sparse data are compressed columns.
// Memory belongs to the reader and stays valid until the next call of next().
struct StreamData {
  std::size_t columns = 0;
  std::span<const float> dense;   // columns x dim (dense streams)
  std::span<const float> values;  // sparse streams: values, row indices, and columns + 1 offsets
  std::span<const std::int32_t> indices;
  std::span<const std::int64_t> column_begin;
  std::span<const std::int64_t> sequence_begin;  // sequences + 1 column offsets
};

// A sequence of a truncated minibatch: a segment of a longer one. One that does not begin its sequence continues where
// the last fragment of the same lane stopped, with the state that the network kept there.
struct Fragment {
  std::int32_t lane = 0;
  bool begins = true, ends = true;
};

struct Batch {
  std::vector<StreamData> streams;      // in the order of Reader::streams()
  std::span<const Fragment> fragments;  // one per sequence of the share; empty when sequences come whole
  std::int64_t sequences = 0;           // of this rank's share
  std::int64_t samples = 0;             // of this rank's share: steps of the longest stream per sequence, summed
  std::int64_t columns = 0;             // of this rank's share: samples with packing gaps
  std::int64_t global_samples = 0;      // of the whole minibatch
  std::int64_t global_columns = 0;      // with packing gaps, as one rank would pack the minibatch
  std::int64_t position = 0;            // samples of the epoch delivered before this minibatch, over all ranks
  std::int64_t minibatch = 0;           // its number, from 0 where the plan starts
  // For each sequence of the share: number of samples of the epoch that precede it, over all ranks. Random draws for a
  // sample depend on this number only, not on the rank that has it. Empty: the share is the whole minibatch.
  std::span<const std::int64_t> sequence_positions;
};

// One epoch as the step loop wants it. An epoch covers the global sample positions
// [epoch * samples, (epoch + 1) * samples) of the endless sequence of sweeps; minibatches end at sweep and epoch ends.
struct EpochPlan {
  std::int64_t epoch = 0;        // counts from 0
  std::int64_t samples = 0;      // over all ranks; 0 = one sweep
  std::int64_t minibatch = 256;  // over all ranks
  std::int64_t start = 0;        // samples of this epoch already done (resume in mid-epoch)
  // No minibatch begins at or after this sample of the epoch.
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  int rank = 0, ranks = 1;  // which share; a rank that trains alone passes 0 of 1, one that takes none -1
  // Instead of its share of every minibatch a rank takes work units from a queue; it skips those that are empty.
  WorkQueue* work_queue = nullptr;
  // Several ranks may get the same units, which they then divide.
  int part = 0, parts = 1;
};

class Reader {
 public:
  virtual ~Reader() = default;
  virtual const std::vector<StreamInfo>& streams() const = 0;
  virtual std::int64_t sweep_samples() = 0;  // samples in one pass; may scan the data on the first call
  // Starts reading ahead. Called before the first next() of each epoch, and again to start anew at any place.
  virtual void start_epoch(const EpochPlan&) = 0;
  // The next minibatch, or nullptr at the end of the epoch; the same number of calls on every rank, unless a work
  // queue divides the data.
  virtual const Batch* next() = 0;
  // What next() is going to return, if it is ready; valid until then.
  virtual const Batch* ahead() { return nullptr; }
  // Whether EpochPlan::work_queue may be given: not where a minibatch continues the sequences of the one before.
  virtual bool takes_work_units() const = 0;
};

// What a reader is made with, beside its own block.
struct ReaderContext {
  std::string action = "train";  // "test", "write", "cv": randomize defaults to none there
  int trace_level = 0;
  Problems* problems = nullptr;
  config::Notices* notices = nullptr;
  bool only_check = false;  // nothing is going to be read: a text that is not here yet is a warning, not a mistake
};

// Reads the block through the reader table (src/reader/make_reader.cpp) and checks that the files are there.
// Mistakes land in context.problems and nullptr is returned.
std::unique_ptr<Reader> make_reader(const config::Record& block, const ReaderContext& context);

// The values of a readerType: its one line of help and its options with their defaults, for help=NAME.
struct ReaderType {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
};
const std::vector<ReaderType>& reader_types();

// The options of the block as they are in effect, for dump_fields(); mistakes are left to make_reader. The name is ""
// when there is no such reader.
ReaderType effective_reader(const config::Record& block, const ReaderContext& context);

}  // namespace tutti
