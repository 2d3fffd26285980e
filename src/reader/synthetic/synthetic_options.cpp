// SPDX-License-Identifier: Apache-2.0
// Options of the synthetic reader.
#include "reader/synthetic/synthetic_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "reader/synthetic/digits.h"

namespace tutti::reader {
namespace {

constexpr std::size_t digit_pixels = digit_side * digit_side;
constexpr std::int64_t most_values = 2'147'483'647;
constexpr std::int64_t most_steps = 1'000'000;

}  // namespace

void SyntheticStreamOptions::describe(config::Fields& f) {
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
  SyntheticData data;
  data.samples = static_cast<std::uint32_t>(samples);
  data.seed = static_cast<std::uint64_t>(seed);
  data.first_sample = static_cast<std::uint64_t>(first_sample);
  for (const auto& [name, s] : input)
    data.streams.push_back({{name, s.size(), s.label_dim > 0 && s.sparse}, s.label_dim > 0, s.per_sequence});
  if (!sequence_length.empty()) {
    data.shortest = static_cast<std::uint32_t>(sequence_length.values.front());
    data.longest = static_cast<std::uint32_t>(sequence_length.values.back());
  }
  if (input.empty()) data.streams = {{{"features", digit_pixels, false}, false}, {{"labels", 10, false}, true}};
  if (kind == Kind::random) return std::make_unique<RandomSource>(std::move(data));
  return std::make_unique<DigitSource>(std::move(data),
                                       DigitStyle{static_cast<float>(noise), static_cast<float>(distortion)});
}

}  // namespace tutti::reader
