// SPDX-License-Identifier: Apache-2.0
// deserializers.h -- what the type of a deserializer can be: a source of sequences that have keys. A new one is a row
// in deserializers.cpp.
#pragma once

#include <string>
#include <vector>

#include "reader/reader_row.h"

namespace tutti::reader {

struct DeserializerRow {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
  // The block inherits from the reader's: randomize, maxErrors, frameMode and so on stand there as a rule. What matters
  // of the result are the source and the description.
  ReadBlock* read;
};
const std::vector<DeserializerRow>& deserializer_table();

}  // namespace tutti::reader
