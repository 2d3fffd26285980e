// SPDX-License-Identifier: Apache-2.0
// Options of the text reader.
#include "reader/text/text_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tutti::reader {

void TextReaderOptions::describe(config::Fields& f) {
  f("file", file, "the data file");
  f.required("file");
  f.blocks("input", input, "one block per stream, under the name of the network's input");
  f.required("input");
  order.describe(f);
  f("randomizationWindow", window, "number of samples to shuffle sequences among; 0 = the whole data set");
  f("skipSequenceIds", skip_sequence_ids, "treat every line as a sequence and ignore its id");
  f("frameMode", frame_mode, "treat every sample as a sequence, as skipSequenceIds does");
  f("maxErrors", max_errors, "number of errors to tolerate; faulty sequences are skipped");
  f("traceLevel", trace_level, "0 = errors only, 1 = also warnings");
  f("chunkSizeInBytes", chunk_bytes, "the file is first shuffled in chunks of this size");
  f("keepDataInMemory", keep_in_memory, "keep parsed data in memory, whatever their size");
  f("keepLimitInBytes", keep_bytes, "keep parsed data in memory for later sweeps, up to this size per rank");
  f("precision", precision, "accepted; data are float32 either way");
  truncation.describe(f);
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  f.no_effect("verbosity", "traceLevel decides what is shown");
  f.no_effect("miniBatchMode", "minibatches end with the sweep, which is partial");
  f.no_effect("cacheIndex", "the index is rebuilt in every run");
  f.no_effect("multiThreadedDeserialization", "one thread reads ahead");

  if (window < 0)
    f.problem("randomizationWindow", "randomizationWindow is a number of samples", "0 means the whole data set");
  if (max_errors < 0) f.problem("maxErrors", "maxErrors is a count", "0 tolerates no error");
  if (chunk_bytes < 1) f.problem("chunkSizeInBytes", "chunkSizeInBytes must be at least 1", "the default is 33554432");
  if (keep_bytes < 0) f.problem("keepLimitInBytes", "keepLimitInBytes must not be negative", "0 keeps nothing");
  if (f.given("input") && input.empty())
    f.problem("input", "no stream is described", "input = [ features = [ dim = 784 ; format = \"dense\" ] ]");
  std::set<std::string> aliases;
  for (const auto& [name, stream] : input) {
    const std::string alias = stream.alias.empty() ? name : stream.alias;
    if (!aliases.insert(alias).second)
      f.problem("input", fmt::format("two streams have the name '{}' in the file", alias),
                "give each stream an alias of its own");
    if (alias.starts_with('#') ||
        std::any_of(alias.begin(), alias.end(), [](unsigned char c) { return c <= ' ' || c == '|'; }))
      f.problem("input", fmt::format("'{}' cannot be a stream's name in a text file", alias),
                "names have no blanks and no '|', and do not start with '#'");
  }
}

TextSourceOptions TextReaderOptions::source() const {
  TextSourceOptions o;
  o.path = file;
  for (const auto& [name, s] : input)
    o.streams.push_back({name, s.alias.empty() ? name : s.alias, static_cast<std::size_t>(s.dim),
                         s.format == TextStreamOptions::Format::sparse});
  o.index = {!skip_sequence_ids && !frame_mode, chunk_bytes, max_errors, trace_level};
  o.scattered = order.shuffle && window == 0;
  o.keep_always = keep_in_memory;
  o.keep_bytes = static_cast<std::uint64_t>(keep_bytes);
  return o;
}

}  // namespace tutti::reader
