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
// Its picture; a pure function of the arguments. `noise` is the amplitude of the grey noise, 0 to 1.
void draw_digit(std::uint64_t seed, std::uint64_t index, float noise, DigitImage&);

}  // namespace tutti::reader
