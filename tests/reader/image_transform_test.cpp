// SPDX-License-Identifier: Apache-2.0
// Transforms on pictures small enough to be worked out by hand, and properties over sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "image_support.h"
#include "reader/image/decoder.h"
#include "reader/image/opencv_xml.h"
#include "reader/image/transform.h"
#include "tutti/error.h"

namespace tutti::reader::image_transform_test {
namespace {

Image image_of(const Picture& p) {
  Image image{
      {static_cast<std::int64_t>(p.width), static_cast<std::int64_t>(p.height), static_cast<std::int64_t>(p.channels)},
      p.width * p.channels};
  image.bytes = p.pixels.data();
  return image;
}

// All numbers of an image, rows without gaps.
std::vector<float> numbers_of(const Image& image) {
  std::vector<float> all;
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.size.height); ++y)
    for (std::size_t i = 0; i < image.row_numbers(); ++i)
      all.push_back(image.bytes ? static_cast<float>(image.row<std::uint8_t>(y)[i]) : image.row<float>(y)[i]);
  return all;
}

class TransformTest : public ::testing::Test {
 protected:
  Image apply(const Transform& t, const Image& image, std::uint64_t seed = 0, int view = 0) {
    Work work{CounterRandom(7, seed), view, scratch_, resizer_};
    return t(image, work);
  }
  std::vector<float> numbers(const Transform& t, const Picture& p, std::uint64_t seed = 0, int view = 0) {
    return numbers_of(apply(t, image_of(p), seed, view));
  }
  std::vector<float> resized(const Picture& p, std::int64_t w, std::int64_t h, Interpolation how) {
    return numbers_of(resizer_(image_of(p), w, h, how, scratch_));
  }
  Scratch scratch_;
  Resizer resizer_;
};

Picture grey(std::size_t width, std::size_t height, std::vector<std::uint8_t> pixels) {
  return {width, height, 1, std::move(pixels)};
}

TEST_F(TransformTest, ResizeByHand) {
  const Picture row = grey(4, 1, {0, 100, 200, 40});
  EXPECT_EQ(resized(row, 2, 1, Interpolation::nearest), (std::vector<float>{0, 200}));
  EXPECT_EQ(resized(row, 8, 1, Interpolation::nearest), (std::vector<float>{0, 0, 100, 100, 200, 200, 40, 40}));
  // Target pixel 0 lies between source pixels 0 and 1, in the middle; pixel 1 between 2 and 3.
  EXPECT_EQ(resized(row, 2, 1, Interpolation::linear), (std::vector<float>{50, 120}));
  // Centres at -0.25, 0.25, 0.75, ...: the edge is repeated.
  EXPECT_EQ(resized(row, 8, 1, Interpolation::linear), (std::vector<float>{0, 25, 75, 125, 175, 160, 80, 40}));
  EXPECT_EQ(resized(grey(1, 4, {0, 100, 200, 40}), 1, 2, Interpolation::linear), (std::vector<float>{50, 120}));
  // Cubic with a = -0.75 half-way: (-3 a + 19 b + 19 c - 3 d) / 32.
  EXPECT_EQ(resized(row, 2, 1, Interpolation::cubic)[0], std::lrint((0 * -3 + 0 * 19 + 100 * 19 - 200 * 3) / 32.0));
}

TEST_F(TransformTest, ResizeKeepsPlainPicturesAndSizes) {
  for (const auto how : {Interpolation::nearest, Interpolation::linear, Interpolation::cubic, Interpolation::lanczos})
    for (const auto& [w, h] : {std::pair{1, 1}, {5, 3}, {17, 40}, {33, 33}})
      for (const auto& [tw, th] : {std::pair{1, 1}, {4, 9}, {33, 33}, {80, 7}}) {
        const Picture p = plain(static_cast<std::size_t>(w), static_cast<std::size_t>(h), 250, 128, 3);
        const auto all = resized(p, tw, th, how);
        ASSERT_EQ(all.size(), static_cast<std::size_t>(tw * th * 3));
        for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], p.pixels[i % 3]) << w << h << tw << th;
      }
  const Picture p = numbered(9, 6);
  EXPECT_EQ(resized(p, 9, 6, Interpolation::lanczos), numbers_of(image_of(p)));
}

