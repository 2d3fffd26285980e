// SPDX-License-Identifier: Apache-2.0
// Chunks are shuffled first, then sequences within a window of chunks around their own, so that only the chunks of one
// window need be in reach at a time. The random draws are those of the original, one for one.
#include "reader/sweep_order.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "reader/counter_random.h"
#include "tutti/error.h"

namespace tutti::reader {
namespace {

// A seed of the user's own must not merely shift the sweeps: seed 1's first order is not seed 0's second.
std::uint64_t engine_seed(std::uint64_t seed, std::int64_t sweep) {
  if (seed == 0) return static_cast<std::uint64_t>(sweep);
  return CounterRandom::mix(seed * CounterRandom::golden + static_cast<std::uint64_t>(sweep));
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

void OrderCursor::seek(std::int64_t position) {
  sweep_ = position / index_.samples();
  const std::int64_t offset = position % index_.samples();
  order_.set_sweep(sweep_);
  std::int64_t at = 0;
  if (index_.single_samples()) {
    place_ = static_cast<std::uint32_t>(offset);
    at = offset;
  } else {
    for (place_ = 0; at < offset; ++place_) at += index_.samples_of(order_[place_]);
  }
  position_ = sweep_ * index_.samples() + at;
}

void OrderCursor::next_sweep() {
  ++sweep_;
  place_ = 0;
  order_.set_sweep(sweep_);
}

std::uint32_t OrderCursor::take() {
  const std::uint32_t sequence = order_[place_++];
  position_ += index_.samples_of(sequence);
  return sequence;
}

OrderCursor::EpochRange OrderCursor::epoch(const EpochPlan& plan) const {
  const std::int64_t samples = plan.samples > 0 ? plan.samples : index_.samples();
  EpochRange s;
  if (__builtin_mul_overflow(plan.epoch, samples, &s.begin) || __builtin_add_overflow(s.begin, samples, &s.end))
    throw Error("reading: epochSize times the number of epochs is beyond all counting");
  return s;
}

}  // namespace tutti::reader
