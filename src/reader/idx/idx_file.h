// SPDX-License-Identifier: Apache-2.0
// idx_file.h -- arrays in the IDX format of the MNIST files, plain or gzip: two zero bytes, element type, number of
// axes, the axes as big-endian 32-bit numbers, then the elements, last axis fastest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::reader {

enum class IdxType : std::uint8_t { u8 = 0x08, i8 = 0x09, i16 = 0x0B, i32 = 0x0C, f32 = 0x0D, f64 = 0x0E };

std::size_t size_of(IdxType);

struct IdxHeader {
  IdxType type = IdxType::u8;
  std::vector<std::uint32_t> axes;
  std::size_t items() const { return axes.front(); }
  std::size_t item_size() const;  // elements per item: the product of the other axes
};

struct IdxArray {
  IdxHeader header;
  std::vector<unsigned char> bytes;  // the elements in this machine's byte order

  // Elements [first, first + n) as float, times `scale`.
  void convert(std::size_t first, std::size_t n, float scale, float* to) const;
  // One element of an integer type.
  std::int64_t integer(std::size_t element) const;
};

// Both throw an Error that says what is wrong with the file.
IdxHeader read_idx_header(const std::string& path);
IdxArray read_idx(const std::string& path);

}  // namespace tutti::reader
