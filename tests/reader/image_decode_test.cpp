// SPDX-License-Identifier: Apache-2.0
// Image files to pixels: what is written comes back, what is damaged is refused with a reason, whatever the damage.
#include <gtest/gtest.h>

#include <cstdlib>

#include "image_support.h"
#include "reader/image/decoder.h"
#include "reader/image/image_bytes.h"

namespace tutti::reader::image_decode_test {
namespace {

std::span<const unsigned char> bytes_of(const std::string& file) {
  return {reinterpret_cast<const unsigned char*>(file.data()), file.size()};
}

class DecodeTest : public ::testing::Test {
 protected:
  Picture decode(const std::string& file, bool grayscale = false) {
    const Image image = decoder_.decode(bytes_of(file), grayscale, scratch_);
    Picture p{static_cast<std::size_t>(image.size.width),
              static_cast<std::size_t>(image.size.height),
              static_cast<std::size_t>(image.size.channels),
              {}};
    for (std::size_t y = 0; y < p.height; ++y) {
      const auto* row = image.row<std::uint8_t>(y);
      p.pixels.insert(p.pixels.end(), row, row + image.row_numbers());
    }
    return p;
  }
  std::string refusal(const std::string& file) {
    try {
      decode(file);
    } catch (const BadImage& e) {
      return e.what();
    }
    return "";
  }
  Decoder decoder_;
  Scratch scratch_;
};

TEST_F(DecodeTest, PngComesBackBitForBit) {
  for (const auto& [w, h] : {std::pair{1, 1}, {7, 3}, {64, 33}}) {
    const Picture colour = numbered(static_cast<std::size_t>(w), static_cast<std::size_t>(h));
    EXPECT_EQ(decode(png_of(colour)).pixels, colour.pixels);
    const Picture grey = numbered(static_cast<std::size_t>(w), static_cast<std::size_t>(h), 1);
    EXPECT_EQ(decode(png_of(grey), true).pixels, grey.pixels);
    const Picture spread = decode(png_of(grey), false);
    ASSERT_EQ(spread.channels, 3u);
    for (std::size_t i = 0; i < spread.pixels.size(); ++i) EXPECT_EQ(spread.pixels[i], grey.pixels[i / 3]);
  }
}

// These files say that their colours are sRGB; libpng mixes such in linear light, and so does the original.
TEST_F(DecodeTest, GreyOfColourIsItsLuminance) {
  EXPECT_NEAR(decode(png_of(plain(2, 2, 255, 0, 0)), true).pixels[0], 95, 1);
  EXPECT_NEAR(decode(png_of(plain(2, 2, 0, 255, 0)), true).pixels[0], 200, 1);
  EXPECT_NEAR(decode(png_of(plain(2, 2, 0, 0, 255)), true).pixels[0], 147, 1);
  EXPECT_NEAR(decode(png_of(plain(2, 2, 90, 90, 90)), true).pixels[0], 90, 1);
  EXPECT_NEAR(decode(jpeg_of(plain(8, 8, 0, 0, 255)), true).pixels[0], 76, 2) << "the luminance that JPEG stores";
}

TEST_F(DecodeTest, JpegIsNearAndInTheRightOrder) {
  for (const bool progressive : {false, true}) {
    const Picture p = plain(19, 40, 200, 100, 30);
    const Picture back = decode(jpeg_of(p, 95, progressive));
    ASSERT_EQ(back.pixels.size(), p.pixels.size());
    for (std::size_t i = 0; i < p.pixels.size(); ++i) EXPECT_NEAR(back.pixels[i], p.pixels[i], 3) << i;
  }
  const Picture grey = decode(jpeg_of(plain(8, 8, 255, 0, 0)), true);
  EXPECT_EQ(grey.channels, 1u);
  EXPECT_NEAR(grey.pixels[5], 29, 2);
}

TEST_F(DecodeTest, JpegOfInksBecomesColour) {
  // Without the Adobe marker the numbers are amounts of ink: no cyan, full magenta and yellow make red.
  Picture inks{16, 16, 4, std::vector<std::uint8_t>(1024, 0)};
  for (std::size_t i = 0; i < 256; ++i) inks.pixels[4 * i + 1] = inks.pixels[4 * i + 2] = 255;
  std::string file = jpeg_of(inks);
  const auto adobe = file.find("Adobe");
  const Picture p = decode(file);
  ASSERT_EQ(p.channels, 3u);
  // The library writes the marker for inks, which stands for inverted numbers: then this is cyan.
  const int red = adobe == std::string::npos ? 255 : 0;
  EXPECT_NEAR(p.at(3, 3, 2), red, 4);
  EXPECT_EQ(decode(file, true).channels, 1u);
}

TEST_F(DecodeTest, WhatIsNoImage) {
  EXPECT_EQ(refusal(""), "the file is empty");
  EXPECT_EQ(refusal("GIF89a and so on"), "the file is neither JPEG nor PNG");
  EXPECT_NE(refusal(std::string("\xFF\xD8", 2)).find("broken JPEG"), std::string::npos);
}

// Cut at every length, the file is refused unless all pixels were in what is left.
TEST_F(DecodeTest, CutOffFiles) {
  for (const std::string& file :
       {jpeg_of(numbered(24, 17)), jpeg_of(numbered(24, 17), 90, true), png_of(numbered(24, 17))}) {
    const Picture whole = decode(file);
    std::size_t refused = 0;
    for (std::size_t n = 0; n < file.size(); ++n) {
      try {
        EXPECT_EQ(decode(file.substr(0, n)).pixels, whole.pixels) << n << " of " << file.size();
      } catch (const BadImage&) {
        ++refused;
      }
    }
    EXPECT_GE(refused + 16, file.size());
  }
}

// Random damage may change pixels, but never more than that.
TEST_F(DecodeTest, DamagedFiles) {
  CounterRandom random(1, 0);
  for (const std::string& good : {jpeg_of(numbered(31, 22)), jpeg_of(numbered(31, 22), 90, true),
                                  png_of(numbered(31, 22)), jpeg_of(numbered(9, 9, 1))})
    for (int i = 0; i < 300; ++i) {
      std::string file = good;
      for (std::int64_t n = 1 + random.below(8); n > 0; --n)
        file[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size())))] =
            static_cast<char>(random.below(256));
      refusal(file);
    }
  // The decoder is as good as new after all that.
  const Picture p = numbered(31, 22);
  EXPECT_EQ(decode(png_of(p)).pixels, p.pixels);
}

