// SPDX-License-Identifier: Apache-2.0
// Reads IDX files through zlib, which passes plain files through, checks that they belong together, and delivers their
// items.
#include "reader/idx/idx_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

#include "reader/fault_budget.h"
#include "reader/mapped_file.h"

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

// Calls f with a value of the type.
template <class F>
auto with_type(IdxType type, const F& f) {
  switch (type) {
    case IdxType::u8:
      return f(std::uint8_t{});
    case IdxType::i8:
      return f(std::int8_t{});
    case IdxType::i16:
      return f(std::int16_t{});
    case IdxType::i32:
      return f(std::int32_t{});
    case IdxType::f32:
      return f(float{});
    case IdxType::f64:
      break;
  }
  return f(double{});
}

}  // namespace

std::size_t size_of(IdxType type) {
  return with_type(type, [](auto v) { return sizeof v; });
}

std::size_t IdxHeader::item_size() const {
  std::size_t n = 1;
  for (std::size_t a = 1; a < axes.size(); ++a) n *= axes[a];
  return n;
}

void IdxArray::convert(std::size_t first, std::size_t n, float scale, float* to) const {
  const unsigned char* const from = bytes.data() + first * size_of(header.type);
  with_type(header.type, [&](auto v) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(element<decltype(v)>(from, i)) * scale;
  });
}

std::size_t IdxArray::find_non_finite(float scale) const {
  const std::size_t elements = bytes.size() / size_of(header.type);
  return with_type(header.type, [&](auto v) {
    std::size_t i = std::is_integral_v<decltype(v)> ? elements : 0;
    while (i < elements && std::isfinite(static_cast<float>(element<decltype(v)>(bytes.data(), i)) * scale)) ++i;
    return i;
  });
}

std::int64_t IdxArray::integer(std::size_t i) const {
  return with_type(header.type, [&](auto v) -> std::int64_t {
    if constexpr (std::is_integral_v<decltype(v)>) return element<decltype(v)>(bytes.data(), i);
    return -1;
  });
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

IdxSource::IdxSource(const IdxReaderOptions& options) {
  std::uint64_t items = 0;
  for (const auto& [name, s] : options.input) {
    const IdxHeader h = read_idx_header(s.file);
    if (streams_.empty()) items = h.items();
    if (h.items() != items)
      throw Error(
          fmt::format("reading the IDX file '{}': it has {} items, but '{}' has {}; they do not belong together",
                      s.file, h.items(), streams_.front().file, items));
    Item& stream = streams_.emplace_back(Item{s, name});
    check_stream(stream, h);
    infos_.push_back({name, stream.classes ? static_cast<std::size_t>(stream.dim) : h.item_size(), stream.sparse});
  }
  if (items >= SequenceIndex::most_sequences) throw Error("reading the IDX files: too many items");
}

void IdxSource::check_stream(Item& s, const IdxHeader& h) {
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("reading the IDX file '{}' for stream '{}': {}", s.file, s.name, why));
  };
  if (s.scale == 0) s.scale = h.type == IdxType::u8 ? 1.0 / 255 : 1.0;
  s.classes = h.item_size() == 1 && s.dim > 1;
  if (s.classes && (h.type == IdxType::f32 || h.type == IdxType::f64))
    fail(fmt::format("labelDim = {} asks for class numbers, but the file holds fractions", s.dim));
  if (!s.classes && s.dim > 0 && static_cast<std::uint64_t>(s.dim) != h.item_size())
    fail(fmt::format("each item has {} numbers, but the block says {}; are the files swapped?", h.item_size(), s.dim));
  if (!s.classes && s.sparse) fail("only a stream of classes can be sparse; set labelDim, or leave format out");
}

const SequenceIndex& IdxSource::index() {
  if (!arrays_.empty()) return index_;
  std::vector<IdxArray> arrays;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    arrays.push_back(read_idx(streams_[s].file));
    const IdxHeader& h = arrays.back().header;
    if (h.items() != arrays.front().header.items() || (!streams_[s].classes && h.item_size() != infos_[s].dim))
      throw Error(fmt::format("reading the IDX file '{}': it was changed while in use", streams_[s].file));
    streams_[s].classes ? check_classes(streams_[s], arrays.back()) : check_numbers(streams_[s], arrays.back());
  }
  arrays_ = std::move(arrays);
  index_ = SequenceIndex::uniform(static_cast<std::uint32_t>(arrays_.front().header.items()));
  return index_;
}

void IdxSource::check_classes(const Item& s, const IdxArray& array) {
  for (std::size_t i = 0; i < array.header.items(); ++i)
    if (const std::int64_t label = array.integer(i); label < 0 || label >= s.dim)
      throw ConfigError({},
                        fmt::format("reading the IDX file '{}': the label of item {} is {}, outside 0 to {}", s.file, i,
                                    label, s.dim - 1),
                        dim_fix("labelDim", label, s.name));
}

void IdxSource::check_numbers(const Item& s, const IdxArray& array) {
  const std::size_t at = array.find_non_finite(static_cast<float>(s.scale)), size = array.header.item_size();
  if (at < array.header.items() * size)
    throw ConfigError(
        {}, fmt::format("reading the IDX file '{}': number {} of item {} is not finite", s.file, at % size, at / size),
        "write finite numbers; items and numbers count from 0");
}

void IdxSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const IdxArray& array = arrays_[s];
    const std::size_t size = array.header.item_size();
    for (const std::uint32_t i : sequences) {
      if (streams_[s].classes) {
        share[s].add_one_hot(static_cast<std::size_t>(array.integer(i)));
      } else {
        array.convert(i * size, size, static_cast<float>(streams_[s].scale), share[s].add_dense());
      }
    }
  }
  share.end_single_samples(sequences.size());
}

}  // namespace tutti::reader
