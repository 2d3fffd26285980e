// SPDX-License-Identifier: Apache-2.0
// Options of the synthetic reader. Digits are drawn on first use and kept as bytes; random numbers are copied from a
// pool.
#include "reader/synthetic/synthetic_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "reader/counter_random.h"
#include "reader/default_loaders.h"
#include "reader/reader_row.h"

namespace tutti::reader {
namespace {

constexpr std::size_t pictures_per_block = 1024;
constexpr std::size_t most_kept = std::size_t{1} << 20;  // pictures, 800 MB; of larger sets none is kept

SequenceIndex index_of(const SyntheticReaderOptions& o) {
  const auto samples = static_cast<std::uint32_t>(o.samples);
  if (o.sequence_length.empty() || o.sequence_length.values.back() == 1) return SequenceIndex::uniform(samples);
  const auto shortest = static_cast<std::uint32_t>(o.sequence_length.values.front());
  const auto longest = static_cast<std::uint32_t>(o.sequence_length.values.back());
  SequenceIndex index;
  const std::uint64_t lengths = longest - shortest + 1;
  for (std::uint32_t i = 0; i < samples; ++i) {
    const std::uint64_t draw =
        CounterRandom(static_cast<std::uint64_t>(o.seed), static_cast<std::uint64_t>(o.first_sample) + i).next();
    index.add(shortest + static_cast<std::uint32_t>(draw % lengths));
  }
  return index;
}

}  // namespace

SyntheticSource::SyntheticSource(const SyntheticReaderOptions& o)
    : seed_(static_cast<std::uint64_t>(o.seed)),
      first_sample_(static_cast<std::uint64_t>(o.first_sample)),
      index_(index_of(o)) {
  auto input = o.input;
  if (input.empty()) input = {{"features", {}}, {"labels", {.label_dim = 10}}};
  for (const auto& [name, s] : input) {
    infos_.push_back({name, s.size(), s.label_dim > 0 && s.sparse});
    streams_.push_back(s);
  }
}

DigitSource::DigitSource(const SyntheticReaderOptions& o)
    : SyntheticSource(o),
      style_{static_cast<float>(o.noise), static_cast<float>(o.distortion)},
      blocks_((index_.sequences() + pictures_per_block - 1) / pictures_per_block),
      drawn_(index_.sequences()) {}

const std::uint8_t* DigitSource::picture(std::uint32_t sequence) {
  if (index_.sequences() > most_kept) {
    draw_digit(seed_, number_of(sequence), style_, image_);
    return image_.data();
  }
  auto& block = blocks_[sequence / pictures_per_block];
  constexpr std::size_t size = digit_side * digit_side;
  if (!block) block = std::make_unique_for_overwrite<std::uint8_t[]>(pictures_per_block * size);
  std::uint8_t* const place = block.get() + sequence % pictures_per_block * size;
  if (!drawn_[sequence]) {
    draw_digit(seed_, number_of(sequence), style_, image_);
    std::ranges::copy(image_, place);
    drawn_[sequence] = true;
  }
  return place;
}

void DigitSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (std::size_t s = 0; s < streams_.size(); ++s)
    for (const std::uint32_t i : sequences) {
      if (is_label(s)) {
        share[s].add_one_hot(static_cast<std::size_t>(digit_label(seed_, number_of(i))));
      } else {
        const std::uint8_t* const from = picture(i);
        float* const to = share[s].add_dense();
        for (std::size_t p = 0; p < digit_side * digit_side; ++p) to[p] = static_cast<float>(from[p]) * (1.0f / 255.0f);
      }
    }
  share.end_single_samples(sequences.size());
}

RandomSource::RandomSource(const SyntheticReaderOptions& o) : SyntheticSource(o) {
  std::size_t widest = 0;
  for (const auto& s : infos_) widest = std::max(widest, s.dim);
  pool_.resize(pool_starts + widest);
  CounterRandom random(seed_, 0);
  for (float& v : pool_) v = random.between(-1, 1);
}

void RandomSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  if (index_.single_samples()) {
    read_single_samples(sequences, share);
  } else {
    read_sequences(sequences, share);
  }
}

void RandomSource::add(std::size_t stream, std::uint64_t draw, StreamBuffer& to) const {
  const std::size_t dim = infos_[stream].dim;
  if (is_label(stream)) {
    to.add_one_hot(static_cast<std::size_t>(draw % dim));
  } else {
    std::copy_n(pool_.data() + draw % pool_starts, dim, to.add_dense());
  }
}

std::uint64_t RandomSource::draw_of(std::size_t stream, std::uint32_t sequence) const {
  return CounterRandom(seed_ + stream + 1, number_of(sequence)).next();
}

void RandomSource::read_single_samples(std::span<const std::uint32_t> sequences, Share& share) {
  constexpr std::size_t worth_sharing = std::size_t{1} << 20;  // numbers
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    if (!is_label(s) && sequences.size() * infos_[s].dim >= worth_sharing)
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
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      CounterRandom random(seed_ + s + 1, number_of(i));
      for (std::int64_t t = 0; t < (streams_[s].per_sequence ? 1 : steps); ++t) add(s, random.next(), share[s]);
    }
    share.end_sequence(steps);
  }
}

namespace {

constexpr std::size_t digit_pixels = digit_side * digit_side;
constexpr std::int64_t most_values = 2'147'483'647;
constexpr std::int64_t most_steps = 1'000'000;

}  // namespace

