// SPDX-License-Identifier: Apache-2.0
// Made-up data: reproducible from seed and index, varied, and worth learning from.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reader/synthetic/synthetic_source.h"
#include "reader_support.h"

namespace tutti::reader::synthetic_test {
namespace {

struct Samples {
  std::vector<float> x, y;
};

Samples samples_of(const SyntheticReaderOptions& o, std::vector<std::uint32_t> which) {
  const auto source = o.source();
  Share share(source->streams());
  source->read(which, share);
  const Batch& b = share.finish();
  return {{b.streams[0].dense.begin(), b.streams[0].dense.end()},
          {b.streams[1].dense.begin(), b.streams[1].dense.end()}};
}

TEST(Synthetic, ASampleDependsOnSeedAndIndexOnly) {
  for (const auto kind : {SyntheticReaderOptions::Kind::digits, SyntheticReaderOptions::Kind::random}) {
    SyntheticReaderOptions o;
    o.kind = kind;
    o.samples = 3000;
    const Samples all = samples_of(o, {5, 1000, 1005, 2999});
    SyntheticReaderOptions later = o;
    later.first_sample = 1000;
    const Samples shifted = samples_of(later, {5, 0});
    EXPECT_TRUE(std::equal(shifted.x.begin(), shifted.x.begin() + 784, all.x.begin() + 2 * 784));
    EXPECT_TRUE(std::equal(shifted.x.begin() + 784, shifted.x.end(), all.x.begin() + 784));
    EXPECT_TRUE(std::equal(shifted.y.begin(), shifted.y.begin() + 10, all.y.begin() + 20));
    SyntheticReaderOptions other = o;
    other.seed = 2;
    EXPECT_NE(samples_of(other, {5}).x, std::vector<float>(all.x.begin(), all.x.begin() + 784));
    EXPECT_NE(std::vector<float>(all.x.begin(), all.x.begin() + 784),
              std::vector<float>(all.x.begin() + 784, all.x.begin() + 2 * 784));
  }
}

TEST(Synthetic, LargeSamplesAreTheSameManyAtATime) {
  SyntheticReaderOptions o;
  o.kind = SyntheticReaderOptions::Kind::random;
  constexpr std::size_t dim = 300000;
  o.input.resize(2);
  o.input[0].first = "features", o.input[0].second.dim = dim;
  o.input[1].first = "labels", o.input[1].second.label_dim = 10;
  const std::vector<std::uint32_t> which = {7, 3, 3000, 4};
  const Samples together = samples_of(o, which);
  ASSERT_EQ(together.x.size(), which.size() * dim);
  for (std::size_t n = 0; n < which.size(); ++n)
    EXPECT_TRUE(std::equal(together.x.begin() + n * dim, together.x.begin() + (n + 1) * dim,
                           samples_of(o, {which[n]}).x.begin()));
}

TEST(Synthetic, DigitsAreInkOnPaperAndAllClassesOccur) {
  std::array<int, 10> classes{};
  DigitImage image;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ++classes[static_cast<std::size_t>(digit_label(1, i))];
    draw_digit(1, i, {.noise = 0}, image);
    const auto ink = std::count_if(image.begin(), image.end(), [](int v) { return v > 128; });
    EXPECT_GT(ink, 12) << i;
    EXPECT_LT(ink, 250) << i;
    EXPECT_EQ(image[0], 0);  // without noise the corners are clean
  }
  for (const int n : classes) EXPECT_GT(n, 130);
}

TEST(Synthetic, DistortionAndNoiseSayHowFarDigitsStray) {
  const auto away_from_print = [](const DigitStyle& style) {
    long sum = 0;
    DigitImage print, drawn;
    for (std::uint64_t i = 0; i < 200; ++i) {
      draw_digit(1, i, {.noise = 0, .distortion = 0}, print);
      draw_digit(1, i, style, drawn);
      for (std::size_t p = 0; p < print.size(); ++p) sum += std::abs(int{print[p]} - int{drawn[p]});
    }
    return sum;
  };
  const long neat = away_from_print({.noise = 0, .distortion = 1}),
             sloppy = away_from_print({.noise = 0, .distortion = 2});
  EXPECT_GT(neat, 0);
  EXPECT_GT(sloppy, neat);
  EXPECT_GT(away_from_print({.noise = 0.3f, .distortion = 2}), sloppy);
}

TEST(Synthetic, RandomDataOfAnyShape) {
  SyntheticReaderOptions o;
  o.kind = SyntheticReaderOptions::Kind::random;
  SyntheticStreamOptions image, label, sparse;
  image.shape.values = {8, 8, 3};
  label.label_dim = 7;
  sparse.label_dim = 1000;
  sparse.sparse = true;
  o.input = {{"image", image}, {"label", label}, {"word", sparse}};
  const auto source = o.source();
  ASSERT_EQ(source->streams()[0].dim, 192u);
  ASSERT_TRUE(source->streams()[2].sparse);
  std::vector<std::uint32_t> which(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) which[i] = i;
  Share share(source->streams());
  source->read(which, share);
  const Batch& b = share.finish();
  double sum = 0, squares = 0;
  for (const float v : b.streams[0].dense) {
    ASSERT_TRUE(v >= -1 && v < 1);
    sum += v, squares += static_cast<double>(v) * v;
  }
  EXPECT_NEAR(sum / 192000, 0, 0.05);
  EXPECT_NEAR(squares / 192000, 1.0 / 3, 0.05);
  std::array<int, 7> classes{};
  for (std::size_t i = 0; i < 1000; ++i)
    for (std::size_t c = 0; c < 7; ++c) classes[c] += b.streams[1].dense[i * 7 + c] == 1;
  for (const int n : classes) EXPECT_GT(n, 90);
  EXPECT_EQ(b.streams[2].indices.size(), 1000u);
}

TEST(Synthetic, SequencesOfAnyLengthWithLabelsPerStepOrPerSequence) {
  SyntheticReaderOptions o;
  o.kind = SyntheticReaderOptions::Kind::random;
  o.samples = 500;
  o.sequence_length.values = {3, 7};
  SyntheticStreamOptions word, tag, kind;
  word.label_dim = 50;
  word.sparse = true;
  tag.dim = 4;
  kind.label_dim = 3;
  kind.per_sequence = true;
  o.input = {{"word", word}, {"tag", tag}, {"kind", kind}};
  const auto source = o.source();
  ASSERT_EQ(source->index().sequences(), 500u);
  const std::vector<std::uint32_t> which{17, 4, 499};
  Share share(source->streams());
  source->read(which, share);
  const Batch& b = share.finish();
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < which.size(); ++i) {
    EXPECT_EQ(b.streams[0].sequence_begin[i], steps);
    EXPECT_EQ(b.streams[1].sequence_begin[i], steps);
    EXPECT_EQ(b.streams[2].sequence_begin[i], static_cast<std::int64_t>(i));
    steps += source->index().samples_of(which[i]);
  }
  EXPECT_EQ(b.samples, steps);
  EXPECT_EQ(b.streams[0].indices.size(), static_cast<std::size_t>(steps));
  EXPECT_EQ(b.streams[1].dense.size(), static_cast<std::size_t>(4 * steps));
  EXPECT_EQ(b.streams[2].dense.size(), 9u);

