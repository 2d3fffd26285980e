// SPDX-License-Identifier: Apache-2.0
// Reads deserializers = ([type = ...] : [...]), each through its row of the table.
#include "reader/composite/composite_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "reader/composite/composite_source.h"
#include "reader/composite/deserializers.h"
#include "reader/order_options.h"

namespace tutti::reader {
namespace {

using config::Record;

struct Described {
  std::function<void(config::Fields&)> what = [](config::Fields&) {};
  void describe(config::Fields& f) { what(f); }
};

struct CompositeReaderOptions {
  OrderOptions order;
  TruncationOptions truncation;
  CompositeOptions join;
  std::int64_t window = 0;
  bool frame_mode = false;
  std::string check_data = "true", precision = "float";
  std::int64_t trace_level = 0;
  std::vector<std::pair<std::string, Described>> deserializers;

  void describe(config::Fields& f) {
    order.describe(f);
    f("randomizationWindow", window, "number of samples to shuffle sequences among; 0 = the whole data set");
    truncation.describe(f);
    f("frameMode", frame_mode, "text: every sample is a sequence of its own");
    f("useNumericSequenceKeys", join.numeric_keys, "compare keys as numbers: 007 is 7");
    f("maxErrors", join.max_errors,
      "tolerated sequences that are missing in a deserializer, and tolerated errors of each deserializer");
    f("checkData", check_data, "of images: files, images or none (true = files, false = none)");
    f("precision", precision, "accepted; data are float32 either way");
    f("traceLevel", trace_level, "0 = errors only, 1 = also warnings of text files");
    f.no_effect("verbosity", "traceLevel decides what is shown");
    f.no_effect("localTimeline", "every rank takes its share of one global order");
    f.no_effect("multiThreadedDeserialization", "numCPUThreads of an image deserializer says how many threads load");
    f.no_effect("prefetch", "the next minibatches are always prepared in the background");
    f.no_effect("chunkSizeInBytes", "it belongs to the deserializer");
    if (window < 0)
      f.problem("randomizationWindow", "randomizationWindow is a number of samples", "0 means the whole data set");
    if (join.max_errors < 0) f.problem("maxErrors", "maxErrors is a count", "0 tolerates no error");
  }
  // For help and for the settings in effect; Fields reads no arrays of blocks.
  void describe_all(config::Fields& f) {
    describe(f);
    Described list{[this](config::Fields& inner) {
      for (auto& [type, one] : deserializers) inner.block(type, one, "");
    }};
    f.block("deserializers", list, "array of blocks with a type each; the first one is the primary");
  }
};

bool same(std::string a, std::string b) {
  const auto lower = [](std::string& s) {
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  };
  lower(a), lower(b);
  return a == b;
}

const DeserializerRow* find_row(const Record& block, const ReaderContext& context) {
  const auto type = block.find_own("type");
  std::vector<std::string> names;
  for (const auto& row : deserializer_table()) {
    if (type && same(row.name, type->text)) return &row;
    names.push_back(row.name);
  }
  if (type && same(type->text, "LatticeDeserializer")) {
    context.problems->add(
        Diagnostic{type->where, "this version has no sequence training over lattices",
                   "leave the deserializer out and train frame by frame, with CrossEntropyWithSoftmax"});
    return nullptr;
  }
  const std::string near = type ? nearest(type->text, names) : "";
  context.problems->add(
      Diagnostic{type ? type->where : block.where(),
                 type ? fmt::format("there is no deserializer '{}'", type->text) : "a deserializer has no type",
                 near.empty() ? fmt::format("deserializers: {}", fmt::join(names, ", "))
                              : fmt::format("did you mean '{}'? (deserializers: {})", near, fmt::join(names, ", "))});
  return nullptr;
}

// Two streams of one name would feed one input.
void check_names(const std::vector<std::unique_ptr<SequenceSource>>& sources) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < sources.size(); ++i)
    for (const auto& s : sources[i]->streams())
      if (const auto [at, fresh] = seen.emplace(s.name, i); !fresh)
        throw ConfigError({},
                          fmt::format("CompositeDataReader: deserializers {} and {} both have a stream '{}'",
                                      at->second + 1, i + 1, s.name),
                          "give the streams different names, those of the network's inputs");
}

}  // namespace

Made read_composite(const Record& block, const ReaderContext& context) {
  auto o = std::make_shared<CompositeReaderOptions>();
  o->order.shuffle = trains(context);
  o->trace_level = context.trace_level;
  config::read_fields(block, "CompositeDataReader", [&](config::Fields& f) { o->describe(f); }, *context.problems,
                      *context.notices, {"readerType", "deserializers"});
  std::vector<std::function<std::unique_ptr<SequenceSource>()>> open;
  std::vector<Record> blocks;
  if (block.has_own("deserializers")) blocks = block.blocks("deserializers");
  if (blocks.empty())
    context.problems->add(Diagnostic{block.where(), "CompositeDataReader has no deserializers",
                                     "add deserializers = ([ type = \"ImageDeserializer\" ; ... ])"});
  for (const Record& b : blocks) {
    const DeserializerRow* row = find_row(b, context);
    if (!row) continue;
    Made made = row->read(b, context);
    o->deserializers.emplace_back(row->name, Described{std::move(made.describe)});
    open.push_back(std::move(made.source));
  }
  return {[o](config::Fields& f) { o->describe_all(f); },
          [o, open]() -> std::unique_ptr<SequenceSource> {
            std::vector<std::unique_ptr<SequenceSource>> sources;
            for (const auto& make : open) sources.push_back(make());
            check_names(sources);
            if (sources.size() == 1) return std::move(sources[0]);
            return std::make_unique<CompositeSource>(std::move(sources), o->join);
          },
          o->order.randomization(o->window), o->truncation.truncation(trains(context))};
}

void describe_composite(config::Fields& f) {
  CompositeReaderOptions o;
  for (const auto& row : deserializer_table()) o.deserializers.emplace_back(row.name, Described{row.describe});
  o.describe_all(f);
}

}  // namespace tutti::reader
