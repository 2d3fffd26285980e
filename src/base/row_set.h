// SPDX-License-Identifier: Apache-2.0
// row_set.h -- collects row numbers and returns each once, in ascending order. Planned for a number of rows; adding and
// taking allocate nothing if the target list has capacity.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

class RowSet {
 public:
  void plan(std::size_t rows) {
    marks_.assign((rows + 63) / 64, 0);
    added_.reserve(marks_.size() / kSortedShare + 1);
  }
  void add(std::uint32_t row) {
    const std::uint64_t bit = std::uint64_t{1} << (row % 64);
    std::uint64_t& word = marks_[row / 64];
    if (word & bit) return;
    word |= bit;
    ++count_;
    if (added_.size() < added_.capacity()) added_.push_back(row);
  }
  void add(std::span<const std::uint32_t> rows) {
    for (const auto row : rows) add(row);
  }
  // The rows added since the last take().
  void take(std::vector<std::uint32_t>& rows) {
    rows.clear();
    if (count_ == added_.size()) {  // few: sorting them is cheaper than scanning all marks
      std::sort(added_.begin(), added_.end());
      rows.insert(rows.end(), added_.begin(), added_.end());
      for (const auto row : added_) marks_[row / 64] = 0;
    } else {
      for (std::size_t w = 0; w < marks_.size(); ++w) {
        for (std::uint64_t bits = marks_[w]; bits != 0; bits &= bits - 1)
          rows.push_back(static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
        marks_[w] = 0;
      }
    }
    added_.clear();
    count_ = 0;
  }

 private:
  static constexpr std::size_t kSortedShare = 16;  // of the words of marks
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint32_t> added_;
  std::size_t count_ = 0;
};

}  // namespace tutti
