// SPDX-License-Identifier: Apache-2.0
// hdf5_options.h -- the block of readerType = "HDF5Reader".
#pragma once

#include "reader/hdf5/hdf5_source.h"
#include "reader/order_options.h"
#include "reader/reader_row.h"

namespace tutti::reader {

struct Hdf5StreamOptions {
  std::string dataset;
  std::int64_t dim = 0, classes = 0;
  bool sparse = false;
  double scale = 1;
  void describe(config::Fields& f);
};

struct Hdf5ReaderOptions {
  std::string file, list;
  std::vector<std::string> files;
  std::vector<std::pair<std::string, Hdf5StreamOptions>> input;
  OrderOptions order;
  TruncationOptions truncation;
  std::int64_t window = 0;
  std::string lengths;
  std::int64_t max_errors = 0, trace_level = 0;
  std::int64_t chunk_bytes = 33'554'432, keep_bytes = std::int64_t{1} << 30;

  void describe(config::Fields& f);
};

ReadBlock read_hdf5;

}  // namespace tutti::reader
