// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG images, and the map files that list them: the first byte says which of the two the others are.
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::fuzz;
  if (size == 0) return 0;
  const std::string rest(view(data + 1, size - 1));
  const std::string image = write("image.png", rest);
  const std::string map = write("map.txt", data[0] % 4 == 3 ? rest : image + "\t1\n" + image + "\t0\n");
  read_all("readerType = ImageReader\nfile = \"" + map +
           "\"\nmaxErrors = 2\n"
           "features = [ width = 8 ; height = 8 ; channels = 3 ; cropType = \"randomside\" ; sideRatio = 0.8 ]\nlabels "
           "= [ labelDim = 2 ]");
  return 0;
}
