// SPDX-License-Identifier: Apache-2.0
// Rows of index:value (LibSVMBinaryReader).
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::fuzz;
  const std::string file = write("data.svm", view(data, size));
  read_all("readerType = LibSVMBinaryReader\nfile = \"" + file + "\"\nfeatures = [ dim = 5 ]\nlabels = [ dim = 2 ]");
  return 0;
}
