// SPDX-License-Identifier: Apache-2.0
// Models and checkpoints of CNTK: any bytes are read, or refused with an Error.
#include <cstdint>
#include <vector>

#include "cntk/checkpoint.h"
#include "cntk/model.h"
#include "tutti/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::vector<char> bytes(data, data + size);
  try {
    cntk::read_model(cntk::ByteReader("input", bytes));
  } catch (const Error&) {
  }
  try {
    cntk::read_checkpoint(cntk::ByteReader("input", bytes));
  } catch (const Error&) {
  }
  return 0;
}
