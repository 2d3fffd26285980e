// SPDX-License-Identifier: Apache-2.0
// HTK features and master label files: the first byte says which of the two the others are.
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::fuzz;
  if (size == 0) return 0;
  // Two frames of two floats, big-endian: frames, period, bytes per frame, kind USER.
  static const std::string features("\0\0\0\2\0\1\x86\xA0\0\x08\0\x09\x3F\x80\0\0\x40\0\0\0\x40\x40\0\0\x40\x80\0\0",
                                    28);
  static const std::string labels = "#!MLF!#\n\"*/u1.lab\"\n0 200000 s1\n.\n";
  const std::string other(view(data + 1, size - 1));
  const bool is_labels = data[0] % 2 != 0;
  const std::string file = write("u1.htk", is_labels ? features : other);
  const std::string script =
      data[0] % 4 == 2 ? write("train.scp", other) : write("train.scp", "u1.lab=" + file + "[0,1]\n");
  const std::string mlf = write("train.mlf", is_labels ? other : labels), states = write("states.list", "s0\ns1\n");
  read_all("readerType = HTKDeserializers\nframeMode = true\nfeatures = [ scpFile = \"" + script +
           "\" ; dim = 2 ]\n"
           "labels = [ mlfFile = \"" +
           mlf + "\" ; labelMappingFile = \"" + states + "\" ; labelDim = 2 ]");
  return 0;
}
