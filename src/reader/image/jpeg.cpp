// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo. The library leaves its functions by longjmp when a file is broken: between setjmp and the jump
// there are calls of the library only, and all that changes lives in JpegState.
#include <csetjmp>
#include <cstdio>
#include <string>

// The second needs the first.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "reader/image/decoder.h"

namespace tutti::reader {
namespace {

struct JpegState {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  bool damaged = false;
  char message[JMSG_LENGTH_MAX] = "";
};

JpegState& state_of(j_common_ptr info) { return *static_cast<JpegState*>(info->client_data); }

[[noreturn]] void leave(j_common_ptr info) {
  JpegState& s = state_of(info);
  info->err->format_message(info, s.message);
  std::longjmp(s.escape, 1);
}

// What the library calls warnings and what means that pixels are missing or made up.
bool means_damage(int code) {
  switch (code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
#ifdef D_ARITH_CODING_SUPPORTED
    case JWRN_ARITH_BAD_CODE:
#endif
    case JWRN_MUST_RESYNC:
      return true;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  JpegState& s = state_of(info);
  if (level >= 0 || s.damaged || !means_damage(info->err->msg_code)) return;
  info->err->format_message(info, s.message);
  s.damaged = true;
}

bool read_header(JpegState& s, const unsigned char* data, unsigned long size, bool grayscale) {
  if (setjmp(s.escape)) return false;
  jpeg_mem_src(&s.info, data, size);
  jpeg_read_header(&s.info, TRUE);
  const bool inks = s.info.jpeg_color_space == JCS_CMYK || s.info.jpeg_color_space == JCS_YCCK;
  s.info.out_color_space = inks ? JCS_CMYK : grayscale ? JCS_GRAYSCALE : JCS_EXT_BGR;
  return !s.damaged;
}

bool read_rows(JpegState& s, std::uint8_t* to, std::size_t stride) {
  if (setjmp(s.escape)) return false;
  jpeg_start_decompress(&s.info);
  while (s.info.output_scanline < s.info.output_height && !s.damaged) {
    JSAMPROW rows[16];
    const JDIMENSION left = s.info.output_height - s.info.output_scanline, n = left < 16 ? left : 16;
    for (JDIMENSION i = 0; i < n; ++i) rows[i] = to + (s.info.output_scanline + i) * stride;
    jpeg_read_scanlines(&s.info, rows, n);
  }
  return !s.damaged;
}

class JpegCodec final : public Codec {
 public:
  JpegCodec() {
    state_.info.client_data = &state_;
    state_.info.err = jpeg_std_error(&state_.errors);
    state_.errors.error_exit = leave;
    state_.errors.emit_message = on_message;
    jpeg_create_decompress(&state_.info);
  }
  ~JpegCodec() override { jpeg_destroy_decompress(&state_.info); }
  JpegCodec(const JpegCodec&) = delete;
  JpegCodec& operator=(const JpegCodec&) = delete;

  bool knows(std::span<const unsigned char> file) const override {
    return file.size() >= 2 && file[0] == 0xFF && file[1] == 0xD8;
  }

  Image decode(std::span<const unsigned char> file, bool grayscale, Scratch& scratch) override {
    const Rest rest{state_.info};
    state_.damaged = false;
    if (!read_header(state_, file.data(), file.size(), grayscale)) broken();
    check_image_size(state_.info.image_width, state_.info.image_height);
    const std::int64_t width = state_.info.image_width, height = state_.info.image_height;
    const std::int64_t channels = state_.info.out_color_space == JCS_CMYK ? 4 : grayscale ? 1 : 3;
    const auto stride = static_cast<std::size_t>(width * channels);
    std::uint8_t* const to = scratch.decoded(stride * static_cast<std::size_t>(height));
    if (!read_rows(state_, to, stride)) broken();
    if (channels == 4) mix_inks(to, static_cast<std::size_t>(width * height), grayscale);
    return packed_image({width, height, grayscale ? 1 : 3}, to);
  }

 private:
  // The state is ready for the next file in any case.
  struct Rest {
    jpeg_decompress_struct& info;
    ~Rest() { jpeg_abort_decompress(&info); }
  };

  [[noreturn]] void broken() const { throw BadImage(std::string("broken JPEG: ") + state_.message); }

  // In place; print shops' files hold inverted inks as a rule, which is what the Adobe marker stands for.
  void mix_inks(std::uint8_t* pixels, std::size_t n, bool grayscale) const {
    const bool inverted = state_.info.saw_Adobe_marker;
    std::uint8_t* to = pixels;
    for (std::size_t i = 0; i < n; ++i) {
      int ink[4];
      for (int c = 0; c < 4; ++c)
        ink[c] =
            inverted ? pixels[4 * i + static_cast<std::size_t>(c)] : 255 - pixels[4 * i + static_cast<std::size_t>(c)];
      const auto mixed = [&](int c) { return (ink[c] * ink[3] + 127) / 255; };
      const int r = mixed(0), g = mixed(1), b = mixed(2);
      if (grayscale) {
        *to++ = static_cast<std::uint8_t>((b * 1868 + g * 9617 + r * 4899 + 8192) >> 14);
      } else {
        *to++ = static_cast<std::uint8_t>(b), *to++ = static_cast<std::uint8_t>(g),
        *to++ = static_cast<std::uint8_t>(r);
      }
    }
  }

  JpegState state_;
};

}  // namespace

std::unique_ptr<Codec> make_jpeg_codec() { return std::make_unique<JpegCodec>(); }

}  // namespace tutti::reader
