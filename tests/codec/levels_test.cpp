// SPDX-License-Identifier: Apache-2.0
// What error feedback asks of a quantiser: more bits lose less of any column, and what was lost is sent in the end.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "codec_checks.h"

namespace tutti::levels_test {
namespace {

using Values = std::vector<float>;
using Random = std::mt19937;

float gaussian(Random& random) { return std::normal_distribution<float>()(random); }
float laplace(Random& random) {
  const float size = std::exponential_distribution<float>()(random);
  return random() % 2 ? size : -size;
}

struct Shape {
  const char* name;
  std::function<float(Random&, std::size_t row, std::size_t rows)> value;
};
// Of densities without a gap or a favourite value: every bit more has something to gain.
const std::vector<Shape> kSmooth{
    {"gaussian", [](Random& r, std::size_t, std::size_t) { return gaussian(r); }},
    {"laplace", [](Random& r, std::size_t, std::size_t) { return laplace(r); }},
    {"uniform", [](Random& r, std::size_t, std::size_t) { return std::uniform_real_distribution<float>(-1, 1)(r); }},
    {"one sign", [](Random& r, std::size_t, std::size_t) { return 3 + 0.1f * gaussian(r); }},
    {"skewed", [](Random& r, std::size_t, std::size_t) { return std::fabs(laplace(r)) - 1; }},
};
const std::vector<Shape> kSparse{
    {"sparse", [](Random& r, std::size_t, std::size_t) { return r() % 50 ? 0.0f : gaussian(r); }},
    {"sparse, one sign", [](Random& r, std::size_t, std::size_t) { return r() % 20 ? 0.0f : std::fabs(laplace(r)); }},
    {"a softmax's",
     [](Random& r, std::size_t row, std::size_t rows) {
       return row ? gaussian(r) * gaussian(r) / static_cast<float>(rows) : -1.0f;
     }},
};
const std::vector<Shape> kSpecial{
    {"constant", [](Random&, std::size_t, std::size_t) { return 1.1f; }},
    {"negative constant", [](Random&, std::size_t, std::size_t) { return -0.3f; }},
    {"two values", [](Random&, std::size_t row, std::size_t) { return row % 3 ? 1.7f : -0.2f; }},
    {"one value", [](Random&, std::size_t row, std::size_t rows) { return row == rows / 2 ? 0.7f : 0.0f; }},
    {"nothing", [](Random&, std::size_t, std::size_t) { return 0.0f; }},
};

Values column_of(const Shape& shape, Random& random, std::size_t rows, float scale = 1) {
  Values v(rows);
  for (std::size_t r = 0; r < rows; ++r) v[r] = scale * shape.value(random, r, rows);
  return v;
}

double energy(const Values& v) {
  double sum = 0;
  for (const float x : v) sum += double{x} * x;
  return sum;
}

// What is left over when one column is encoded.
double error_of(const CodecOptions& options, const Values& column) {
  const auto codec = make_codec(options);
  Values residual(column.size());
  std::vector<std::byte> bytes(codec->bytes(column.size(), 1));
  codec->encode(column.size(), 1, column.data(), residual.data(), bytes.data());
  return energy(residual);
}

const std::vector<std::vector<CodecOptions>> kWidths{{{1}, {2}, {4}, {8}, {16}}, {{1, false}, {2}}};

TEST(Levels, EachBitMoreLosesLessOfSmoothColumns) {
  Random random(11);
  for (const Shape& shape : kSmooth)
    for (const std::size_t rows : {6, 10, 16, 17, 33, 100, 512, 5000}) {
      std::vector<Values> columns;
      for (std::size_t c = 0; c < 20 + 2000 / rows; ++c) columns.push_back(column_of(shape, random, rows));
      for (const auto& widths : kWidths) {
        std::vector<double> errors;
        for (const CodecOptions& o : widths) {
          double sum = 0;
          for (const Values& column : columns) sum += error_of(o, column);
          errors.push_back(sum);
        }
        for (std::size_t i = 1; i < errors.size(); ++i)
          EXPECT_TRUE(errors[i] < errors[i - 1] || errors[i - 1] == 0)
              << errors[i] << " after " << errors[i - 1] << ", " << widths[i].bits << " bits, " << shape.name << ", "
              << rows << " rows";
      }
    }
}

// Columns for which fixed or evenly spaced levels are not made: few values that are not 0, clusters with and without
// outliers, tails up to the largest floats of a gradient.
const std::vector<Shape> kRough{
    {"outliers", [](Random& r, std::size_t, std::size_t) { return gaussian(r) * (r() % 100 ? 1 : 100); }},
    {"one outlier",
     [](Random& r, std::size_t row, std::size_t rows) { return row == rows / 3 ? 1e3f : 0.01f * gaussian(r); }},
    {"one outlier of one sign",
     [](Random& r, std::size_t row, std::size_t) { return row == 1 ? 1e5f : 1 + 0.01f * gaussian(r); }},
    {"outlier among zeros and ones",
     [](Random& r, std::size_t row, std::size_t) { return row == 2  ? -70.0f
                                                          : r() % 2 ? 0.0f
                                                                    : -1.0f; }},
    {"clusters",
     [](Random& r, std::size_t, std::size_t) { return std::pow(10.0f, r() % 4) * (1 + 1e-3f * gaussian(r)); }},
    {"two clusters", [](Random& r, std::size_t, std::size_t) { return (r() % 2 ? 1 : 0.3f) + 1e-4f * gaussian(r); }},
    {"heavy tails", [](Random& r, std::size_t, std::size_t) { return gaussian(r) / std::fabs(gaussian(r) + 1e-6f); }},
    {"log-normal", [](Random& r, std::size_t, std::size_t) { return std::exp(4 * gaussian(r)) * (r() % 2 ? 1 : -1); }},
    {"sparse, log-normal",
     [](Random& r, std::size_t, std::size_t) { return r() % 30 ? 0.0f : std::exp(5 * gaussian(r)); }},
    {"three values",
     [](Random& r, std::size_t, std::size_t) {
       return std::array{-1.0f, 0.0f, 17.0f}[r() % 3];
     }},
    {"five values",
     [](Random& r, std::size_t, std::size_t) {
       return std::array{-9.f, -1.f, 0.f, .3f, 7.f}[r() % 5];
     }},
    {"powers of two",
     [](Random& r, std::size_t, std::size_t) { return std::ldexp(1.0f, static_cast<int>(r() % 40) - 20); }},
    {"one of 300", [](Random& r, std::size_t, std::size_t) { return r() % 300 ? 0.0f : gaussian(r); }},
};

// For every single column: the levels of 2 bits are among those that more bits may choose, and those of a width among
// those of all wider ones. What remains of errors that are all but 0 is rounding.
TEST(Levels, NoWidthLosesMoreOfAnyColumn) {
  Random random(18);
  int columns = 0;
  for (const auto& shapes : {kSmooth, kSparse, kSpecial, kRough})
    for (const Shape& shape : shapes)
      for (const std::size_t rows : {1, 2, 6, 7, 9, 10, 16, 33, 64, 100, 257, 1000, 4096})
        for (int repeat = 0; repeat < 20; ++repeat, ++columns) {
          const Values column = column_of(shape, random, rows);
          for (const auto& widths : kWidths) {
            double before = error_of(widths[0], column);
            for (std::size_t i = 1; i < widths.size(); ++i) {
              const double error = error_of(widths[i], column);
              EXPECT_LE(error, before * (1 + 1e-5) + 1e-13 * energy(column))
                  << widths[i].bits << " bits, " << shape.name << ", " << rows << " rows";
              before = error;
            }
          }
        }
  EXPECT_EQ(columns, 26 * 13 * 20);
}

TEST(Levels, NoWidthLosesMoreOfSpecialColumns) {
  Random random(12);
  for (const Shape& shape : kSpecial)
    for (const std::size_t rows : {1, 2, 3, 4, 5, 6, 7, 10, 33, 100, 1000})
      for (int repeat = 0; repeat < 10; ++repeat) {
        const Values column = column_of(shape, random, rows);
        for (const auto& widths : kWidths)
          for (std::size_t i = 1; i < widths.size(); ++i)
            EXPECT_LE(error_of(widths[i], column), error_of(widths[i - 1], column))
                << widths[i].bits << " bits, " << shape.name << ", " << rows << " rows";
      }
}

// Two bits divide what one bit distinguishes, so they lose less of every single column, outliers or not.
TEST(Levels, TwoBitsBeatOneOnEverySingleColumn) {
  Random random(13);
  std::vector<Shape> shapes = kSmooth;
  shapes.push_back(
      {"outliers", [](Random& r, std::size_t, std::size_t) { return gaussian(r) * (r() % 100 ? 1 : 100); }});
  for (const Shape& shape : shapes)
    for (const std::size_t rows : {6, 10, 33, 500})
      for (int repeat = 0; repeat < 50; ++repeat) {
        const Values column = column_of(shape, random, rows);
        for (const bool zero : {true, false})
          EXPECT_LE(error_of({2}, column), error_of({1, zero}, column)) << shape.name << ", " << rows << " rows";
      }
}

// A column is encoded once, then zeros follow: what is left never grows, and all of it arrives.
double left_after(const CodecOptions& options, Values column, int steps) {
  const auto codec = make_codec(options);
  Values residual(column.size());
  std::vector<std::byte> bytes(codec->bytes(column.size(), 1));
  const double start = energy(column);
  double left = start;
  for (int step = 0; step < steps; ++step) {
    codec->encode(column.size(), 1, column.data(), residual.data(), bytes.data());
    EXPECT_LE(energy(residual), left * (1 + 1e-6) + 1e-12 * start) << codec->name() << ", step " << step;
    left = energy(residual);
    std::fill(column.begin(), column.end(), 0.0f);
  }
  return left;
}

TEST(Levels, ErrorFeedbackDrainsForEveryWidthAndShape) {
  std::vector<CodecOptions> all{{1}, {1, false}, {2}, {4}, {8}, {16}};
  for (const NumberFormat format : {NumberFormat::half, NumberFormat::brain})
    all.push_back({.bits = 16, .format = format});
  Random random(14);
  for (const auto& shapes : {kSmooth, kSparse, kSpecial})
    for (const Shape& shape : shapes)
      for (const std::size_t rows : {1, 2, 3, 5, 6, 10, 64, 300, 1001})
        for (const float scale : {1.0f, 1e-12f, 1e12f}) {
          const Values column = column_of(shape, random, rows, scale);
          for (const CodecOptions& o : all) {
            if (o.format == NumberFormat::half && scale != 1) continue;  // float16 ends at 65504 and 6e-8
            // One bit moves all values of a sign by the same, so single ones take long.
            EXPECT_LE(left_after(o, column, 100), (o.bits == 1 ? 0.6 : 1e-6) * energy(column))
                << make_codec(o)->name() << ", " << shape.name << ", " << rows << " rows, scale " << scale;
          }
        }
}

// A constant gradient arrives as it is in the mean: what is held back stays bounded.
TEST(Levels, ResidualsStayBoundedUnderASteadyGradient) {
  Random random(15);
  for (const CodecOptions& o : std::vector<CodecOptions>{{1}, {1, false}, {2}, {4}, {8}, {16}})
    for (const Shape& shape : kSmooth)
      for (const std::size_t rows : {1, 2, 6, 40, 300}) {
        const auto codec = make_codec(o);
        const Values gradient = column_of(shape, random, rows);
        Values residual(rows);
        std::vector<std::byte> bytes(codec->bytes(rows, 1));
        double most = 0;
        for (int step = 0; step < 300; ++step) {
          codec->encode(rows, 1, gradient.data(), residual.data(), bytes.data());
          if (step >= 150) most = std::max(most, energy(residual));
        }
        EXPECT_LE(most, 4000 * energy(gradient)) << codec->name() << ", " << shape.name << ", " << rows << " rows";
      }
}

TEST(Levels, ReachTheLargestValueAndZeroExactly) {
  Random random(16);
  for (const int bits : {4, 8, 16})
    for (const float largest : {0.1f, 1.7f, 3e4f, 1e-20f})
      for (const float sign : {1.0f, -1.0f}) {
        Values column(1000);
        column[123] = sign * largest, column[500] = largest * 0.4f;
        const auto codec = make_codec({bits});
        Values residual(column.size()), back(column.size());
        std::vector<std::byte> bytes(codec->bytes(column.size(), 1));
        codec->encode(column.size(), 1, column.data(), residual.data(), bytes.data());
        codec->decode(column.size(), 1, bytes.data(), back.data());
        EXPECT_EQ(back[123], column[123]) << bits << " bits";
        EXPECT_EQ(back[7], 0.0f) << bits << " bits";
        EXPECT_NEAR(back[500], column[500], largest / static_cast<float>((2 << (bits - 1)) - 2) * 1.01f) << bits;
      }
}

// Why `quantizer = original` is not the default: its middle level swallows columns of one row for ever.
TEST(Levels, TheOriginalsTwoBitsNeverSendShortColumns) {
  const CodecOptions original = checks::original(2);
  EXPECT_EQ(left_after(original, {1.0f}, 100), 1.0);
  EXPECT_EQ(left_after({2}, {1.0f}, 1), 0.0);
  Random random(17);
  const Values column = column_of(kSmooth[0], random, 1000);
  EXPECT_GT(error_of(original, column), error_of({1}, column));
  EXPECT_LT(error_of({2}, column), 0.5 * error_of({1}, column));
}

}  // namespace
}  // namespace tutti::levels_test
