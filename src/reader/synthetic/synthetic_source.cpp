// SPDX-License-Identifier: Apache-2.0
// Digits are drawn when first asked for and kept as bytes; random numbers are copied out of a pool.
#include "reader/synthetic/synthetic_source.h"

#include <algorithm>

#include "reader/synthetic/counter_random.h"
#include "reader/synthetic/digits.h"

namespace tutti::reader {
namespace {

constexpr std::size_t pictures_per_block = 1024;

std::vector<StreamInfo> infos_of(const SyntheticData& data) {
  std::vector<StreamInfo> infos;
  for (const auto& s : data.streams) infos.push_back(s.info);
  return infos;
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
    : data_(std::move(data)), infos_(infos_of(data_)), index_(SequenceIndex::uniform(data_.samples)) {
  std::size_t widest = 0;
  for (const auto& s : infos_) widest = std::max(widest, s.dim);
  pool_.resize(pool_starts + widest);
  CounterRandom random(data_.seed, 0);
  for (float& v : pool_) v = random.between(-1, 1);
}

void RandomSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (std::size_t s = 0; s < data_.streams.size(); ++s)
    for (const std::uint32_t i : sequences) {
      // Streams of one sample are independent of each other.
      const std::uint64_t draw = CounterRandom(data_.seed + s + 1, data_.first_sample + i).next();
      const std::size_t dim = infos_[s].dim;
      if (data_.streams[s].label) {
        share[s].add_one_hot(static_cast<std::size_t>(draw % dim));
      } else {
        std::copy_n(pool_.data() + draw % pool_starts, dim, share[s].add_dense());
      }
    }
  share.end_single_samples(sequences.size());
}

}  // namespace tutti::reader
