// SPDX-License-Identifier: Apache-2.0
// synthetic_source.h -- data made up from (seed, index): drawn digits to learn from, random numbers for speed runs.
#pragma once

#include <array>
#include <memory>

#include "base/thread_pool.h"
#include "reader/order_options.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

struct SyntheticStreamOptions {
  std::int64_t dim = 0;
  config::Schedule<std::int64_t> shape = {};
  std::int64_t label_dim = 0;  // of one-hot streams; 0 = plain numbers
  bool sparse = false;
  bool per_sequence = false;  // one sample for each sequence, whatever its length
  void describe(config::Fields& f);
  std::size_t size() const;
};

// The block of readerType = "SyntheticReader".
struct SyntheticReaderOptions {
  enum class Kind { digits, random };
  Kind kind = Kind::digits;
  std::int64_t samples = 60000;
  std::int64_t first_sample = 0;  // of the endless row of samples; held-out data start elsewhere
  std::int64_t seed = 1;
  config::Schedule<std::int64_t> sequence_length;  // steps of a sequence, or the shortest and the longest
  double noise = 0.1;
  double distortion = 1;
  std::vector<std::pair<std::string, SyntheticStreamOptions>> input;
  OrderOptions order;
  TruncationOptions truncation;
  void describe(config::Fields& f);
  std::unique_ptr<SequenceSource> source() const;

 private:
  void check_sequences(config::Fields& f) const;
};

// What both sources have: streams, and samples that depend on (seed, index) only.
class SyntheticSource : public SequenceSource {
 public:
  explicit SyntheticSource(const SyntheticReaderOptions&);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }

 protected:
  std::uint64_t number_of(std::uint32_t sequence) const { return first_sample_ + sequence; }
  bool is_label(std::size_t stream) const { return streams_[stream].label_dim > 0; }

  std::vector<SyntheticStreamOptions> streams_;
  std::uint64_t seed_, first_sample_;
  std::vector<StreamInfo> infos_;
  SequenceIndex index_;
};

// Handwriting without a data set: the ten digits as pen strokes, drawn with random slant, size, place, pen and noise
// into 28 x 28 grey values (digits.cpp).
inline constexpr std::size_t digit_side = 28;
using DigitImage = std::array<std::uint8_t, digit_side * digit_side>;  // row by row, 255 = ink

// The class of sample `index`, 0 to 9.
int digit_label(std::uint64_t seed, std::uint64_t index);
struct DigitStyle {
  float noise = 0.1f;    // amplitude of the grey noise, 0 to 1
  float distortion = 1;  // how far the hand strays from the glyph; 1 = neat, 2 = sloppy
};
// Its picture; a pure function of the arguments.
void draw_digit(std::uint64_t seed, std::uint64_t index, const DigitStyle&, DigitImage&);

// These digits; values 0 to 1.
class DigitSource final : public SyntheticSource {
 public:
  explicit DigitSource(const SyntheticReaderOptions&);
  void read(std::span<const std::uint32_t> sequences, Share&) override;

 private:
  const std::uint8_t* picture(std::uint32_t sequence);  // valid until the next call

  DigitStyle style_;
  DigitImage image_;
  std::vector<std::unique_ptr<std::uint8_t[]>> blocks_;  // pictures once drawn, many to a block
  std::vector<bool> drawn_;
};

// Uniform numbers in [-1, 1) and uniform classes, at the cost of a copy: samples are ranges of one pool. Single
// samples or sequences of them; the streams of one sample are independent of each other.
class RandomSource final : public SyntheticSource {
 public:
  explicit RandomSource(const SyntheticReaderOptions&);
  void begin_epoch() override;
  void read(std::span<const std::uint32_t> sequences, Share&) override;

 private:
  void read_single_samples(std::span<const std::uint32_t> sequences, Share&);
  void copy_together(std::size_t stream, std::span<const std::uint32_t> sequences, StreamBuffer&);
  std::uint64_t draw_of(std::size_t stream, std::uint32_t sequence) const;
  void read_sequences(std::span<const std::uint32_t> sequences, Share&);
  void add(std::size_t stream, std::uint64_t draw, StreamBuffer&) const;

  static constexpr std::size_t pool_starts = 65536;
  std::vector<float> pool_;
  std::unique_ptr<ThreadPool> loaders_;
};

}  // namespace tutti::reader