void SyntheticStreamOptions::describe(config::Fields& f) {
  f.inherit_nothing("labelDim");  // makes this a stream of classes; further out it is meant for another
  f("dim", dim, "numbers per sample; 0 = as shape says, or 784");
  f("shape", shape, "the same as a product, e.g. 32:32:3");
  f("labelDim", label_dim, "number of classes: the stream is one-hot; 0 = plain numbers");
  f.choice("format", sparse, {{"dense", false}, {"sparse", true}}, "format of one-hot vectors");
  f("perSequence", per_sequence,
    "one sample per sequence instead of one per step, such as a label for the whole sequence");
  if (dim < 0 || dim > most_values) f.problem("dim", "dim is the number of values per sample", "1 or more");
  std::int64_t product = 1;
  for (const std::int64_t axis : shape.values) {
    if (axis < 1 || product > most_values / axis) {
      f.problem("shape", "each axis is 1 or more, and the product fits into 31 bits", "32:32:3");
      break;
    }
    product *= axis;
  }
  if (dim > 0 && !shape.empty() && product != dim)
    f.problem("shape", fmt::format("shape has {} values, but dim is {}", product, dim), "give only one of them");
  if (label_dim < 0 || label_dim > most_values) f.problem("labelDim", "labelDim is the number of classes", "1 or more");
  if (label_dim > 0 && (dim > 0 || !shape.empty()))
    f.problem("labelDim", "a stream is either labels or plain numbers", "remove dim and shape");
  if (sparse && label_dim == 0)
    f.problem("format", "only label streams can be sparse", "set labelDim, or leave format out");
}

std::size_t SyntheticStreamOptions::size() const {
  if (label_dim > 0) return static_cast<std::size_t>(label_dim);
  if (dim > 0) return static_cast<std::size_t>(dim);
  std::size_t product = shape.empty() ? digit_pixels : 1;
  for (const std::int64_t axis : shape.values) product *= static_cast<std::size_t>(axis);
  return product;
}

void SyntheticReaderOptions::describe(config::Fields& f) {
  f.choice("kind", kind, {{"digits", Kind::digits}, {"random", Kind::random}},
           "digits = drawn digits of 28x28 pixels; random = random numbers, to measure speed");
  f("samples", samples, "samples in one sweep; sequences, where sequenceLength is given");
  f("sequenceLength", sequence_length,
    "steps of each sequence, or the shortest and the longest: 10:50; none = single samples");
  f("firstSample", first_sample, "number of the first sample; let test data start behind the training data");
  f("seed", seed, "seed of the data; sample i depends only on seed and i");
  f("noise", noise, "amplitude of the grey noise of digits, 0 to 1");
  f("distortion", distortion,
    "how strongly digits are bent, slanted, rotated, scaled and moved; 0 = printed, 1 = neat, 3 = scrawled");
  f.blocks("input", input, "one block per stream; without: features = [ dim = 784 ], labels = [ labelDim = 10 ]");
  order.describe(f);
  truncation.describe(f);
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");

  if (samples < 1 || samples >= SequenceIndex::most_sequences)
    f.problem("samples", "samples is the number of samples in a sweep", "60000");
  if (first_sample < 0) f.problem("firstSample", "samples are numbered from 0", "0 or more");
  if (!(noise >= 0 && noise <= 1)) f.problem("noise", "noise is a fraction of full intensity", "between 0 and 1");
  if (!(distortion >= 0 && distortion <= 4))
    f.problem("distortion", "distortion above 4 makes digits indistinguishable", "between 0 and 4");
  check_sequences(f);
  if (kind != Kind::digits) return;
  for (const auto& [name, s] : input) {
    if (s.label_dim > 0 && s.label_dim != 10)
      f.problem("input", fmt::format("stream '{}': there are ten digits, so labelDim = 10", name),
                "or choose kind = random");
    if (s.label_dim == 0 && s.size() != digit_pixels)
      f.problem("input", fmt::format("stream '{}': digits have 28 x 28 = 784 values", name),
                "set dim = 784, or choose kind = random");
  }
}

void SyntheticReaderOptions::check_sequences(config::Fields& f) const {
  const auto& steps = sequence_length.values;
  if (steps.size() > 2 || std::any_of(steps.begin(), steps.end(), [](auto n) { return n < 1 || n > most_steps; }) ||
      (steps.size() == 2 && steps[0] > steps[1]))
    f.problem("sequenceLength", "sequenceLength is one number of steps, or the smallest and the largest",
              "100, or 10:50");
  if (!steps.empty() && kind == Kind::digits)
    f.problem("sequenceLength", "digits are single samples", "choose kind = random");
  for (const auto& [name, s] : input)
    if (s.per_sequence && steps.empty())
      f.problem("input", fmt::format("stream '{}': perSequence needs sequences", name), "set sequenceLength");
}

std::unique_ptr<SequenceSource> SyntheticReaderOptions::source() const {
  if (kind == Kind::random) return std::make_unique<RandomSource>(*this);
  return std::make_unique<DigitSource>(*this);
}

Made read_synthetic(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<SyntheticReaderOptions>(context);
  read_block(*o, block, title, context);
  return {[o](config::Fields& f) { o->describe(f); }, [o] { return o->source(); }, o->order.randomization(),
          o->truncation.truncation(trains(context))};
}

}  // namespace tutti::reader
