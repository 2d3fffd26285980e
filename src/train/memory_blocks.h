// SPDX-License-Identifier: Apache-2.0
// memory_blocks.h -- bytes that are appended, in blocks that never move. Large blocks are taken again by the next user:
// fresh memory costs more than the copy into it, as the system clears it page by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

class MemoryBlocks {
 public:
  MemoryBlocks() = default;
  ~MemoryBlocks();
  MemoryBlocks(const MemoryBlocks&) = delete;
  MemoryBlocks& operator=(const MemoryBlocks&) = delete;

  void reserve(std::uint64_t bytes);  // the next `bytes` bytes are in one block
  void append(std::span<const std::byte>);
  void replace(std::uint64_t at, std::span<const std::byte>);  // within one block
  std::uint64_t size() const { return size_; }
  // Allocates memory for entries of these sizes, and touches it, so that append() does not wait for the system.
  static void prepare(std::span<const std::uint64_t> sizes);
  void each(const std::function<void(std::span<const std::byte>)>&) const;

 private:
  struct Free {
    void operator()(std::byte*) const;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> bytes;
    std::size_t capacity = 0, used = 0;
  };
  static std::vector<Block>& spare();  // of the process
  static Block take(std::size_t bytes);

  std::vector<Block> blocks_;
  std::uint64_t size_ = 0;
};

}  // namespace tutti
