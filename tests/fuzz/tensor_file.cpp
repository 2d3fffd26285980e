// SPDX-License-Identifier: Apache-2.0
// Weights in files of other programs: safetensors (TENSOR_FILE=0) and npz (1).
#include "interchange/tensor_file.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::string path = fuzz::write("tensors", fuzz::view(data, size));
  fuzz::expect_no_crash([&] {
    const auto file = TENSOR_FILE == 0 ? interchange::open_safetensors(path) : interchange::open_npz(path);
    for (const auto& entry : file->entries()) fuzz::expect_no_crash([&] { file->read(entry); });
  });
  return 0;
}
