// SPDX-License-Identifier: Apache-2.0
// The types of deserializers, each a source of sequences with keys; a new one is a row here. Reads
// deserializers = ([type = ...] : [...]), each through its row.
#include <map>

#include "reader/composite/composite_source.h"
#include "reader/order_options.h"
#include "reader/reader_row.h"

namespace tutti::reader {
namespace {

using config::Record;

struct DeserializerRow {
  std::string name, help;
  void (*describe)(config::Fields&);
  // The block inherits from the reader's, where randomize, maxErrors, frameMode and so on usually are. Only the source
  // and the description of the result are used.
  ReadBlock* read;
};

const std::vector<DeserializerRow>& table() {
  static const std::vector<DeserializerRow> rows = {
      {"CNTKTextFormatDeserializer", "text files of |name value value ... lines; the sequence id is the key",
       describe_text_deserializer, read_text},
      {"ImageDeserializer", "JPEG and PNG images with their labels from a map file", describe_images, read_images},
      {"Base64ImageDeserializer", "the same with the images as base64 text in the file itself", describe_images,
       read_images},
      {"HTKFeatureDeserializer", "speech features from HTK files; the utterance's name is the key",
       describe_htk_features, read_htk_features},
      {"HTKMLFDeserializer", "classes per frame from master label files", describe_htk_labels, read_htk_labels},
  };
  return rows;
}

struct CompositeReaderOptions {
  OrderOptions order;
  TruncationOptions truncation;
  bool numeric_keys = false, frame_mode = false;
  std::string check_data = "true", precision = "float";
  std::int64_t max_errors = 0, trace_level = 0;
  std::int64_t chunk_bytes = DataLimits().chunk_bytes;  // inherited and checked by the deserializers
  std::vector<std::pair<std::string, Described>> deserializers;

  void describe(config::Fields& f) {
    order.describe(f, "number of samples to shuffle sequences among; 0 = the whole data set");
    truncation.describe(f);
    f("frameMode", frame_mode, "text: every sample is a sequence of its own");
    f("useNumericSequenceKeys", numeric_keys, "compare keys as numbers: 007 is 7");
    describe_max_errors(
        f, max_errors,
        "tolerated sequences that are missing in a deserializer, and tolerated errors of each deserializer");
    f("checkData", check_data, "of images: files, images or none (true = files, false = none)");
    f("precision", precision, "accepted; data are float32 either way");
    f("traceLevel", trace_level, "0 = errors only, 1 = also warnings of text files");
    f.no_effect("verbosity", "traceLevel decides what is shown");
    f.no_effect("localTimeline", "every rank takes its share of one global order");
    f.no_effect("multiThreadedDeserialization", "numCPUThreads of an image deserializer says how many threads load");
    f.no_effect("prefetch", "the next minibatches are always prepared in the background");
    f("chunkSizeInBytes", chunk_bytes, "of text deserializers: the unit of shuffling; a sequence is never cut");
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

const DeserializerRow* row_of(const Record& block, const ReaderContext& context) {
  const auto type = block.find_own("type");
  const std::string name = type ? type->text : "";
  if (const DeserializerRow* row = find_row(table(), name)) return row;
  if (config::equal_keys(name, "LatticeDeserializer")) {
    context.problems->add(
        Diagnostic{type->where, "this version has no sequence training over lattices",
                   "leave the deserializer out and train frame by frame, with CrossEntropyWithSoftmax"});
  } else {
    context.problems->add(
        Diagnostic{type ? type->where : block.where(),
                   type ? fmt::format("there is no deserializer '{}'", name) : "a deserializer has no type",
                   other_names(table(), "deserializers", name)});
  }
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

Made read_composite(const Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<CompositeReaderOptions>(context);
  read_block(*o, block, title, context, {"readerType", "deserializers"});
  std::vector<std::function<std::unique_ptr<SequenceSource>()>> open;
  std::vector<Record> blocks;
  if (block.has_own("deserializers")) blocks = block.blocks("deserializers");
  if (blocks.empty())
    context.problems->add(Diagnostic{block.where(), "CompositeDataReader has no deserializers",
                                     "add deserializers = ([ type = \"ImageDeserializer\" ; ... ])"});
  for (const Record& b : blocks) {
    const DeserializerRow* row = row_of(b, context);
    if (!row) continue;
    Made made = row->read(b, row->name, context);
    o->deserializers.emplace_back(row->name, Described{std::move(made.describe)});
    open.push_back(std::move(made.source));
  }
  return {[o](config::Fields& f) { o->describe_all(f); },
          [o, open]() -> std::unique_ptr<SequenceSource> {
            std::vector<std::unique_ptr<SequenceSource>> sources;
            for (const auto& make : open) sources.push_back(make());
            check_names(sources);
            if (sources.size() == 1) return std::move(sources[0]);
            return std::make_unique<CompositeSource>(std::move(sources), o->numeric_keys, o->max_errors);
          },
          o->order.randomization(), o->truncation.truncation(trains(context))};
}

void describe_composite(config::Fields& f) {
  CompositeReaderOptions o;
  for (const auto& row : table()) o.deserializers.emplace_back(row.name, Described{row.describe});
  o.describe_all(f);
}

}  // namespace tutti::reader
