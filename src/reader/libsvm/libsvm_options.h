// SPDX-License-Identifier: Apache-2.0
// libsvm_options.h -- the block of readerType = "LibSVMBinaryReader".
#pragma once

#include <map>

#include "reader/order_options.h"
#include "reader/reader_row.h"

namespace tutti::reader {

struct LibsvmReaderOptions {
  std::string file;
  RandomizeOptions order{.randomize = "none"};
  std::int64_t max_errors = 0, trace_level = 0;
  std::map<std::string, std::string> renamed;  // by blocks: name in the file -> name of the network's input
  void describe(config::Fields& f);
};

ReadBlock read_libsvm;

}  // namespace tutti::reader