// Bytes and floats go different ways; both must come to the same picture, and to the formula's.
TEST_F(TransformTest, BytesAndFloatsAgree) {
  const Picture p = numbered(13, 11);
  std::vector<float> copy(p.pixels.begin(), p.pixels.end());
  Image floats = image_of(p);
  floats.bytes = nullptr;
  floats.floats = copy.data();
  for (const auto how : {Interpolation::linear, Interpolation::cubic, Interpolation::lanczos})
    for (const auto& [w, h] : {std::pair{5, 5}, {26, 22}, {13, 40}}) {
      const auto a = resized(p, w, h, how);
      const auto b = numbers_of(resizer_(floats, w, h, how, scratch_));
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], std::clamp(b[i], 0.0f, 255.0f), 0.75f) << i;
    }
}

TEST_F(TransformTest, CropInTheMiddle) {
  const Picture p = numbered(6, 4);
  CropSettings s;
  EXPECT_EQ(numbers(make_crop(s), p), numbers_of(image_of(p))) << "no size is the whole image";
  s.width = 2, s.height = 2;
  std::vector<float> expected;
  for (const std::size_t y : {1, 2})
    for (const std::size_t x : {2, 3})
      for (std::size_t c = 0; c < 3; ++c) expected.push_back(p.at(x, y, c));
  EXPECT_EQ(numbers(make_crop(s), p), expected);
  s.width = 100;
  EXPECT_EQ(apply(make_crop(s), image_of(p)).size, (ImageSize{6, 2, 3})) << "no crop is larger than the image";
  s = {};
  s.side = {0.5, 1};
  EXPECT_EQ(apply(make_crop(s), image_of(p)).size, (ImageSize{2, 2, 3})) << "without jitter the lower end counts";
  s.aspect = {0.25, 0.25};
  const ImageSize slim = apply(make_crop(s), image_of(p)).size;
  EXPECT_TRUE(slim == (ImageSize{1, 4, 3}) || slim == (ImageSize{4, 1, 3}));
  s = {};
  s.area = {0.5, 0.5};
  EXPECT_EQ(apply(make_crop(s), image_of(p)).size, (ImageSize{3, 3, 3}));
}

TEST_F(TransformTest, RandomCropsReachEverywhere) {
  const Picture p = numbered(5, 4, 1);
  CropSettings s;
  s.type = CropType::random_side;
  s.side = {0.5, 0.5};
  s.flip = true;
  std::set<std::vector<float>> seen;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const auto crop = numbers(make_crop(s), p, seed);
    ASSERT_EQ(crop.size(), 4u);
    EXPECT_EQ(crop, numbers(make_crop(s), p, seed)) << "a pure function of the seed";
    seen.insert(crop);
  }
  EXPECT_EQ(seen.size(), 4u * 3u * 2u) << "places x mirrored or not";
  s.side = {0.3, 1};
  s.jitter = true;
  std::set<std::size_t> sizes;
  for (std::uint64_t seed = 0; seed < 300; ++seed) sizes.insert(numbers(make_crop(s), p, seed).size());
  EXPECT_EQ(sizes, (std::set<std::size_t>{1, 4, 9, 16}));
}

TEST_F(TransformTest, TenViews) {
  const Picture p = numbered(5, 4, 1);
  CropSettings s;
  s.type = CropType::multiview10;
  s.width = s.height = 2;
  s.flip = true;  // has no say here
  const std::size_t corners[5][2] = {{0, 0}, {3, 0}, {0, 2}, {3, 2}, {1, 1}};
  for (int view = 0; view < 10; ++view) {
    const auto [x, y] = corners[view % 5];
    std::vector<float> expected;
    for (std::size_t dy = 0; dy < 2; ++dy)
      for (std::size_t dx = 0; dx < 2; ++dx) expected.push_back(p.at(x + (view < 5 ? dx : 1 - dx), y + dy));
    EXPECT_EQ(numbers(make_crop(s), p, 3, view), expected) << view;
  }
}

