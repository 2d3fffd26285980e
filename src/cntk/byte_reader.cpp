// SPDX-License-Identifier: Apache-2.0
#include "cntk/byte_reader.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/utf8.h"
#include "tutti/error.h"

namespace tutti::cntk {
namespace {

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

constexpr std::uint32_t most_axes = 16;  // the original has 12 at most

// A marker as it is stored.
std::string stored(std::string_view marker) {
  std::string bytes;
  for (const char c : marker) bytes += {c, '\0'};
  return bytes + std::string(2, '\0');
}

}  // namespace

ByteReader ByteReader::open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error(fmt::format("cannot read '{}': {}", path, error ? error.message() : "it is not a regular file"));
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(std::filesystem::file_size(path));
  if (!file || (!bytes.empty() && !file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))))
    throw Error(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  return {path, std::move(bytes)};
}

void ByteReader::fail(std::size_t at, const std::string& what) const {
  throw Error(fmt::format("'{}' is damaged at byte {} of {}: {}\nfix: copy the file again from where it was made",
                          path_, at, bytes_.size(), what));
}

void ByteReader::need(std::size_t bytes, const char* what) const {
  if (bytes > left()) fail(at_, fmt::format("the file ends within {}", what));
}

bool ByteReader::flag(const char* what) {
  const std::size_t at = at_;
  const auto byte = number<std::uint8_t>(what);
  if (byte > 1) fail(at, fmt::format("{} is {} instead of 0 or 1", what, byte));
  return byte == 1;
}

std::size_t ByteReader::count(const char* what, std::size_t least) {
  const std::size_t at = at_;
  const auto n = number<std::uint64_t>(what);
  if (n > left() / least) fail(at, fmt::format("{} is {}, more than the file can hold", what, n));
  return n;
}

std::string ByteReader::text(const char* what) {
  const std::size_t begin = at_;
  std::string utf8;
  while (true) {
    const std::size_t at = at_;
    std::uint32_t c = number<std::uint16_t>(what);
    if (c == 0) return utf8;
    if (c >= 0xD800 && c < 0xE000) {  // a pair of surrogates
      const std::uint32_t low = number<std::uint16_t>(what);
      if (c >= 0xDC00 || low < 0xDC00 || low >= 0xE000) fail(at, fmt::format("{} is not UTF-16", what));
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (at - begin > 2 * 65536) fail(begin, fmt::format("{} has more than 65536 characters", what));
    append_utf8(utf8, c);
  }
}

std::string ByteReader::narrow_text(const char* what) {
  const auto* const begin = bytes_.data() + at_;
  const void* const end = left() == 0 ? nullptr : std::memchr(begin, 0, left());
  if (!end) fail(at_, fmt::format("the file ends within {}", what));
  std::string found(begin, static_cast<const char*>(end));
  at_ += found.size() + 1;
  return found;
}

std::string ByteReader::name(const char* what) {
  const std::size_t at = at_;
  std::string found = text(what);
  for (const char c : found)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) fail(at, fmt::format("{} holds control characters", what));
  return found;
}

std::vector<double> ByteReader::shape(const char* what) {
  const std::size_t at = at_;
  const auto rank = number<std::uint32_t>(what);
  if (rank > most_axes) fail(at, fmt::format("{} has {} axes", what, rank));
  std::vector<double> dims;
  double elements = 1;
  for (std::uint32_t k = 0; k < rank; ++k) {
    dims.push_back(number<std::uint32_t>(what));
    elements *= dims.back();
  }
  if (elements > 1e15) fail(at, fmt::format("{} has {:.3g} elements", what, elements));
  return dims;
}

std::vector<double> ByteReader::flags(const char* what) {
  const std::size_t at = at_, n = count(what, 1);
  if (n > most_axes) fail(at, fmt::format("{} has {} axes", what, n));
  std::vector<double> all;
  for (std::size_t k = 0; k < n; ++k) all.push_back(flag(what) ? 1 : 0);
  return all;
}

template <class T>
void ByteReader::read_values(std::vector<float>& to) {
  for (float& v : to) {
    T x;
    std::memcpy(&x, bytes_.data() + at_, sizeof(T));
    v = static_cast<float>(x);
    at_ += sizeof(T);
  }
}

Matrix ByteReader::matrix(const char* what) {
  const std::size_t at = at_;
  const auto kind = number<char>(what);
  if (kind == 's') fail(at, fmt::format("{} is a sparse matrix, which is not supported", what));
  if (kind != 'd') fail(at, fmt::format("{} does not begin with the letter of a dense matrix", what));
  expect("BMAT");
  const std::size_t at_size = at_;
  const auto size = number<std::uint64_t>(what);
  if (size != sizeof(float) && size != sizeof(double))
    fail(at_size, fmt::format("{} has elements of {} bytes instead of 4 or 8", what, size));
  name(what);  // not used by the original either
  const std::size_t at_format = at_;
  if (const auto format = number<std::int32_t>(what); format != 0)
    fail(at_format, fmt::format("{} has the storage format {} instead of 0", what, format));
  const std::size_t at_rows = at_;
  const auto rows = number<std::uint64_t>(what), columns = number<std::uint64_t>(what);
  if (rows != 0 && columns > left() / size / rows)
    fail(at_rows, fmt::format("{} is {} x {}, more than the file can hold", what, rows, columns));
  Matrix m{rows, columns, std::make_shared<std::vector<float>>(rows * columns)};
  size == sizeof(float) ? read_values<float>(*m.values) : read_values<double>(*m.values);
  expect("EMAT");
  return m;
}

bool ByteReader::next_is(std::string_view marker, std::size_t ahead) const {
  const std::string bytes = stored(marker);
  return ahead <= left() && bytes.size() <= left() - ahead &&
         std::memcmp(bytes_.data() + at_ + ahead, bytes.data(), bytes.size()) == 0;
}

bool ByteReader::take(std::string_view marker) {
  if (!next_is(marker)) return false;
  at_ += stored(marker).size();
  return true;
}

void ByteReader::expect(std::string_view marker) {
  if (!take(marker)) fail(at_, fmt::format("the marker {} is missing", marker));
}

void ByteReader::skip_to_last(std::string_view marker) {
  const std::size_t size = stored(marker).size();
  if (left() >= size) at_ = bytes_.size() - size;
}

bool begins_with(const std::string& path, std::string_view marker) {
  const std::string wanted = stored(marker);
  std::string found(wanted.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(found.data(), static_cast<std::streamsize>(found.size())) && found == wanted;
}

}  // namespace tutti::cntk
