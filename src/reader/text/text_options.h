// SPDX-License-Identifier: Apache-2.0
// text_options.h -- the block of readerType = "CNTKTextFormatReader".
#pragma once

#include "reader/order_options.h"
#include "reader/text/text_source.h"

namespace tutti::reader {

struct TextStreamOptions {
  enum class Format { dense, sparse };
  std::string alias;
  std::int64_t dim = 0;
  Format format = Format::dense;
  void describe(config::Fields& f) {
    f("dim", dim, "numbers per sample");
    f.required("dim");
    f.choice("format", format, {{"dense", Format::dense}, {"sparse", Format::sparse}}, "how the values are written");
    f.required("format");
    f("alias", alias, "the stream's name in the file; \"\" = the name of this block");
    f.no_effect("definesMBSize", "a sequence counts as many samples as its longest stream has");
    if (f.given("dim") && (dim < 1 || dim > 2'147'483'647))
      f.problem("dim", "dim is the number of values per sample", "1 or more");
  }
};

struct TextReaderOptions {
  std::string file;
  std::vector<std::pair<std::string, TextStreamOptions>> input;
  OrderOptions order;
  TruncationOptions truncation;
  std::int64_t window = 0;
  bool skip_sequence_ids = false;
  bool frame_mode = false;
  std::int64_t max_errors = 0;
  std::int64_t trace_level = 0;
  std::int64_t chunk_bytes = 33'554'432;
  bool keep_in_memory = false;
  std::int64_t keep_bytes = std::int64_t{1} << 30;
  std::string precision = "float";

  void describe(config::Fields& f);
  TextSourceOptions source() const;
};

}  // namespace tutti::reader