  std::array<int, 8> lengths{};
  for (std::uint32_t i = 0; i < 500; ++i) ++lengths[static_cast<std::size_t>(source->index().samples_of(i))];
  for (std::size_t n = 0; n < lengths.size(); ++n) EXPECT_EQ(lengths[n] > 50, n >= 3) << n;

  SyntheticReaderOptions later = o;  // the row of sequences goes on where a shorter one ended
  later.first_sample = 17;
  const auto shifted = later.source();
  Share again(shifted->streams());
  shifted->read(std::vector<std::uint32_t>{0}, again);
  const Batch& a = again.finish();
  ASSERT_EQ(a.samples, source->index().samples_of(17));
  EXPECT_TRUE(std::equal(a.streams[0].indices.begin(), a.streams[0].indices.end(), b.streams[0].indices.begin()));
  EXPECT_TRUE(std::equal(a.streams[1].dense.begin(), a.streams[1].dense.end(), b.streams[1].dense.begin()));
}

// One hidden layer, plain stochastic gradient descent; nothing of the product's own network is needed to see that the
// digits can be learnt and that held-out ones are of the same kind.
class SmallNetwork {
 public:
  SmallNetwork() : w1_(784 * hidden), w2_(hidden * 10), b1_(hidden), b2_(10) {
    std::uint32_t state = 1;
    const auto draw = [&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-23f - 1; };
    for (float& w : w1_) w = 0.06f * draw();
    for (float& w : w2_) w = 0.2f * draw();
  }
  int classify(const float* x) {
    forward(x);
    return static_cast<int>(std::max_element(out_.begin(), out_.end()) - out_.begin());
  }
  void learn(const float* x, int label, float rate) {
    forward(x);
    std::array<float, hidden> back{};
    out_[static_cast<std::size_t>(label)] -= 1;
    for (std::size_t h = 0; h < hidden; ++h)
      for (std::size_t c = 0; c < 10; ++c) {
        back[h] += w2_[h * 10 + c] * out_[c];
        w2_[h * 10 + c] -= rate * h_[h] * out_[c];
      }
    for (std::size_t c = 0; c < 10; ++c) b2_[c] -= rate * out_[c];
    for (std::size_t h = 0; h < hidden; ++h) {
      back[h] = h_[h] > 0 ? rate * back[h] : 0;
      b1_[h] -= back[h];
    }
    for (std::size_t i = 0; i < 784; ++i)
      if (x[i] != 0)
        for (std::size_t h = 0; h < hidden; ++h) w1_[i * hidden + h] -= back[h] * x[i];
  }

