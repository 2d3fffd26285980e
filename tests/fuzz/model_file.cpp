// SPDX-License-Identifier: Apache-2.0
// Models and checkpoints: as they are, and once more with the size and the checksum that the bytes should have, so that
// what comes behind the checksum is reached.
#include "fuzz.h"

#include <xxhash.h>

#include <cstring>
#include <vector>

#include "train/container.h"
#include "train/model_file.h"

namespace {

void open(const std::string& file) {
  using namespace tutti;
  for (const char* const kind : {"model", "checkpoint"})
    fuzz::expect_no_crash([&] {
      const ContainerReader reader(file, kind);
      for (const auto& [name, entry] : reader.entries())
        fuzz::expect_no_crash([&, name = name, entry = entry] {
          std::vector<std::byte> bytes(entry.bytes);
          reader.read(entry, 0, bytes);
        });
      fuzz::expect_no_crash([&] { reader.integer("ranks"); });
      fuzz::expect_no_crash([&] { reader.text("graph"); });
    });
  fuzz::expect_no_crash([&] { load_graph(file); });
  fuzz::expect_no_crash([&] { load_trained(file); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  std::string bytes(fuzz::view(data, size));
  open(fuzz::write("model", bytes));
  constexpr std::size_t kTail = 24;  // size, checksum, end mark
  if (bytes.size() < 64 + 40) return 0;
  const std::uint64_t length = bytes.size();
  std::memcpy(bytes.data() + bytes.size() - kTail, &length, sizeof length);
  const std::uint64_t sum = XXH64(bytes.data(), bytes.size() - 16, 0);
  std::memcpy(bytes.data() + bytes.size() - 16, &sum, sizeof sum);
  std::memcpy(bytes.data() + bytes.size() - 8, "TUTTIEND", 8);
  open(fuzz::write("model", bytes));
  return 0;
}
