// SPDX-License-Identifier: Apache-2.0
// deserializers.h -- the types of deserializers: each is a source of sequences with keys. A new type is a row in
// deserializers.cpp.
#pragma once

#include <string>
#include <vector>

#include "reader/reader_row.h"

namespace tutti::reader {

struct DeserializerRow {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
  // The block inherits from the reader's, where randomize, maxErrors, frameMode and so on usually are. Only the source
  // and the description of the result are used.
  ReadBlock* read;
};
const std::vector<DeserializerRow>& deserializer_table();

}  // namespace tutti::reader
