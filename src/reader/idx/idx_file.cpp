// SPDX-License-Identifier: Apache-2.0
// Reading IDX files through zlib, which passes plain files through.
#include "reader/idx/idx_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "reader/mapped_file.h"
#include "tutti/error.h"

namespace tutti::reader {
namespace {

class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path) {
    if (const std::string why = unreadable(path); !why.empty()) fail(why);
    file_.reset(::gzopen(path.c_str(), "rb"));
    if (!file_) fail(errno ? std::strerror(errno) : "out of memory");
    ::gzbuffer(file_.get(), 1 << 18);
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(fmt::format("reading the IDX file '{}': {}", path_, why));
  }
  // Reads up to n bytes.
  std::size_t read(unsigned char* to, std::size_t n) {
    std::size_t got = 0;
    while (got < n) {
      const int r = ::gzread(file_.get(), to + got, static_cast<unsigned>(std::min<std::size_t>(n - got, 1 << 30)));
      int code = Z_OK;
      const char* const message = ::gzerror(file_.get(), &code);
      if (code == Z_BUF_ERROR) fail("the compressed data end too early; the file is cut off");
      if (r < 0 || code != Z_OK) fail(fmt::format("the compressed data are damaged ({})", message));
      if (r == 0) break;
      got += static_cast<std::size_t>(r);
    }
    return got;
  }

 private:
  struct Close {
    void operator()(gzFile_s* f) const { ::gzclose(f); }
  };
  const std::string& path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

IdxHeader header_of(GzipFile& file) {
  unsigned char magic[4] = {};
  const std::size_t got = file.read(magic, 4);
  if (got < 4) file.fail(fmt::format("it has only {} bytes; an IDX file starts with a header of 8 or more", got));
  constexpr unsigned char types[] = {0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x0E};
  if (magic[0] != 0 || magic[1] != 0 || std::find(std::begin(types), std::end(types), magic[2]) == std::end(types) ||
      magic[3] == 0)
    file.fail(
        fmt::format("it does not start like an IDX file (bytes {:02x} {:02x} {:02x} {:02x}, expected 00 00, an element "
                    "type 08 to 0e, a number of axes)",
                    magic[0], magic[1], magic[2], magic[3]));
  IdxHeader h;
  h.type = static_cast<IdxType>(magic[2]);
  for (int axis = 0; axis < magic[3]; ++axis) {
    unsigned char b[4];
    if (file.read(b, 4) < 4) file.fail("the header is cut off");
    h.axes.push_back(std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3]);
  }
  std::uint64_t bytes = size_of(h.type);
  for (const std::uint32_t a : h.axes) {
    if (a == 0) file.fail(fmt::format("its header says {} elements: there are no data", fmt::join(h.axes, " x ")));
    if (__builtin_mul_overflow(bytes, a, &bytes) || bytes > std::uint64_t{1} << 46)
      file.fail(fmt::format("its header says {} elements, which no file has", fmt::join(h.axes, " x ")));
  }
  return h;
}

template <class T>
T element(const unsigned char* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void convert_all(const unsigned char* bytes, std::size_t n, float scale, float* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(element<T>(bytes, i)) * scale;
}

}  // namespace

std::size_t size_of(IdxType type) {
  switch (type) {
    case IdxType::u8:
    case IdxType::i8:
      return 1;
    case IdxType::i16:
      return 2;
    case IdxType::i32:
    case IdxType::f32:
      return 4;
    case IdxType::f64:
      return 8;
  }
  return 0;
}

std::size_t IdxHeader::item_size() const {
  std::size_t n = 1;
  for (std::size_t a = 1; a < axes.size(); ++a) n *= axes[a];
  return n;
}

void IdxArray::convert(std::size_t first, std::size_t n, float scale, float* to) const {
  const unsigned char* const from = bytes.data() + first * size_of(header.type);
  switch (header.type) {
    case IdxType::u8:
      return convert_all<std::uint8_t>(from, n, scale, to);
    case IdxType::i8:
      return convert_all<std::int8_t>(from, n, scale, to);
    case IdxType::i16:
      return convert_all<std::int16_t>(from, n, scale, to);
    case IdxType::i32:
      return convert_all<std::int32_t>(from, n, scale, to);
    case IdxType::f32:
      return convert_all<float>(from, n, scale, to);
    case IdxType::f64:
      return convert_all<double>(from, n, scale, to);
  }
}

std::int64_t IdxArray::integer(std::size_t i) const {
  switch (header.type) {
    case IdxType::u8:
      return bytes[i];
    case IdxType::i8:
      return element<std::int8_t>(bytes.data(), i);
    case IdxType::i16:
      return element<std::int16_t>(bytes.data(), i);
    case IdxType::i32:
      return element<std::int32_t>(bytes.data(), i);
    case IdxType::f32:
    case IdxType::f64:
      break;
  }
  return -1;
}

IdxHeader read_idx_header(const std::string& path) {
  GzipFile file(path);
  return header_of(file);
}

IdxArray read_idx(const std::string& path) {
  GzipFile file(path);
  IdxArray array;
  array.header = header_of(file);
  const std::size_t size = size_of(array.header.type);
  const std::size_t expected = array.header.items() * array.header.item_size() * size;
  // Memory follows the size of the file, whatever its header claims.
  constexpr std::size_t block = std::size_t{16} << 20;
  std::size_t got = 0;
  while (got < expected) {
    array.bytes.resize(std::min(expected, std::max(got + block, 2 * got)));
    const std::size_t n = file.read(array.bytes.data() + got, array.bytes.size() - got);
    got += n;
    if (got < array.bytes.size())
      file.fail(
          fmt::format("it is cut off: its header says {} elements of {} byte{}, which is {} bytes, but only {} follow",
                      fmt::join(array.header.axes, " x "), size, size == 1 ? "" : "s", expected, got));
  }
  unsigned char more = 0;
  if (file.read(&more, 1) > 0)
    file.fail(
        fmt::format("more data follow than the {} elements that its header says", fmt::join(array.header.axes, " x ")));
  if constexpr (std::endian::native == std::endian::little)
    for (std::size_t i = 0; size > 1 && i < expected; i += size)
      std::reverse(array.bytes.data() + i, array.bytes.data() + i + size);
  return array;
}

}  // namespace tutti::reader
