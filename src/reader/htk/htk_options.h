// SPDX-License-Identifier: Apache-2.0
// htk_options.h -- the blocks of readerType = "HTKMLFReader" and "HTKDeserializers", and of their streams.
#pragma once

#include "reader/htk/htk_source.h"
#include "reader/order_options.h"
#include "reader/reader_row.h"

namespace tutti::reader {

// A stream of features: any block with scpFile.
struct HtkFeatureBlock {
  std::string scp, prefix;
  std::int64_t dim = 0;
  config::Schedule<std::int64_t> context;
  bool expands = false;
  void describe(config::Fields& f);
  HtkFeatureOptions stream(const std::string& name) const;
};

// A stream of labels: any block with mlfFile or mlfFileList.
struct HtkLabelBlock {
  std::string mapping, list, type = "category";
  std::vector<std::string> files;
  std::int64_t dim = 0;
  bool sparse = true;
  void describe(config::Fields& f);
  HtkLabelOptions stream(const std::string& name) const;
};

struct HtkReaderOptions {
  std::vector<std::pair<std::string, HtkFeatureBlock>> features;
  std::vector<std::pair<std::string, HtkLabelBlock>> labels;
  bool frame_mode = true;
  RandomizeOptions order;
  std::string method = "blockRandomize";
  std::int64_t longest = 10'000;
  config::Schedule<std::int64_t> lanes = 1;
  TruncationOptions truncation;
  std::int64_t max_errors = 0, trace_level = 0, keep_bytes = std::int64_t{1} << 30;

  void describe(config::Fields& f);
  void describe_settings(config::Fields& f);  // all but the streams
  HtkSourceOptions source() const;
  Randomization randomization(bool training) const;
};

ReadBlock read_htk_mlf, read_htk_deserializers;
void describe_htk_reader(config::Fields& f);  // with a stream of each kind

// The deserializers of a CompositeDataReader: features or labels alone, joined with the others there.
ReadBlock read_htk_feature_deserializer, read_htk_mlf_deserializer;
void describe_htk_feature_deserializer(config::Fields& f);
void describe_htk_mlf_deserializer(config::Fields& f);

}  // namespace tutti::reader
