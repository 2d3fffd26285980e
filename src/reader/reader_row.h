// SPDX-License-Identifier: Apache-2.0
// reader_row.h -- what a row of the reader table (make_reader.cpp) makes of its block, and what the rows share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "reader/lane_walker.h"
#include "reader/sequence_source.h"
#include "reader/sweep_order.h"
#include "tutti/reader.h"

namespace tutti::reader {

struct Made {
  std::function<void(config::Fields&)> describe;            // the options in effect
  std::function<std::unique_ptr<SequenceSource>()> source;  // opens the files
  Randomization randomization;
  Truncation truncation = {};
  std::int64_t most_sequences = 0;  // of a minibatch, whatever their lengths; 0 = as many as minibatchSize allows
};

// One per row; mistakes land in context.problems.
using ReadBlock = Made(const config::Record& block, const ReaderContext& context);

// What the help says of a block: its keys with their defaults.
template <class Options>
void describe_defaults(config::Fields& f) {
  Options().describe(f);
}

inline bool trains(const ReaderContext& context) { return context.action == "train"; }

// The problem when the data file that `key` of `block` names cannot be read; none when it can or the path is empty.
std::optional<Diagnostic> unreadable_file(const config::Record& block, const std::string& key, const std::string& path);
// Adds that problem to those of the context.
void check_file(const config::Record& block, const std::string& key, const std::string& path,
                const ReaderContext& context);

}  // namespace tutti::reader
