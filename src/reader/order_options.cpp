// SPDX-License-Identifier: Apache-2.0
#include "reader/order_options.h"

#include <fmt/format.h>

#include "config/text.h"
#include "reader/lines.h"

namespace tutti::reader {
namespace {

// Of randomize in the older readers.
struct Meaning {
  bool known = false, automatic = false, shuffle = false;
  std::int64_t window = 0;
};

Meaning meaning_of(const std::string& written) {
  const std::string word = config::to_lower(written);
  if (word == "auto") return {true, true};
  if (word == "true" || word == "yes") return {true, false, true};
  if (word == "false" || word == "no" || word == "none") return {true};
  std::int64_t n = 0;
  if (!read_whole(word, n) || n < 0) return {};
  return {true, false, n > 0, n > 1 ? n : 0};
}

void describe_window(config::Fields& f, std::int64_t& window, std::string_view doc) {
  f("randomizationWindow", window, doc);
  if (window < 0)
    f.problem("randomizationWindow", "randomizationWindow is a number of samples", "0 means the whole data set");
  bool by_samples = true;
  f("sampleBasedRandomizationWindow", by_samples, "randomizationWindow counts samples; false, chunks, does not exist");
  if (!by_samples && window > 0)
    f.problem("sampleBasedRandomizationWindow", "a window of chunks does not exist here",
              "leave it out, and give randomizationWindow in samples");
}

}  // namespace

void OrderOptions::describe(config::Fields& f, std::string_view window_doc) {
  // Before the block is read, `shuffle` is what the action decides.
  f.choice("randomize", shuffle,
           {{"true", true},
            {"false", false},
            {"auto", shuffle},
            {"none", false},
            {"yes", true},
            {"no", false},
            {"1", true},
            {"0", false}},
           "shuffle the sequences in each sweep; auto, the default: only in training");
  f("randomizationSeed", seed, "seed of the shuffle; 0 = CNTK's order");
  if (!window_doc.empty()) describe_window(f, window, window_doc);
}

void RandomizeOptions::describe(config::Fields& f) {
  f("randomize", randomize, "auto = shuffle in training; none; or the number of samples to shuffle among");
  describe_window(f, window, "number of samples to shuffle among; 0 = the whole data set");
  f("randomizationSeed", seed, "seed of the shuffle; 0 = CNTK's order");
  if (!meaning_of(randomize).known)
    f.problem("randomize", fmt::format("randomize cannot be '{}'", randomize), "auto, none, or a number of samples");
}

Randomization RandomizeOptions::randomization(bool training) const {
  const Meaning m = meaning_of(randomize);
  return {m.automatic ? training : m.shuffle, m.window > 0 ? m.window : window, static_cast<std::uint64_t>(seed)};
}

void TruncationOptions::describe(config::Fields& f) {
  f("truncated", truncated,
    "cut sequences into segments for truncated back-propagation; SGD needs truncated = true too");
  f("truncationLength", length,
    "steps per segment; a minibatch holds minibatchSize / truncationLength segments side by side");
  if (length < 0) f.problem("truncationLength", "truncationLength must not be negative", "100 steps, say");
  if (truncated && length == 0 && needs_length)
    f.problem("truncated", "truncated sequences need a truncationLength", "truncationLength = 100, say");
}

void DataLimits::describe_faults(config::Fields& f, std::string_view doc) {
  describe_max_errors(f, max_errors, doc);
  f("traceLevel", trace_level, "0 = errors only, 1 = also warnings");
}

void DataLimits::describe_chunks(config::Fields& f, std::string_view doc) {
  f("chunkSizeInBytes", chunk_bytes, doc);
  if (chunk_bytes < 1) f.problem("chunkSizeInBytes", "chunkSizeInBytes must be at least 1", "the default is 33554432");
}

void DataLimits::describe_keep(config::Fields& f, std::string_view doc) {
  f("keepLimitInBytes", keep_bytes, doc);
  if (keep_bytes < 0) f.problem("keepLimitInBytes", "keepLimitInBytes must not be negative", "0 keeps nothing");
}

void describe_max_errors(config::Fields& f, std::int64_t& max_errors, std::string_view doc) {
  f("maxErrors", max_errors, doc);
  if (max_errors < 0) f.problem("maxErrors", "maxErrors is a count", "0 tolerates no error");
}

}  // namespace tutti::reader
