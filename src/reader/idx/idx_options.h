// SPDX-License-Identifier: Apache-2.0
// idx_options.h -- the block of readerType = "IDXReader".
#pragma once

#include "reader/idx/idx_source.h"
#include "reader/order_options.h"

namespace tutti::reader {

struct IdxStreamOptions {
  std::string file;
  std::int64_t dim = 0;
  bool sparse = false;
  double scale = 0;
  void describe(config::Fields& f) {
    f("file", file, "an IDX file, plain or gzip");
    f.required("file");
    f("labelDim", dim, "number of classes: the file holds class numbers and the stream is one-hot; 0 = plain numbers");
    f.alias("dim", "labelDim");
    f.choice("format", sparse, {{"dense", false}, {"sparse", true}}, "format of one-hot vectors");
    f("scale", scale, "factor on plain numbers; 0 = bytes to 0..1 (1/255), other types as they are");
    if (dim < 0) f.problem("labelDim", "labelDim is the number of classes", "10 for digits");
  }
};

struct IdxReaderOptions {
  std::vector<std::pair<std::string, IdxStreamOptions>> input;
  OrderOptions order;
  void describe(config::Fields& f) {
    f.blocks(
        "input", input,
        "one block per stream, under the name of the network's input; they may also stand in the reader block itself");
    order.describe(f);
    f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  }
  std::vector<IdxStream> streams() const {
    std::vector<IdxStream> streams;
    for (const auto& [name, s] : input) streams.push_back({name, s.file, s.dim, s.sparse, s.scale});
    return streams;
  }
};

}  // namespace tutti::reader
