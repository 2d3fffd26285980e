// SPDX-License-Identifier: Apache-2.0
// order_options.h -- settings of several readers: how sequences are ordered, and cut for truncated back-propagation,
// how many faults are tolerated, and how much is kept in memory.
#pragma once

#include "reader/lane_walker.h"
#include "reader/sweep_order.h"
#include "tutti/config.h"

namespace tutti::reader {

struct OrderOptions {
  bool shuffle = true;
  std::int64_t seed = 0, window = 0;
  // With `window_doc` the reader has a randomizationWindow.
  void describe(config::Fields& f, std::string_view window_doc = {});
  Randomization randomization() const { return {shuffle, window, static_cast<std::uint64_t>(seed)}; }
};

// The way of the older readers, where randomize may also be the number of samples among which is shuffled.
struct RandomizeOptions {
  std::string randomize = "auto";
  std::int64_t window = 0, seed = 0;
  void describe(config::Fields& f);
  Randomization randomization(bool training) const;
};

struct TruncationOptions {
  bool truncated = false;
  std::int64_t length = 0;
  bool needs_length = true;
  void describe(config::Fields& f);
  // Outside training sequences come whole: the same results without state to carry.
  Truncation truncation(bool training) const { return {truncated && training ? length : 0, 0}; }
};

// What sources have in common; a reader describes what it offers of it, in its own words.
struct DataLimits {
  std::int64_t max_errors = 0, trace_level = 0;
  std::int64_t chunk_bytes = 33'554'432;
  std::int64_t keep_bytes = std::int64_t{1} << 30;
  void describe_faults(config::Fields& f, std::string_view doc);  // maxErrors and traceLevel
  void describe_chunks(config::Fields& f, std::string_view doc);
  void describe_keep(config::Fields& f, std::string_view doc);
};

void describe_max_errors(config::Fields& f, std::int64_t& max_errors, std::string_view doc);

}  // namespace tutti::reader
