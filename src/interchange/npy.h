// SPDX-License-Identifier: Apache-2.0
// npy.h -- one array in NumPy's format: the members of npz archives, and the input and output of `trainer predict`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/number_kind.h"

namespace tutti::interchange {

struct NpyHeader {
  NumberKind kind = NumberKind::float32;
  bool first_axis_fastest = false;  // fortran_order
  std::vector<std::uint64_t> shape;
  std::size_t values_at = 0;  // where the values begin
  std::size_t elements() const;
};

// The longest header that is read.
constexpr std::size_t most_npy_header = 65536;

// `what` with a fix, unless it names one.
std::string with_fix(const std::string& what, std::string_view fix);

// Reads the header from the first bytes of `size` bytes: at least `most_npy_header`, or all. Checks that the values
// fill the rest exactly. `fail` throws; it gets the offset.
using NpyFail = std::function<void(std::size_t at, const std::string& what)>;
NpyHeader parse_npy_header(std::string_view first, std::uint64_t size, const NpyFail& fail);

// The values, with the last axis fastest, from the bytes after the header.
std::vector<float> npy_values(const NpyHeader&, std::span<const std::byte>);

// The header of an array of float32 with the last axis fastest.
std::string npy_header(std::span<const std::uint64_t> shape);

struct NpyArray {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};
NpyArray read_npy(const std::string& path);  // throws Error
void write_npy(const std::string& path, std::span<const std::uint64_t> shape, std::span<const float>);

}  // namespace tutti::interchange
