// SPDX-License-Identifier: Apache-2.0
#include "tutti/placement.h"

#include <algorithm>

namespace tutti {

const char* to_string(Placement p) {
  return p == Placement::shard ? "shard" : p == Placement::single ? "single" : "replicate";
}

Shape ParameterShard::part(int rank, int ranks) const {
  Shape s = whole;
  if (s.dims.size() <= axis) s.dims.resize(axis + 1, 1);
  s.dims[axis] = range(rank, ranks).size();
  return s;
}

namespace {

// Calls use(offset in the whole, offset in the part, count) for each run that is contiguous in both.
template <class Use>
void each_run(const ParameterShard& s, int rank, int ranks, const Use& use) {
  const ShardRange range = s.range(rank, ranks);
  std::size_t inner = 1;
  for (std::size_t a = 0; a < s.axis; ++a) inner *= s.whole[a];
  const std::size_t size = s.whole[s.axis], outer = s.whole.elements() / (inner * size);
  for (std::size_t o = 0; o < outer && range.size() > 0; ++o)
    use((o * size + range.first) * inner, o * range.size() * inner, range.size() * inner);
}

}  // namespace

void take_part(const ParameterShard& s, int rank, int ranks, std::span<const float> whole, std::span<float> part) {
  each_run(s, rank, ranks, [&](std::size_t from, std::size_t to, std::size_t count) {
    std::copy_n(whole.data() + from, count, part.data() + to);
  });
}

void put_part(const ParameterShard& s, int rank, int ranks, std::span<const float> part, std::span<float> whole) {
  each_run(s, rank, ranks, [&](std::size_t to, std::size_t from, std::size_t count) {
    std::copy_n(part.data() + from, count, whole.data() + to);
  });
}

}  // namespace tutti
