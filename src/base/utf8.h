// SPDX-License-Identifier: Apache-2.0
// utf8.h -- Unicode code points as UTF-8, and the mark that some editors write in front of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Bytes of the byte order mark at the start of the text: 3, or 0 if there is none.
inline std::size_t byte_order_mark_size(std::string_view text) { return text.starts_with("\xEF\xBB\xBF") ? 3 : 0; }

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
