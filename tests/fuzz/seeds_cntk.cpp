// SPDX-License-Identifier: Apache-2.0
// Writes files of CNTK's formats into a folder, from which fuzz_cntk_model starts: seeds_cntk FOLDER.
#include <cstdio>
#include <fstream>
#include <string>

#include "../cntk/model_writer.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: fuzz_seeds_cntk FOLDER\n", stderr), 2;
  using namespace tutti::cntk::testing;
  for (const int version : {7, 10, 18})
    for (const char* precision : {"float", "double"}) {
      const auto bytes = model_of_every_kind(static_cast<std::uint64_t>(version), precision).bytes();
      std::ofstream out(std::string(argv[1]) + "/" + std::to_string(version) + precision, std::ios::binary);
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  const auto bytes = small_checkpoint();
  std::ofstream out(std::string(argv[1]) + "/checkpoint", std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return out.good() ? 0 : 1;
}
