// SPDX-License-Identifier: Apache-2.0
// CNTK text format (CTF), dense and sparse streams.
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::fuzz;
  const std::string file = write("data.ctf", view(data, size));
  read_all("readerType = CNTKTextFormatReader\nfile = \"" + file +
           "\"\nmaxErrors = 3\ninput = [ features = [ alias = \"x\" ; dim = 2 ; format = \"dense\" ]\n"
           "labels = [ alias = \"y\" ; dim = 9 ; format = \"sparse\" ] ]");
  return 0;
}
