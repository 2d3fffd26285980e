// SPDX-License-Identifier: Apache-2.0
#include "train/memory_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace tutti {
namespace {

constexpr std::size_t kSmall = 1 << 20;
constexpr std::size_t kHugePage = 2 << 20;
std::mutex spare_mutex;

}  // namespace

void MemoryBlocks::Free::operator()(std::byte* p) const { std::free(p); }

std::vector<MemoryBlocks::Block>& MemoryBlocks::spare() {
  static std::vector<Block> blocks;
  return blocks;
}

// Two checkpoints' worth may be spare: those that the model and the state of an epoch have left.
MemoryBlocks::~MemoryBlocks() {
  const std::lock_guard lock(spare_mutex);
  auto& spares = spare();
  spares.clear();
  for (Block& b : blocks_)
    if (b.capacity >= kHugePage) spares.push_back(std::move(b));
}

MemoryBlocks::Block MemoryBlocks::take(std::size_t bytes) {
  Block block;
  if (bytes >= kHugePage) {
    const std::lock_guard lock(spare_mutex);
    auto& spares = spare();
    for (auto at = spares.begin(); at != spares.end(); ++at)
      if (at->capacity >= bytes && at->capacity <= 2 * bytes) {
        block = std::move(*at);
        spares.erase(at);
        block.used = 0;
        return block;
      }
  }
  block.capacity = (std::max(bytes, kSmall) + kHugePage - 1) / kHugePage * kHugePage;
  if (bytes < kHugePage) block.capacity = std::max(bytes, kSmall);
  const std::size_t alignment = bytes < kHugePage ? 4096 : kHugePage;
  block.capacity = (block.capacity + alignment - 1) / alignment * alignment;
  block.bytes.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, block.capacity)));
  if (!block.bytes) throw std::bad_alloc();
  if (alignment == kHugePage) madvise(block.bytes.get(), block.capacity, MADV_HUGEPAGE);  // a wish
  return block;
}

void MemoryBlocks::reserve(std::uint64_t bytes) {
  if (blocks_.empty() || blocks_.back().capacity - blocks_.back().used < bytes) blocks_.push_back(take(bytes));
}

void MemoryBlocks::prepare(std::span<const std::uint64_t> sizes) {
  std::vector<Block> made;
  for (const std::uint64_t size : sizes) {
    if (size < kHugePage) continue;
    made.push_back(take(size));
    for (std::size_t at = 0; at < made.back().capacity; at += 4096) made.back().bytes.get()[at] = std::byte{1};
  }
  const std::lock_guard lock(spare_mutex);
  for (Block& b : made) spare().push_back(std::move(b));
}

void MemoryBlocks::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  reserve(bytes.size());
  Block& block = blocks_.back();
  std::memcpy(block.bytes.get() + block.used, bytes.data(), bytes.size());
  block.used += bytes.size();
  size_ += bytes.size();
}

void MemoryBlocks::replace(std::uint64_t at, std::span<const std::byte> bytes) {
  for (Block& block : blocks_) {
    if (at < block.used) {
      assert(at + bytes.size() <= block.used);
      std::memcpy(block.bytes.get() + at, bytes.data(), bytes.size());
      return;
    }
    at -= block.used;
  }
}

void MemoryBlocks::each(const std::function<void(std::span<const std::byte>)>& use) const {
  for (const Block& block : blocks_) use({block.bytes.get(), block.used});
}

}  // namespace tutti