TEST_F(DecodeTest, HugeSizesAreRefusedBeforeMemoryIsTaken) {
  std::string file = jpeg_of(plain(16, 16, 1, 2, 3));
  const auto frame = file.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  for (int i = 5; i < 9; ++i) file[frame + static_cast<std::size_t>(i)] = '\xFF';
  EXPECT_NE(refusal(file), "");
}

TEST(Base64, LettersToBytes) {
  const auto text = [](std::string_view letters) {
    Buffer<unsigned char> to;
    decode_base64(letters, to);
    return std::string(to.view().begin(), to.view().end());
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("Zg=="), "f");
  EXPECT_EQ(text("Zm8="), "fo");
  EXPECT_EQ(text("Zm9v"), "foo");
  EXPECT_EQ(text("Zm9vYg"), "foob");
  EXPECT_EQ(text("+/+/"), "\xFB\xFF\xBF");
  EXPECT_THROW(text("Zm9vY"), BadImage);
  EXPECT_THROW(text("Zm v"), BadImage);
}

TEST(ImageFiles, PlainAndMissing) {
  const TemporaryFolder folder;
  folder.write("a.bin", "content");
  ImageFiles files;
  Buffer<unsigned char> to;
  files.read(folder.path("a.bin"), to);
  EXPECT_EQ(std::string(to.view().begin(), to.view().end()), "content");
  EXPECT_THROW(files.read(folder.path("gone"), to), BadImage);
  EXPECT_THROW(files.read(folder.path(), to), BadImage);
  EXPECT_EQ(files.missing(folder.path("a.bin")), "");
  EXPECT_NE(files.missing(folder.path("gone")), "");
  EXPECT_NE(files.missing(folder.path("gone.zip") + "@/x"), "");
  EXPECT_THROW(files.read(folder.path("gone.zip") + "@/x", to), BadImage);
}

}  // namespace
}  // namespace tutti::reader::image_decode_test
