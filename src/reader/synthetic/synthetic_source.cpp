// SPDX-License-Identifier: Apache-2.0
// Digits are drawn on first use and kept as bytes; random numbers are copied from a pool.
#include "reader/synthetic/synthetic_source.h"

#include <algorithm>

#include "reader/counter_random.h"
#include "reader/default_loaders.h"
#include "reader/synthetic/digits.h"

namespace tutti::reader {
namespace {

constexpr std::size_t pictures_per_block = 1024;

std::vector<StreamInfo> infos_of(const SyntheticData& data) {
  std::vector<StreamInfo> infos;
  for (const auto& s : data.streams) infos.push_back(s.info);
  return infos;
}

SequenceIndex index_of(const SyntheticData& data) {
  if (data.longest == 1) return SequenceIndex::uniform(data.samples);
  SequenceIndex index;
  const std::uint64_t lengths = data.longest - data.shortest + 1;
  for (std::uint32_t i = 0; i < data.samples; ++i) {
    const std::uint64_t draw = CounterRandom(data.seed, data.first_sample + i).next();
    index.add(data.shortest + static_cast<std::uint32_t>(draw % lengths));
  }
  return index;
}

}  // namespace

DigitSource::DigitSource(SyntheticData data, DigitStyle style)
    : data_(std::move(data)),
      style_(style),
      infos_(infos_of(data_)),
      index_(SequenceIndex::uniform(data_.samples)),
      blocks_((data_.samples + pictures_per_block - 1) / pictures_per_block),
      drawn_(data_.samples) {}

const std::uint8_t* DigitSource::picture(std::uint32_t sequence) {
  auto& block = blocks_[sequence / pictures_per_block];
  constexpr std::size_t size = digit_side * digit_side;
  if (!block) block = std::make_unique_for_overwrite<std::uint8_t[]>(pictures_per_block * size);
  std::uint8_t* const place = block.get() + sequence % pictures_per_block * size;
  if (!drawn_[sequence]) {
    DigitImage image;
    draw_digit(data_.seed, data_.first_sample + sequence, style_, image);
    std::copy(image.begin(), image.end(), place);
    drawn_[sequence] = true;
  }
  return place;
}

void DigitSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (std::size_t s = 0; s < data_.streams.size(); ++s)
    for (const std::uint32_t i : sequences) {
      if (data_.streams[s].label) {
        share[s].add_one_hot(static_cast<std::size_t>(digit_label(data_.seed, data_.first_sample + i)));
      } else {
        const std::uint8_t* const from = picture(i);
        float* const to = share[s].add_dense();
        for (std::size_t p = 0; p < digit_side * digit_side; ++p) to[p] = static_cast<float>(from[p]) * (1.0f / 255.0f);
      }
    }
  share.end_single_samples(sequences.size());
}

RandomSource::RandomSource(SyntheticData data)
    : data_(std::move(data)), infos_(infos_of(data_)), index_(index_of(data_)) {
  std::size_t widest = 0;
  for (const auto& s : infos_) widest = std::max(widest, s.dim);
  pool_.resize(pool_starts + widest);
  CounterRandom random(data_.seed, 0);
  for (float& v : pool_) v = random.between(-1, 1);
}

void RandomSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  if (data_.longest == 1) {
    read_single_samples(sequences, share);
  } else {
    read_sequences(sequences, share);
  }
}

void RandomSource::add(std::size_t stream, std::uint64_t draw, StreamBuffer& to) const {
  const std::size_t dim = infos_[stream].dim;
  if (data_.streams[stream].label) {
    to.add_one_hot(static_cast<std::size_t>(draw % dim));
  } else {
    std::copy_n(pool_.data() + draw % pool_starts, dim, to.add_dense());
  }
}

std::uint64_t RandomSource::draw_of(std::size_t stream, std::uint32_t sequence) const {
  return CounterRandom(data_.seed + stream + 1, data_.first_sample + sequence).next();
}

void RandomSource::read_single_samples(std::span<const std::uint32_t> sequences, Share& share) {
  constexpr std::size_t worth_sharing = std::size_t{1} << 20;  // numbers
  for (std::size_t s = 0; s < data_.streams.size(); ++s) {
    if (!data_.streams[s].label && sequences.size() * infos_[s].dim >= worth_sharing)
      copy_together(s, sequences, share[s]);
    else
      for (const std::uint32_t i : sequences) add(s, draw_of(s, i), share[s]);
  }
  share.end_single_samples(sequences.size());
}

// On the training thread, which alone knows how many cores training uses.
void RandomSource::begin_epoch() {
  if (const std::size_t wanted = default_loaders(); !loaders_ || loaders_->size() != wanted)
    loaders_ = std::make_unique<ThreadPool>(wanted);
}

// Large samples, which one thread cannot copy as fast as a GPU consumes them.
void RandomSource::copy_together(std::size_t stream, std::span<const std::uint32_t> sequences, StreamBuffer& to) {
  const std::size_t dim = infos_[stream].dim, before = to.columns;
  for (std::size_t n = 0; n < sequences.size(); ++n) to.add_dense();
  if (!loaders_) begin_epoch();
  float* const first = to.dense.data() + before * dim;
  loaders_->run(sequences.size(), [&](std::size_t n, std::size_t) {
    std::copy_n(pool_.data() + draw_of(stream, sequences[n]) % pool_starts, dim, first + n * dim);
  });
}

void RandomSource::read_sequences(std::span<const std::uint32_t> sequences, Share& share) {
  for (const std::uint32_t i : sequences) {
    const std::int64_t steps = index_.samples_of(i);
    for (std::size_t s = 0; s < data_.streams.size(); ++s) {
      CounterRandom random(data_.seed + s + 1, data_.first_sample + i);
      for (std::int64_t t = 0; t < (data_.streams[s].per_sequence ? 1 : steps); ++t) add(s, random.next(), share[s]);
    }
    share.end_sequence(steps);
  }
}

}  // namespace tutti::reader
