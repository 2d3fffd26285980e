// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace tutti {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// malloc takes blocks of this size from the system directly, as zero pages that exist once they are touched.
constexpr std::size_t kUntouched = std::size_t{64} << 20;

std::atomic<bool> only_planned{false};
std::atomic<std::size_t> planned{0}, allocated{0};

bool fits(std::size_t bytes) {
  if (bytes < (std::size_t{1} << 30)) return true;
  return bytes <= available_memory().value_or(bytes);
}

}  // namespace

float* allocate_floats(std::size_t count) {
  const std::size_t wanted = std::max<std::size_t>(count, 1) * sizeof(float);
  const std::size_t unit = wanted >= kHugePage ? kHugePage : kLine;
  const std::size_t bytes = (wanted + unit - 1) / unit * unit;
  if (only_planned) {
    planned += bytes;
    if (bytes >= kUntouched) return static_cast<float*>(std::aligned_alloc(unit, bytes));
  }
  void* p = fits(bytes) ? std::aligned_alloc(unit, bytes) : nullptr;
  if (!p) return nullptr;
  if (unit == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // a wish; without it everything works as well
  std::memset(p, 0, bytes);
  allocated += bytes;
  return static_cast<float*>(p);
}

std::size_t allocated_memory() { return allocated; }

void only_plan_memory() { only_planned = true; }
bool memory_is_only_planned() { return only_planned; }
void count_planned_memory(std::size_t bytes) { planned += bytes; }
std::size_t planned_memory() { return planned; }

}  // namespace tutti
