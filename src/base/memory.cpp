// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace tutti {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Whether the machine has as much left. The kernel lends more than there is and ends, without a word, who uses it.
bool fits(std::size_t bytes) {
  if (bytes < (std::size_t{1} << 30)) return true;
  std::ifstream file("/proc/meminfo");
  std::size_t kilobytes = 0;
  bool known = false;
  for (std::string line; std::getline(file, line);)
    for (const std::string key : {"MemAvailable:", "SwapFree:"})
      if (line.starts_with(key)) {
        kilobytes += std::strtoull(line.c_str() + key.size(), nullptr, 10);
        known = known || key == "MemAvailable:";
      }
  return !known || bytes / 1024 <= kilobytes;
}

}  // namespace

float* allocate_floats(std::size_t count) {
  const std::size_t wanted = std::max<std::size_t>(count, 1) * sizeof(float);
  const std::size_t unit = wanted >= kHugePage ? kHugePage : kLine;
  const std::size_t bytes = (wanted + unit - 1) / unit * unit;
  void* p = fits(bytes) ? std::aligned_alloc(unit, bytes) : nullptr;
  if (!p) return nullptr;
  if (unit == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // a wish; without it everything works as well
  std::memset(p, 0, bytes);
  return static_cast<float*>(p);
}

}  // namespace tutti
