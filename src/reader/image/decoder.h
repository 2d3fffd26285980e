// SPDX-License-Identifier: Apache-2.0
// decoder.h -- JPEG and PNG files to pixels. Each worker has one; libraries' states are made once.
#pragma once

#include <memory>
#include <span>
#include <stdexcept>

#include "reader/image/image.h"

namespace tutti::reader {

// The file is no usable image; what() says why.
class BadImage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whoever decodes a file of a given kind. Throws BadImage for what is broken, cut off or too large.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual bool knows(std::span<const unsigned char> file) const = 0;
  virtual Image decode(std::span<const unsigned char> file, bool grayscale, Scratch&) = 0;
};
std::unique_ptr<Codec> make_jpeg_codec();
std::unique_ptr<Codec> make_png_codec();

// Checked before memory is taken: a damaged header must not ask for all of it.
void check_image_size(std::uint64_t width, std::uint64_t height);

class Decoder {
 public:
  Decoder();
  // One channel when `grayscale`, else three (B, G, R). EXIF orientation is not looked at.
  Image decode(std::span<const unsigned char> file, bool grayscale, Scratch&);

 private:
  std::array<std::unique_ptr<Codec>, 2> codecs_;
};

}  // namespace tutti::reader
