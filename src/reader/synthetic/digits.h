// SPDX-License-Identifier: Apache-2.0
// digits.h -- handwriting without a data set: the ten digits as pen strokes, drawn with random slant, size, place, pen
// and noise into 28 x 28 grey values.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::reader {

inline constexpr std::size_t digit_side = 28;
using DigitImage = std::array<std::uint8_t, digit_side * digit_side>;  // row by row, 255 = ink

// The class of sample `index`, 0 to 9.
int digit_label(std::uint64_t seed, std::uint64_t index);
struct DigitStyle {
  float noise = 0.1f;    // amplitude of the grey noise, 0 to 1
  float distortion = 1;  // how far the hand strays from the glyph; 1 = neat, 2 = sloppy
};
// Its picture; a pure function of the arguments.
void draw_digit(std::uint64_t seed, std::uint64_t index, const DigitStyle&, DigitImage&);

}  // namespace tutti::reader
