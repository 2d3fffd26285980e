// SPDX-License-Identifier: Apache-2.0
// replay.cpp -- runs a fuzz target on the files of a folder: seeds, and cases that were found once.
// Usage: fuzz_replay TARGET FOLDER
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#define TARGET(name) extern "C" int fuzz_##name(const std::uint8_t*, std::size_t);
#include <fuzz_targets.h>
#undef TARGET

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: fuzz_replay TARGET FOLDER\n"), 2;
#define TARGET(name) {#name, fuzz_##name},
  const std::map<std::string, int (*)(const std::uint8_t*, std::size_t)> targets{
#include <fuzz_targets.h>
  };
  const auto target = targets.find(argv[1]);
  if (target == targets.end()) return std::fprintf(stderr, "there is no target '%s'\n", argv[1]), 2;
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);
    target->second(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    // Every seed also cut short, which is what a full disk leaves.
    target->second(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size() * 2 / 3);
    ++cases;
  }
  std::printf("%d cases\n", cases);
  return cases > 0 ? 0 : 1;
}