 private:
  static constexpr std::size_t hidden = 64;
  void forward(const float* x) {
    std::copy(b1_.begin(), b1_.end(), h_.begin());
    for (std::size_t i = 0; i < 784; ++i)
      if (x[i] != 0)
        for (std::size_t h = 0; h < hidden; ++h) h_[h] += w1_[i * hidden + h] * x[i];
    std::copy(b2_.begin(), b2_.end(), out_.begin());
    for (std::size_t h = 0; h < hidden; ++h) {
      h_[h] = std::max(h_[h], 0.0f);
      for (std::size_t c = 0; c < 10; ++c) out_[c] += w2_[h * 10 + c] * h_[h];
    }
    const float top = *std::max_element(out_.begin(), out_.end());
    float sum = 0;
    for (float& o : out_) sum += o = std::exp(o - top);
    for (float& o : out_) o /= sum;
  }
  std::vector<float> w1_, w2_, b1_, b2_;
  std::array<float, hidden> h_{};
  std::array<float, 10> out_{};
};

TEST(Synthetic, ASmallNetworkLearnsTheDigits) {
  constexpr std::uint64_t training = 4000, held_out = 1'000'000, tests = 1000;
  const auto picture = [](std::uint64_t i) {
    DigitImage image;
    draw_digit(1, i, {}, image);
    std::array<float, 784> x;
    for (std::size_t p = 0; p < 784; ++p) x[p] = image[p] < 26 ? 0.0f : static_cast<float>(image[p]) / 255.0f;
    return x;
  };
  SmallNetwork network;
  for (int pass = 0; pass < 6; ++pass)
    for (std::uint64_t i = 0; i < training; ++i)
      network.learn(picture(i).data(), digit_label(1, i), pass < 4 ? 0.02f : 0.005f);
  int wrong = 0;
  for (std::uint64_t i = 0; i < tests; ++i)
    wrong += network.classify(picture(held_out + i).data()) != digit_label(1, held_out + i);
  RecordProperty("held_out_errors_per_1000", wrong);
  EXPECT_LT(wrong, 50);
}

}  // namespace
}  // namespace tutti::reader::synthetic_test