TEST_F(TransformTest, ScaleModes) {
  const Picture p = numbered(8, 4);
  ScaleSettings s;
  s.width = s.height = 4;
  EXPECT_EQ(numbers(make_scale(s), p), resized(p, 4, 4, Interpolation::linear));
  s.mode = ScaleMode::crop;  // 8 x 4 is not scaled at all, its middle is taken
  std::vector<float> middle;
  for (std::size_t y = 0; y < 4; ++y)
    for (std::size_t i = 6; i < 18; ++i) middle.push_back(p.pixels[y * 24 + i]);
  EXPECT_EQ(numbers(make_scale(s), p), middle);
  s.mode = ScaleMode::pad;  // to 4 x 2, between a row above and one below
  const auto small = resized(p, 4, 2, Interpolation::linear);
  s.pad_value = 9;
  auto padded = numbers(make_scale(s), p);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(padded[i], 9);
    EXPECT_EQ(padded[12 + i], small[i]);
    EXPECT_EQ(padded[36 + i], 9);
  }
  s.pad_value = -1;
  padded = numbers(make_scale(s), p);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(padded[i], small[i]) << "the edge is repeated";
    EXPECT_EQ(padded[36 + i], small[12 + i]);
  }
  // Whatever the shape, the result has the size asked for.
  for (const auto mode : {ScaleMode::crop, ScaleMode::pad})
    for (const auto& [w, h] : {std::pair{1, 300}, {300, 1}, {7, 5}, {50, 51}})
      for (const auto& [tw, th] : {std::pair{4, 4}, {9, 5}, {1, 7}}) {
        ScaleSettings t;
        t.mode = mode, t.width = tw, t.height = th;
        EXPECT_EQ(
            apply(make_scale(t), image_of(numbered(static_cast<std::size_t>(w), static_cast<std::size_t>(h)))).size,
            (ImageSize{tw, th, 3}));
      }
}

// The scaled side is a rounded product: 325 * 224 / 320 = 227.5 is 228, and 77 * 10 / 308 = 2.5 is 3.
TEST_F(TransformTest, ScaledSidesAreRoundedAsInCntk) {
  const Picture wide = numbered(325, 320, 1), flat = numbered(308, 77, 1);
  const auto whole = resized(wide, 228, 224, Interpolation::linear);
  const auto crop = numbers(make_scale({.width = 224, .height = 224, .mode = ScaleMode::crop}), wide);
  ASSERT_EQ(crop.size(), 224u * 224);
  for (std::size_t y = 0; y < 224; ++y)
    for (std::size_t x = 0; x < 224; ++x) ASSERT_EQ(crop[y * 224 + x], whole[y * 228 + 2 + x]) << x << ' ' << y;
  const auto rows = resized(flat, 10, 3, Interpolation::linear);
  const auto pad = numbers(make_scale({.width = 10, .height = 10, .mode = ScaleMode::pad, .pad_value = 9}), flat);
  for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(pad[i], i < 30 || i >= 60 ? 9 : rows[i - 30]) << i;
}

TEST_F(TransformTest, ThreadsAreNotBlownUp) {
  ScaleSettings s;
  s.mode = ScaleMode::crop;
  s.width = s.height = 224;
  EXPECT_THROW(numbers(make_scale(s), numbered(30000, 1)), BadImage);
  s.mode = ScaleMode::pad;
  EXPECT_EQ(numbers(make_scale(s), numbered(30000, 1)).size(), 224u * 224 * 3);
}

