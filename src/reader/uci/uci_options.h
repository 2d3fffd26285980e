// SPDX-License-Identifier: Apache-2.0
// uci_options.h -- the block of readerType = "UCIFastReader".
#pragma once

#include "reader/order_options.h"
#include "reader/reader_row.h"
#include "reader/uci/uci_source.h"

namespace tutti::reader {

struct UciStreamOptions {
  enum class Type { category, regression, none };
  std::string file;
  std::int64_t dim = 0, start = 0, classes = 0;
  Type type = Type::category;
  std::string mapping;
  bool sparse = false;
  bool labels = false;  // known by labelDim, labelType or labelMappingFile
  void describe(config::Fields& f);
  UciStream stream(const std::string& name) const;
};

struct UciReaderOptions {
  std::vector<std::pair<std::string, UciStreamOptions>> streams;
  std::string file, delimiter, decimal_point = ".";
  RandomizeOptions order;
  std::int64_t header_lines = 0, max_errors = 0, trace_level = 0;
  std::int64_t chunk_bytes = 33'554'432, keep_bytes = std::int64_t{1} << 30;
  void describe(config::Fields& f);
  void describe_settings(config::Fields& f);  // all but the streams
};

ReadBlock read_uci;
void describe_uci_reader(config::Fields& f);  // with two streams

}  // namespace tutti::reader
