// SPDX-License-Identifier: Apache-2.0
// utf8.h -- Unicode code points as UTF-8.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

// `c`: a code point up to 0x10FFFF.
inline void append_utf8(std::string& to, std::uint32_t c) {
  const auto byte = [&](std::uint32_t b) { to += static_cast<char>(b); };
  if (c < 0x80) return byte(c);
  if (c < 0x800)
    byte(0xC0 | c >> 6);
  else if (c < 0x10000)
    byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F));
  else
    byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F));
  byte(0x80 | (c & 0x3F));
}

}  // namespace tutti
