// SPDX-License-Identifier: Apache-2.0
// Layout of a kept sequence, in 32-bit words: samples; then per stream the columns followed by the dense values, or by
// the items of each column, all indices and all values.
#include <algorithm>
#include <cstring>

#include "reader/text/text_source.h"

namespace tutti::reader {
namespace {

std::size_t last_columns(const StreamBuffer& s) {
  const std::size_t n = s.sequence_begin.size();
  return static_cast<std::size_t>(s.sequence_begin[n - 1] - s.sequence_begin[n - 2]);
}

}  // namespace

SequenceCache::Word* SequenceCache::allocate(std::size_t words) {
  constexpr std::size_t block = (1 << 20) / sizeof(Word);
  if (left_ < words) {
    left_ = std::max(block, words);
    blocks_.push_back(std::make_unique_for_overwrite<Word[]>(left_));
    free_ = blocks_.back().get();
  }
  Word* const place = free_;
  free_ += words;
  left_ -= words;
  return place;
}

void SequenceCache::keep(std::uint32_t sequence, Share& share) {
  std::size_t words = 1;
  for (const auto& s : share.streams()) {
    const std::size_t columns = last_columns(s);
    words += 1 + columns * (s.info.sparse ? 1 : s.info.dim);
    if (s.info.sparse) words += 2 * (s.values.size() - static_cast<std::size_t>(s.column_begin[s.columns - columns]));
  }
  Word* to = allocate(words);
  at_[sequence] = to;
  Word* const samples = to++;
  *samples = 0;
  const auto copy = [&to](const auto* from, std::size_t n) {
    if (n > 0) std::memcpy(to, from, n * sizeof(Word));
    to += n;
  };
  for (const auto& s : share.streams()) {
    const std::size_t columns = last_columns(s);
    *samples = std::max(*samples, static_cast<Word>(columns));
    *to++ = static_cast<Word>(columns);
    if (!s.info.sparse) {
      copy(s.dense.data() + s.dense.size() - columns * s.info.dim, columns * s.info.dim);
      continue;
    }
    for (std::size_t c = s.columns - columns; c < s.columns; ++c)
      *to++ = static_cast<Word>(s.column_begin[c + 1] - s.column_begin[c]);
    const auto first = static_cast<std::size_t>(s.column_begin[s.columns - columns]);
    copy(s.indices.data() + first, s.indices.size() - first);
    copy(s.values.data() + first, s.values.size() - first);
  }
}

bool SequenceCache::copy(std::uint32_t sequence, Share& share) const {
  const Word* from = at_[sequence];
  if (!from) return false;
  const Word samples = *from++;
  const auto append = [&from](auto& to, std::size_t n) {
    if (n > 0) std::memcpy(to.extend(n), from, n * sizeof(Word));
    from += n;
  };
  for (auto& s : share.streams()) {
    const Word columns = *from++;
    if (!s.info.sparse) {
      append(s.dense, columns * s.info.dim);
      s.columns += columns;
      continue;
    }
    std::int64_t end = s.column_begin[s.columns];
    const std::int64_t begin = end;
    for (Word c = 0; c < columns; ++c) s.column_begin.push_back(end += *from++);
    s.columns += columns;
    append(s.indices, static_cast<std::size_t>(end - begin));
    append(s.values, static_cast<std::size_t>(end - begin));
  }
  share.end_sequence(samples);
  return true;
}

}  // namespace tutti::reader
