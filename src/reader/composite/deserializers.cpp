// SPDX-License-Identifier: Apache-2.0
// The deserializer table.
#include "reader/composite/deserializers.h"

#include <fmt/format.h>
#include "reader/htk/htk_options.h"

#include "reader/image/image_options.h"
#include "reader/text/text_options.h"

namespace tutti::reader {
namespace {

struct TextDeserializerOptions : TextReaderOptions {
  void describe(config::Fields& f) {
    TextReaderOptions::describe(f);
    f.no_effect("module", "all deserializers are built in");
  }
};

Made read_text_deserializer(const config::Record& block, const ReaderContext& context) {
  auto o = std::make_shared<TextDeserializerOptions>();
  o->order.shuffle = trains(context);
  o->trace_level = context.trace_level;
  config::read_fields(block, "CNTKTextFormatDeserializer", [&](config::Fields& f) { o->describe(f); },
                      *context.problems, *context.notices, {"type"});
  check_file(block, "file", o->file, context);
  // Inherited they only tell how the file will be read.
  for (const char* key : {"randomize", "randomizationSeed", "randomizationWindow", "truncated", "truncationLength"})
    if (block.has_own(key))
      context.notices->lines.push_back(fmt::format(
          "'{}' in CNTKTextFormatDeserializer has no effect here because it belongs into the reader's block", key));
  return {[o](config::Fields& f) { o->describe(f); }, [o] { return std::make_unique<TextSource>(o->source()); }, {}};
}

}  // namespace

const std::vector<DeserializerRow>& deserializer_table() {
  static const std::vector<DeserializerRow> rows = {
      {"CNTKTextFormatDeserializer", "text files of |name value value ... lines; the sequence id is the key",
       describe_defaults<TextDeserializerOptions>, read_text_deserializer},
      {"ImageDeserializer", "JPEG and PNG images with their labels from a map file", describe_image_deserializer,
       read_image_deserializer},
      {"Base64ImageDeserializer", "the same with the images as base64 text in the file itself",
       describe_image_deserializer, read_base64_deserializer},
      {"HTKFeatureDeserializer", "speech features from HTK files; the utterance's name is the key",
       describe_htk_feature_deserializer, read_htk_feature_deserializer},
      {"HTKMLFDeserializer", "classes per frame from master label files", describe_htk_mlf_deserializer,
       read_htk_mlf_deserializer},
  };
  return rows;
}

}  // namespace tutti::reader
