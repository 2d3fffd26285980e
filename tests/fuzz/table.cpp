// SPDX-License-Identifier: Apache-2.0
// Tables in text files (UCIFastReader).
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::fuzz;
  const std::string names = write("names.txt", "a\nbb\nc\n"), file = write("data.csv", view(data, size));
  read_all("readerType = UCIFastReader\nfile = \"" + file +
           "\"\ncustomDelimiter = \",\"\nfeatures = [ dim = 2 ; start = 0 ]\n"
           "labels = [ start = 2 ; labelDim = 3 ; labelMappingFile = \"" +
           names + "\" ]");
  return 0;
}
