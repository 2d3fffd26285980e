// SPDX-License-Identifier: Apache-2.0
// decoder.h -- decodes JPEG and PNG files. Each worker has one, so that the state of libraries is created once.
#pragma once

#include <memory>
#include <span>
#include <stdexcept>

#include "reader/image/image.h"

namespace tutti::reader {

// The file is not a usable image; what() has the reason.
class BadImage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Decodes one file format. Throws BadImage for broken, truncated or oversized files.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual bool knows(std::span<const unsigned char> file) const = 0;
  virtual Image decode(std::span<const unsigned char> file, bool grayscale, Scratch&) = 0;
};
std::unique_ptr<Codec> make_jpeg_codec();
std::unique_ptr<Codec> make_png_codec();

// Checked before memory is allocated, because a damaged header may ask for any size.
void check_image_size(std::uint64_t width, std::uint64_t height);

class Decoder {
 public:
  Decoder();
  // One channel if `grayscale`, else three (B, G, R). Ignores the EXIF orientation.
  Image decode(std::span<const unsigned char> file, bool grayscale, Scratch&);

 private:
  std::array<std::unique_ptr<Codec>, 2> codecs_;
};

}  // namespace tutti::reader
