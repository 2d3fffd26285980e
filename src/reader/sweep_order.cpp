// SPDX-License-Identifier: Apache-2.0
// Chunks are shuffled first, then sequences within a window of chunks around their own, so that only the chunks of one
// window need be in reach at a time. The random draws are those of the original, one for one.
#include "reader/sweep_order.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace tutti::reader {
namespace {

// A seed of the user's own must not merely shift the sweeps: seed 1's first order is not seed 0's second.
std::uint64_t engine_seed(std::uint64_t seed, std::int64_t sweep) {
  if (seed == 0) return static_cast<std::uint64_t>(sweep);
  std::uint64_t z = seed * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(sweep);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

SweepOrder::SweepOrder(const SequenceIndex& index, Randomization randomization)
    : index_(index), randomization_(randomization) {}

void SweepOrder::set_sweep(std::int64_t sweep) {
  if (!randomization_.shuffle || sweep == sweep_) return;
  sweep_ = sweep;
  const std::uint64_t seed = engine_seed(randomization_.seed, sweep);
  place_chunks(seed);
  order_.resize(index_.sequences());
  for (const auto& p : placed_)
    std::iota(order_.begin() + p.first_place, order_.begin() + p.first_place + p.chunk.sequences, p.chunk.first);
  find_windows();
  const bool whole = std::all_of(placed_.begin(), placed_.end(), [&](const Placed& p) {
    return p.window_begin == 0 && p.window_end == placed_.size();
  });
  if (whole) {
    shuffle_everything(seed);
  } else {
    shuffle_in_windows(seed);
  }
}

void SweepOrder::place_chunks(std::uint64_t seed) {
  const auto& chunks = index_.chunks();
  placed_.assign(chunks.size(), {});
  for (std::size_t i = 0; i < chunks.size(); ++i) placed_[i].chunk = chunks[i];
  std::mt19937_64 engine(seed);
  for (std::size_t i = 0; i < placed_.size(); ++i) std::swap(placed_[i], placed_[engine() % placed_.size()]);
  std::uint32_t place = 0;
  std::int64_t sample = 0;
  for (auto& p : placed_) {
    p.first_place = place;
    p.first_sample = sample;
    place += p.chunk.sequences;
    sample += p.chunk.samples;
  }
}

void SweepOrder::find_windows() {
  const std::int64_t half =
      randomization_.window > 0 ? randomization_.window / 2 : std::numeric_limits<std::int64_t>::max();
  std::size_t begin = 0, end = 0;  // both only grow from chunk to chunk
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    const std::int64_t start = placed_[i].first_sample;
    while (start - placed_[begin].first_sample > half) ++begin;
    end = std::max(end, i + 1);
    while (end < placed_.size() && placed_[end].first_sample + placed_[end].chunk.samples - start < half) ++end;
    placed_[i].window_begin = begin;
    placed_[i].window_end = end;
  }
}

void SweepOrder::shuffle_everything(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const std::uint64_t n = order_.size();
  for (std::uint64_t t = 0; t < n; ++t) std::swap(order_[t], order_[engine() % n]);
}

void SweepOrder::shuffle_in_windows(std::uint64_t seed) {
  home_.resize(order_.size());
  for (std::size_t c = 0; c < placed_.size(); ++c)
    std::fill_n(home_.begin() + placed_[c].first_place, placed_[c].chunk.sequences, static_cast<std::uint32_t>(c));
  const auto chunk_at = [&](std::uint32_t place) {
    const auto after = std::upper_bound(placed_.begin(), placed_.end(), place,
                                        [](std::uint32_t at, const Placed& p) { return at < p.first_place; });
    return static_cast<std::size_t>(after - placed_.begin()) - 1;
  };
  const auto in_window = [&](std::uint32_t home, const Placed& p) {
    return home >= p.window_begin && home < p.window_end;
  };

  std::mt19937_64 engine(seed);
  for (std::size_t c = 0; c < placed_.size(); ++c) {
    const Placed& own = placed_[c];
    const std::uint32_t low = placed_[own.window_begin].first_place;
    const Placed& last = placed_[own.window_end - 1];
    const std::uint64_t range = last.first_place + last.chunk.sequences - low;
    for (std::uint32_t t = own.first_place; t < own.first_place + own.chunk.sequences; ++t)
      for (;;) {
        const std::uint32_t j = low + static_cast<std::uint32_t>(engine() % range);
        // A sequence may only move to where its chunk is in the window; the draw t itself is always valid in the end.
        if (!in_window(home_[j], own) || !in_window(home_[t], placed_[chunk_at(j)])) continue;
        std::swap(order_[t], order_[j]);
        std::swap(home_[t], home_[j]);
        break;
      }
  }
}

}  // namespace tutti::reader
