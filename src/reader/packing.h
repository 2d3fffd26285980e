// SPDX-License-Identifier: Apache-2.0
// packing.h -- how many columns the sequences of a share take when packed side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::reader {

// First fit: rows as wide as the longest sequence; each sequence goes to the first row with capacity left, else opens a
// row. The count includes the gaps at the row ends. Keeps its scratch memory.
class Packing {
 public:
  std::int64_t columns(std::span<const std::int64_t> lengths);

 private:
  std::vector<std::int64_t> capacity_;  // a tournament tree: capacity_[1] is the largest capacity of all rows
};

}  // namespace tutti::reader
