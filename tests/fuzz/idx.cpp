// SPDX-License-Identifier: Apache-2.0
// IDX files (MNIST), plain and gzip.
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::fuzz;
  const std::string file = write("data.idx", view(data, size));
  read_all("readerType = IDXReader\nfeatures = [ file = \"" + file + "\" ]");
  read_all("readerType = IDXReader\nlabels = [ file = \"" + file + "\" ; labelDim = 10 ; format = \"sparse\" ]");
  return 0;
}
