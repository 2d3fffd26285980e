// SPDX-License-Identifier: Apache-2.0
// image.h -- an image between file and network input: pixels as bytes while no transform needs fractions, then as
// floats; channels (B, G, R) fastest, then columns, then rows. The memory belongs to the worker's Scratch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "reader/buffer.h"
#include "reader/counter_random.h"

namespace tutti::reader {

struct ImageSize {
  std::int64_t width = 0, height = 0, channels = 0;
  std::int64_t numbers() const { return width * height * channels; }
  bool operator==(const ImageSize&) const = default;
};

struct Image {
  ImageSize size;
  std::size_t stride = 0;               // numbers from one row to the next
  const std::uint8_t* bytes = nullptr;  // exactly one of these is set
  const float* floats = nullptr;

  std::size_t row_numbers() const { return static_cast<std::size_t>(size.width * size.channels); }
  template <class T>
  const T* row(std::size_t y) const {
    if constexpr (sizeof(T) == 1) {
      return bytes + y * stride;
    } else {
      return floats + y * stride;
    }
  }
  void set(const std::uint8_t* numbers) { bytes = numbers; }
  void set(const float* numbers) { floats = numbers; }
};

// An image without gaps between its rows.
template <class T>
Image packed_image(ImageSize size, const T* numbers) {
  Image image{size};
  image.stride = image.row_numbers();
  image.set(numbers);
  return image;
}

// Calls f with a value of the type that the image's numbers have.
template <class F>
auto with_type(const Image& image, const F& f) {
  return image.bytes ? f(std::uint8_t{}) : f(float{});
}

// Memory that a worker reuses between images. The decoded image has its own buffer, so that several views can be cut
// from it; the transforms of one view alternate between two buffers.
class Scratch {
 public:
  std::uint8_t* decoded(std::size_t n) { return fresh(decoded_, n); }
  template <class T>
  T* next(std::size_t n) {
    turn_ ^= 1;
    if constexpr (sizeof(T) == 1) {
      return fresh(bytes_[turn_], n);
    } else {
      return fresh(floats_[turn_], n);
    }
  }
  Buffer<unsigned char> file;  // as read
  Buffer<unsigned char> text;  // for base64

 private:
  template <class T>
  static T* fresh(Buffer<T>& b, std::size_t n) {
    b.clear();
    return b.extend(n);
  }
  Buffer<std::uint8_t> decoded_;
  std::array<Buffer<std::uint8_t>, 2> bytes_;
  std::array<Buffer<float>, 2> floats_;
  std::size_t turn_ = 0;
};

}  // namespace tutti::reader
