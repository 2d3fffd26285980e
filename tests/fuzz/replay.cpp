// SPDX-License-Identifier: Apache-2.0
// replay.cpp -- runs a fuzz target on the files of a folder: seeds, and cases that were found once; then on about four
// hundred copies of them with random changes, the same every time. This is a short run with any compiler;
// scripts/fuzz.sh makes long ones, which learn from the coverage. Usage: fuzz_replay TARGET FOLDER
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#define TARGET(name) extern "C" int fuzz_##name(const std::uint8_t*, std::size_t);
#include <fuzz_targets.h>
#undef TARGET

namespace {

using Target = int (*)(const std::uint8_t*, std::size_t);

void call(Target target, const std::string& bytes) {
  target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// One to four changes: a bit flips, a byte takes another value, a part is repeated, or is gone.
std::string changed(std::string bytes, std::mt19937& draw) {
  for (unsigned left = 1 + draw() % 4; left > 0 && !bytes.empty(); --left) {
    const std::size_t at = draw() % bytes.size();
    const std::string part = bytes.substr(at, 1 + draw() % 16);
    switch (draw() % 4) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << draw() % 8);
        break;
      case 1:
        bytes[at] = static_cast<char>(draw() % 256);
        break;
      case 2:
        bytes.insert(draw() % bytes.size(), part);
        break;
      default:
        bytes.erase(at, part.size());
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: fuzz_replay TARGET FOLDER\n"), 2;
#define TARGET(name) {#name, fuzz_##name},
  const std::map<std::string, Target> targets{
#include <fuzz_targets.h>
  };
  const auto target = targets.find(argv[1]);
  if (target == targets.end()) return std::fprintf(stderr, "there is no target '%s'\n", argv[1]), 2;
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    std::ifstream in(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);
    call(target->second, seeds.back());
    // Every seed also cut short, which is what a full disk leaves.
    call(target->second, seeds.back().substr(0, seeds.back().size() * 2 / 3));
  }
  if (seeds.empty()) return 1;
  std::ranges::sort(seeds);
  std::mt19937 draw(1);
  for (std::size_t i = 0; i < 400; ++i) {
    std::printf("change %zu\n", i);
    std::fflush(stdout);
    call(target->second, changed(seeds[i % seeds.size()], draw));
  }
  std::printf("%zu cases\n", seeds.size());
  return 0;
}
