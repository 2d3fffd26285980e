// SPDX-License-Identifier: Apache-2.0
// number_kind.h -- the number types of tensors in foreign files, and their conversion to float. Used by the readers of
// safetensors, npz and npy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tutti::interchange {

enum class NumberKind {
  boolean,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64
};

std::size_t bytes_of(NumberKind);
bool is_float(NumberKind);
std::string_view name_of(NumberKind);  // "float32"

// Converts `to.size()` little-endian numbers. float64 and integers beyond 2^24 are rounded, all others are exact.
void to_floats(NumberKind, std::span<const std::byte> from, std::span<float> to);

}  // namespace tutti::interchange
