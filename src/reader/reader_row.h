// SPDX-License-Identifier: Apache-2.0
// reader_row.h -- what a row of the reader table (make_reader.cpp) makes of its block, what the rows share, and their
// functions.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "config/text.h"
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

// One per row, whose name it gets as the title of messages; mistakes land in context.problems.
using ReadBlock = Made(const config::Record& block, const std::string& title, const ReaderContext& context);

// What the help says of a block: its keys with their defaults.
template <class Options>
void describe_defaults(config::Fields& f) {
  Options().describe(f);
}

// A block that is not one struct.
struct Described {
  std::function<void(config::Fields&)> what = [](config::Fields&) {};
  void describe(config::Fields& f) { what(f); }
};

inline bool trains(const ReaderContext& context) { return context.action == "train"; }

// Of readers that take a number of sequences for a minibatch.
inline constexpr const char* sequences_key = "nbruttsineachrecurrentiter";
// CNTK has one value per epoch there.
void only_first_value(const config::Schedule<std::int64_t>&, std::string_view key, std::string_view title,
                      const ReaderContext&);

// Options with the defaults that the context decides.
template <class Options>
std::shared_ptr<Options> new_options(const ReaderContext& context) {
  auto o = std::make_shared<Options>();
  if constexpr (requires { o->order.shuffle; }) o->order.shuffle = trains(context);
  if constexpr (requires { o->trace_level; }) o->trace_level = context.trace_level;
  return o;
}

// Reads a block through the describe() of its options; keys in `also` are accepted unread.
template <class Options>
void read_block(Options& o, const config::Record& block, std::string_view title, const ReaderContext& context,
                const std::vector<std::string>& also = {"readerType"}) {
  config::read_fields(
      block, title, [&](config::Fields& f) { o.describe(f); }, *context.problems, *context.notices, also);
}

// A source that takes the options as they are.
template <class Source, class Options>
Made made(std::shared_ptr<Options> o, Randomization randomization = {}, Truncation truncation = {}) {
  return {[o](config::Fields& f) { o->describe(f); }, [o] { return std::make_unique<Source>(*o); }, randomization,
          truncation};
}

Diagnostic unreadable_data(const SourcePos& where, const std::string& path, const std::string& why);
// Whether the data file that `key` of `block` names can be read; if not, that is a problem, unless the path is empty.
bool check_file(const config::Record& block, const std::string& key, const std::string& path,
                const ReaderContext& context);

// Notes in its place that a setting of the block itself has no effect. `why`: "without scaleMode = pad".
void note_no_effect(const config::Record& block, const std::string& key, const std::string& why, const std::string& fix,
                    const ReaderContext& context);

// The row with this name, whatever its case; null when there is none.
template <class Rows>
auto find_row(const Rows& rows, std::string_view name) {
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return config::equal_keys(r.name, name); });
  return at == rows.end() ? nullptr : &*at;
}

template <class Rows>
std::string all_names(const Rows& rows, std::string_view what) {
  std::vector<std::string> names;
  for (const auto& r : rows) names.push_back(r.name);
  return fmt::format("{}: {}", what, fmt::join(names, ", "));
}

// What to do about a name that no row has: the nearest one, or all of them.
template <class Rows>
std::string other_names(const Rows& rows, std::string_view what, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& r : rows) names.push_back(r.name);
  const std::string near = nearest(name, names), all = all_names(rows, what);
  return near.empty() ? all : fmt::format("did you mean '{}'? ({})", near, all);
}

ReadBlock read_composite, read_hdf5, read_htk, read_idx, read_image_reader, read_libsvm, read_synthetic, read_text,
    read_uci, read_words;
void describe_composite(config::Fields& f);
void describe_htk_reader(config::Fields& f);
void describe_image_reader(config::Fields& f);
void describe_language_model(config::Fields& f);
void describe_tagged_words(config::Fields& f);
void describe_uci_reader(config::Fields& f);

// The deserializers of a CompositeDataReader (composite_options.cpp).
ReadBlock read_htk_features, read_htk_labels, read_images;
void describe_htk_features(config::Fields& f);
void describe_htk_labels(config::Fields& f);
void describe_images(config::Fields& f);
void describe_text_deserializer(config::Fields& f);

}  // namespace tutti::reader
