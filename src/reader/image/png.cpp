// SPDX-License-Identifier: Apache-2.0
// PNG by libpng, all colour types and depths brought to 8 bits of grey or B, G, R; transparency is dropped. As with
// JPEG, the library leaves by longjmp and all that changes meanwhile lives in PngState.
#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>
#include <vector>

#include <png.h>

#include "reader/image/decoder.h"

namespace tutti::reader {
namespace {

struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const unsigned char* at = nullptr;
  std::size_t left = 0;
  char message[128] = "";
  std::vector<png_bytep> rows;

  ~PngState() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void leave(png_structp png, png_const_charp why) {
  PngState& s = *static_cast<PngState*>(png_get_error_ptr(png));
  std::strncpy(s.message, why, sizeof s.message - 1);
  png_longjmp(png, 1);
}

void be_quiet(png_structp, png_const_charp) {}

void hand_over(png_structp png, png_bytep to, std::size_t n) {
  PngState& s = *static_cast<PngState*>(png_get_io_ptr(png));
  if (n > s.left) png_error(png, "the file is cut off");
  std::memcpy(to, s.at, n);
  s.at += n;
  s.left -= n;
}

bool read_header(PngState& s, bool grayscale) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_set_read_fn(s.png, &s, hand_over);
  png_read_info(s.png, s.info);
  png_set_expand(s.png);
  png_set_strip_16(s.png);
  png_set_strip_alpha(s.png);
  png_set_bgr(s.png);
  if (grayscale) png_set_rgb_to_gray(s.png, 1, 0.299, 0.587);  // as the original has it
  png_set_interlace_handling(s.png);
  png_read_update_info(s.png, s.info);
  return true;
}

bool read_rows(PngState& s) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_read_image(s.png, s.rows.data());
  png_read_end(s.png, nullptr);
  return true;
}

class PngCodec final : public Codec {
 public:
  bool knows(std::span<const unsigned char> file) const override {
    return file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0;
  }

  Image decode(std::span<const unsigned char> file, bool grayscale, Scratch& scratch) override {
    PngState s;
    s.at = file.data();
    s.left = file.size();
    s.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s, leave, be_quiet);
    if (s.png) s.info = png_create_info_struct(s.png);
    if (!s.info) throw std::bad_alloc();
    if (!read_header(s, grayscale)) broken(s);
    const std::size_t width = png_get_image_width(s.png, s.info), height = png_get_image_height(s.png, s.info);
    check_image_size(width, height);
    const std::size_t channels = png_get_channels(s.png, s.info);
    const std::size_t wanted = grayscale ? 1 : 3, capacity = std::max(channels, wanted);
    std::uint8_t* const pixels = scratch.decoded(width * height * capacity);
    s.rows.resize(height);
    for (std::size_t y = 0; y < height; ++y) s.rows[y] = pixels + y * width * channels;
    if (!read_rows(s)) broken(s);
    if (channels == 1 && !grayscale)
      for (std::size_t i = width * height; i-- > 0;) std::fill_n(pixels + 3 * i, 3, pixels[i]);
    return packed_image(
        {static_cast<std::int64_t>(width), static_cast<std::int64_t>(height), static_cast<std::int64_t>(wanted)},
        pixels);
  }

 private:
  [[noreturn]] static void broken(const PngState& s) { throw BadImage(std::string("broken PNG: ") + s.message); }
};

}  // namespace

std::unique_ptr<Codec> make_png_codec() { return std::make_unique<PngCodec>(); }

}  // namespace tutti::reader
