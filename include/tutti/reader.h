// SPDX-License-Identifier: Apache-2.0
// reader.h -- delivers minibatches. All ranks go through the same global order of minibatches and take their share of
// each, which may be empty. So all ranks make the same number of steps, and the end of the data needs no protocol. With
// a work queue (work_queue.h), ranks go through the same order in different numbers of steps.
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

// One stream of this rank's share: sequences without gaps. Sparse data are compressed columns. The memory belongs to
// the reader and is valid until the next call of next().
struct StreamData {
  std::size_t columns = 0;
  std::span<const float> dense;   // columns x dim (dense streams)
  std::span<const float> values;  // sparse streams: values, row indices, and columns + 1 offsets
  std::span<const std::int32_t> indices;
  std::span<const std::int64_t> column_begin;
  std::span<const std::int64_t> sequence_begin;  // sequences + 1 column offsets
};

// A segment of a truncated sequence. A segment that does not begin its sequence continues the previous segment of the
// same lane, with the state that the network kept for it.
struct Fragment {
  std::int32_t lane = 0;
  bool begins = true, ends = true;
};

struct Batch {
  std::vector<StreamData> streams;      // in the order of Reader::streams()
  std::span<const Fragment> fragments;  // one per sequence of the share; empty if sequences are not truncated
  std::int64_t sequences = 0;           // of this rank's share
  std::int64_t samples = 0;             // of this rank's share: steps of the longest stream, summed over sequences
  std::int64_t columns = 0;             // of this rank's share, including packing gaps
  std::int64_t global_samples = 0;      // of the whole minibatch
  std::int64_t global_columns = 0;      // of the whole minibatch, including packing gaps, as one rank would pack it
  std::int64_t position = 0;            // samples of the epoch before this minibatch, over all ranks
  std::int64_t minibatch = 0;           // number of the minibatch, from 0 at the start of the plan
  // By sequence of the share: the number of samples of the epoch before it, over all ranks. Random draws for a sample
  // depend only on this number, not on the rank. Empty: the share is the whole minibatch.
  std::span<const std::int64_t> sequence_positions;
  // By sequence of the share: its number in the data set, for Reader::place(). Empty if sequences are truncated.
  std::span<const std::uint32_t> sequence_numbers;
};

// One epoch, as the step loop requests it. An epoch covers the global sample positions [epoch * samples, (epoch + 1) *
// samples) of the endless sequence of sweeps. Minibatches end at the ends of sweeps and epochs.
struct EpochPlan {
  std::int64_t epoch = 0;        // counts from 0
  std::int64_t samples = 0;      // over all ranks; 0 = one sweep
  std::int64_t minibatch = 256;  // over all ranks
  std::int64_t accumulated = 1;  // minibatches that make one update; `minibatch` is the sum of their sizes
  std::int64_t start = 0;        // samples of this epoch that are already done (resume within an epoch)
  // No minibatch begins at or after this sample of the epoch.
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  int rank = 0, ranks = 1;  // the share; a rank that trains on its own passes 0 of 1, a rank without a share -1
  // With a queue, a rank takes work units from it instead of a share of every minibatch; empty units are skipped.
  WorkQueue* work_queue = nullptr;
  // Several ranks may take the same unit and divide it.
  int part = 0, parts = 1;
};

class Reader {
 public:
  virtual ~Reader() = default;
  virtual const std::vector<StreamInfo>& streams() const = 0;
  virtual std::int64_t sweep_samples() = 0;  // samples in one pass; may scan the data on the first call
  // Starts reading ahead. Call it before the first next() of each epoch; may be called again to restart at any place.
  virtual void start_epoch(const EpochPlan&) = 0;
  // Returns the next minibatch, or nullptr at the end of the epoch. All ranks call it equally often, unless a work
  // queue divides the data.
  virtual const Batch* next() = 0;
  // Returns what next() will return if it is ready, else nullptr; valid until next().
  virtual const Batch* ahead() { return nullptr; }
  // Where a sequence stands in the data, for messages: "train.ctf:17".
  virtual std::string place(std::uint32_t sequence) { return "sequence " + std::to_string(sequence); }
  // Whether EpochPlan::work_queue may be given. False if a minibatch continues sequences of the previous one.
  virtual bool takes_work_units() const = 0;
};

// What a reader needs in addition to its own block.
struct ReaderContext {
  std::string action = "train";  // with "test", "write", "cv", randomize defaults to none
  int trace_level = 0;
  Problems* problems = nullptr;
  config::Notices* notices = nullptr;
  bool only_check =
      false;  // nothing will be read: a missing file that an earlier action writes is a warning, not a mistake
};

// Creates the reader of the block from the table in src/reader/make_reader.cpp and checks that its files exist. Adds
// mistakes to context.problems and then returns nullptr.
std::unique_ptr<Reader> make_reader(const config::Record& block, const ReaderContext& context);

// The values of readerType for help=NAME: a line of help, and the options with their defaults.
struct ReaderType {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
};
const std::vector<ReaderType>& reader_types();

// The effective options of the block, for dump_fields(). Ignores mistakes, which make_reader() reports. The name is ""
// if there is no such reader.
ReaderType effective_reader(const config::Record& block, const ReaderContext& context);

}  // namespace tutti
