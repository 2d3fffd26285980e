// SPDX-License-Identifier: Apache-2.0
// HDF5 files through the reader. The library itself is not instrumented.
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::fuzz;
  const std::string file = write("data.h5", view(data, size));
  read_all("readerType = HDF5Reader\nfile = \"" + file +
           "\"\ninput = [ features = [ dataset = \"Images\" ]\n"
           "labels = [ dataset = \"OutClass\" ; labelDim = 3 ] ]");
  return 0;
}