TEST_F(TransformTest, ColorWithinItsRadius) {
  const Picture p = plain(3, 3, 60, 120, 180);
  double low = 1e9, high = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto all = numbers(make_color({.brightness = 0.5}), p, seed);
    EXPECT_NEAR(all[1] - all[0], 60, 1e-4) << "brightness shifts all channels alike";
    low = std::min<double>(low, all[0]), high = std::max<double>(high, all[0]);
  }
  EXPECT_GE(low, 0);
  EXPECT_LT(low, 10);
  EXPECT_GT(high, 110);
  EXPECT_LE(high, 120);
  const auto contrast = numbers(make_color({.contrast = 0.5}), p, 5);
  EXPECT_NEAR(contrast[1] / contrast[0], 2, 1e-5);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto s = numbers(make_color({.saturation = 1}), p, seed);
    EXPECT_EQ(s[2], 180) << "the brightest channel stays";
    EXPECT_NEAR((180 - s[0]) / (180 - s[1]), 2, 1e-3) << "and so does the hue";
  }
}

TEST_F(TransformTest, IntensityShiftsChannelsByColour) {
  // One axis, red alone: only the last channel of B, G, R moves.
  const auto t = make_intensity(1, {10, 0, 0}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  const Picture p = plain(2, 2, 100, 100, 100);
  double sum = 0, squares = 0;
  constexpr int n = 2000;
  for (int seed = 0; seed < n; ++seed) {
    const auto all = numbers(t, p, static_cast<std::uint64_t>(seed));
    EXPECT_EQ(all[0], 100);
    EXPECT_EQ(all[1], 100);
    sum += all[2] - 100, squares += (all[2] - 100) * (all[2] - 100);
  }
  EXPECT_NEAR(sum / n, 0, 1);
  EXPECT_NEAR(std::sqrt(squares / n), 10, 0.6);
}

TEST_F(TransformTest, MeanIsSubtracted) {
  const Picture p = numbered(3, 2);
  std::vector<float> mean(18);
  for (std::size_t i = 0; i < 18; ++i) mean[i] = static_cast<float>(i) + 0.5f;
  const auto all = numbers(make_mean({3, 2, 3}, mean), p);
  for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(all[i], static_cast<float>(p.pixels[i]) - mean[i]);
  EXPECT_THROW(numbers(make_mean({2, 3, 3}, mean), p), BadImage);
}

TEST(OpencvXmlTest, MatricesAndFaults) {
  const auto error = [](const std::string& content) -> std::string {
    const TemporaryFile file(content);
    try {
      const OpencvXml xml(file.path());
      xml.integer("Row");
      xml.matrix("MeanImg");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto document = [](const std::string& row, const std::string& matrix) {
    return "<?xml version=\"1.0\"?>\n<opencv_storage><!-- mean --><Row>" + row +
           "</Row>\n<MeanImg type_id=\"opencv-matrix\">" + matrix + "</MeanImg></opencv_storage>\n";
  };
  const std::string good = "<rows>1</rows><cols>2</cols><dt>\"3f\"</dt><data>\n 1 2.5e1 -3. 4 5\n 6</data>";
  const std::string plain = "<rows>1</rows>\n<cols>6</cols><dt>f</dt><data>\n 1 2.5e1 -3. 4 5\n 6</data>";
  {
    const TemporaryFile file(document(" 2 ", plain));
    const OpencvXml xml(file.path());
    EXPECT_EQ(xml.integer("Row"), 2);
    EXPECT_EQ(xml.matrix("MeanImg").values, (std::vector<float>{1, 25, -3, 4, 5, 6}));
  }
  EXPECT_EQ(error(document("2", good)), "") << "OpenCV puts types of several channels in quotes";
  EXPECT_NE(error(document("two", plain)).find("<Row> holds 'two'"), std::string::npos);
  EXPECT_NE(error(document("2", "<rows>1</rows><cols>3</cols><dt>f</dt><data>1 2</data>")).find("has 2 numbers"),
            std::string::npos);
  EXPECT_NE(error(document("2", "<rows>1</rows><cols>2</cols><dt>f</dt><data>1 x</data>")).find("'x'"),
            std::string::npos);
  EXPECT_NE(error("<a><Row>1</Row>").find("line 1"), std::string::npos);
  EXPECT_NE(error("<a><Row>1</Row></a>").find("<MeanImg/rows>"), std::string::npos);
  EXPECT_NE(error("").find("reading the OpenCV XML file"), std::string::npos);
}

}  // namespace
}  // namespace tutti::reader::image_transform_test
