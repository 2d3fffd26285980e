// SPDX-License-Identifier: Apache-2.0
// Detects the format of a file by its first bytes; file names are not trusted.
#include "reader/image/decoder.h"

#include <fmt/format.h>

namespace tutti::reader {

void check_image_size(std::uint64_t width, std::uint64_t height) {
  constexpr std::uint64_t most = std::uint64_t{1} << 28;  // pixels
  if (width == 0 || height == 0) throw BadImage("the image has no pixels");
  if (width * height > most)
    throw BadImage(
        fmt::format("{} x {} pixels are more than this reader takes ({} million)", width, height, most / 1'000'000));
}

Decoder::Decoder() : codecs_{make_jpeg_codec(), make_png_codec()} {}

Image Decoder::decode(std::span<const unsigned char> file, bool grayscale, Scratch& scratch) {
  if (file.empty()) throw BadImage("the file is empty");
  for (const auto& codec : codecs_)
    if (codec->knows(file)) return codec->decode(file, grayscale, scratch);
  throw BadImage("the file is neither JPEG nor PNG");
}

}  // namespace tutti::reader
