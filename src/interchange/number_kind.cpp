// SPDX-License-Identifier: Apache-2.0
#include "interchange/number_kind.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "codec/half_bits.h"

namespace tutti::interchange {
namespace {

static_assert(std::endian::native == std::endian::little, "the file formats are little-endian");

template <class T>
void convert_numbers(std::span<const std::byte> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T v;
    std::memcpy(&v, from.data() + i * sizeof(T), sizeof(T));
    to[i] = static_cast<float>(v);
  }
}

template <float (*decode)(std::uint32_t)>
void convert_halves(std::span<const std::byte> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t v;
    std::memcpy(&v, from.data() + i * sizeof v, sizeof v);
    to[i] = decode(v);
  }
}

}  // namespace

std::size_t bytes_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::boolean:
    case NumberKind::int8:
    case NumberKind::uint8:
      return 1;
    case NumberKind::int16:
    case NumberKind::uint16:
    case NumberKind::float16:
    case NumberKind::bfloat16:
      return 2;
    case NumberKind::int32:
    case NumberKind::uint32:
    case NumberKind::float32:
      return 4;
    case NumberKind::int64:
    case NumberKind::uint64:
    case NumberKind::float64:
      return 8;
  }
  return 0;
}

bool is_float(NumberKind kind) { return kind >= NumberKind::float16; }

std::string_view name_of(NumberKind kind) {
  constexpr std::string_view names[] = {"bool",  "int8",   "uint8",   "int16",    "uint16",  "int32",  "uint32",
                                        "int64", "uint64", "float16", "bfloat16", "float32", "float64"};
  return names[static_cast<std::size_t>(kind)];
}

void to_floats(NumberKind kind, std::span<const std::byte> from, std::span<float> to) {
  assert(from.size() == to.size() * bytes_of(kind));
  switch (kind) {
    case NumberKind::boolean:
    case NumberKind::uint8:
      return convert_numbers<std::uint8_t>(from, to);
    case NumberKind::int8:
      return convert_numbers<std::int8_t>(from, to);
    case NumberKind::int16:
      return convert_numbers<std::int16_t>(from, to);
    case NumberKind::uint16:
      return convert_numbers<std::uint16_t>(from, to);
    case NumberKind::int32:
      return convert_numbers<std::int32_t>(from, to);
    case NumberKind::uint32:
      return convert_numbers<std::uint32_t>(from, to);
    case NumberKind::int64:
      return convert_numbers<std::int64_t>(from, to);
    case NumberKind::uint64:
      return convert_numbers<std::uint64_t>(from, to);
    case NumberKind::float16:
      return convert_halves<from_half>(from, to);
    case NumberKind::bfloat16:
      return convert_halves<from_brain>(from, to);
    case NumberKind::float32:
      if (!to.empty()) std::memcpy(to.data(), from.data(), to.size_bytes());  // NaNs keep their bits
      return;
    case NumberKind::float64:
      return convert_numbers<double>(from, to);
  }
}

}  // namespace tutti::interchange
