// SPDX-License-Identifier: Apache-2.0
// line_set.h -- collects line numbers and gives them back once each, ascending. Planned for a number of lines; adding
// and taking allocate nothing when the list taken into has capacity.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

class LineSet {
 public:
  void plan(std::size_t lines) {
    marks_.assign((lines + 63) / 64, 0);
    added_.reserve(marks_.size() / kSortedShare + 1);
  }
  void add(std::uint32_t line) {
    const std::uint64_t bit = std::uint64_t{1} << (line % 64);
    std::uint64_t& word = marks_[line / 64];
    if (word & bit) return;
    word |= bit;
    ++count_;
    if (added_.size() < added_.capacity()) added_.push_back(line);
  }
  void add(std::span<const std::uint32_t> lines) {
    for (const auto line : lines) add(line);
  }
  // The lines added since the last take().
  void take(std::vector<std::uint32_t>& lines) {
    lines.clear();
    if (count_ == added_.size()) {  // few: sorting them is less work than looking at every mark
      std::sort(added_.begin(), added_.end());
      lines.insert(lines.end(), added_.begin(), added_.end());
      for (const auto line : added_) marks_[line / 64] = 0;
    } else {
      for (std::size_t w = 0; w < marks_.size(); ++w) {
        for (std::uint64_t bits = marks_[w]; bits != 0; bits &= bits - 1)
          lines.push_back(static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
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
