// SPDX-License-Identifier: Apache-2.0
#include "interchange/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "train/file.h"
#include "tutti/error.h"

namespace tutti::interchange {
namespace {

constexpr std::string_view npy_magic("\x93NUMPY", 6);

const std::map<std::string, NumberKind, std::less<>> descriptions = {
    {"|b1", NumberKind::boolean}, {"|i1", NumberKind::int8},    {"|u1", NumberKind::uint8},
    {"<i2", NumberKind::int16},   {"<u2", NumberKind::uint16},  {"<i4", NumberKind::int32},
    {"<u4", NumberKind::uint32},  {"<i8", NumberKind::int64},   {"<u8", NumberKind::uint64},
    {"<f2", NumberKind::float16}, {"<f4", NumberKind::float32}, {"<f8", NumberKind::float64}};

// The header is a Python dictionary with three keys, such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4),
// }
class DictionaryScanner {
 public:
  DictionaryScanner(std::string_view text, std::size_t at, const NpyFail& fail) : text_(text), at_(at), fail_(fail) {}

  NpyHeader run() {
    NpyHeader h;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::size_t at = at_;
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr)
        h.kind = kind(), descr = true;
      else if (key == "fortran_order" && !order)
        h.first_axis_fastest = boolean(), order = true;
      else if (key == "shape" && !shape)
        h.shape = tuple(), shape = true;
      else
        fail(at, fmt::format("the header has an unexpected key '{}'", key));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!descr || !order || !shape) fail(at_, "the header lacks one of descr, fortran_order and shape");
    return h;
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    fail_(at, what);
    std::abort();  // fail_ throws
  }
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) { return next() == c && (++at_, true); }
  void expect(char c) {
    if (!take(c)) fail(at_, fmt::format("the header has no '{}' here", c));
  }
  std::string quoted() {
    const char quote = next();
    if (quote != '\'' && quote != '"') fail(at_, "the header has no string here");
    const std::size_t end = text_.find(quote, ++at_);
    if (end == text_.npos) fail(at_, "the header ends within a string");
    const std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  NumberKind kind() {
    if (next() == '[')
      fail(at_, "the elements are records; only plain numbers are read\nfix: save one of their fields");
    const std::size_t at = at_;
    const std::string name = quoted();
    const auto known = descriptions.find(name);
    if (known == descriptions.end())
      fail(at, fmt::format("the type '{}' is not read; numbers are, in little-endian order\nfix: save the array as "
                           "float32: array.astype('<f4')",
                           name));
    return known->second;
  }
  bool boolean() {
    next();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)})
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    fail(at_, "fortran_order is neither True nor False");
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(');
    while (!take(')')) {
      next();
      const std::size_t begin = at_;
      std::uint64_t v = 0;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9')
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, static_cast<std::uint64_t>(text_[at_++] - '0'), &v))
          fail(begin, "a dimension is too large");
      if (at_ == begin) fail(begin, "shape is not a tuple of whole numbers");
      values.push_back(v);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  std::size_t at_;
  const NpyFail& fail_;
};

// From the first axis fastest to the last axis fastest.
std::vector<float> turned(const std::vector<std::uint64_t>& shape, const std::vector<float>& from) {
  std::vector<float> to(from.size());
  std::vector<std::size_t> step(shape.size(), 1), at(shape.size(), 0);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) step[axis] = step[axis - 1] * shape[axis - 1];
  std::size_t source = 0;
  for (float& v : to) {
    v = from[source];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      source += step[axis];
      if (++at[axis] < shape[axis]) break;
      source -= step[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  return to;
}

}  // namespace

std::size_t NpyHeader::elements() const {
  std::size_t n = 1;
  for (const std::uint64_t d : shape) n *= d;
  return n;
}

std::string with_fix(const std::string& what, std::string_view fix) {
  return what.find("\nfix: ") == what.npos ? fmt::format("{}\nfix: {}", what, fix) : what;
}

NpyHeader parse_npy_header(std::string_view first, std::uint64_t size, const NpyFail& fail) {
  constexpr std::size_t fixed = 10;
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(first[at])); };
  if (first.size() < fixed || !first.starts_with(npy_magic)) fail(0, "it does not begin as an array of NumPy");
  const std::size_t version = byte(6), begin = version == 1 ? 10 : 12;
  if (version < 1 || version > 3) fail(6, fmt::format("the array has format version {}; 1 to 3 are read", version));
  if (first.size() < begin) fail(first.size(), "the file ends within the header");
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > most_npy_header - begin) fail(8, fmt::format("the header has {} bytes", length));
  if (begin + length > first.size()) fail(first.size(), "the file ends within the header");
  NpyHeader h = DictionaryScanner(first.substr(0, begin + length), begin, fail).run();
  h.values_at = begin + length;
  std::uint64_t bytes = bytes_of(h.kind);
  for (const std::uint64_t d : h.shape)
    if (__builtin_mul_overflow(bytes, d, &bytes)) fail(h.values_at, "the array is too large");
  if (bytes != size - h.values_at)
    fail(h.values_at, fmt::format("the shape needs {} bytes of values, and {} follow", bytes, size - h.values_at));
  return h;
}

std::vector<float> npy_values(const NpyHeader& h, std::span<const std::byte> bytes) {
  std::vector<float> values(h.elements());
  to_floats(h.kind, bytes, values);
  return h.first_axis_fastest && h.shape.size() > 1 ? turned(h.shape, values) : values;
}

std::string npy_header(std::span<const std::uint64_t> shape) {
  constexpr std::size_t fixed = 10, alignment = 64;
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t whole = (fixed + text.size() + 1 + alignment - 1) / alignment * alignment;
  text.resize(whole - fixed - 1, ' ');
  text += '\n';
  std::string header(npy_magic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return header + text;
}

NpyArray read_npy(const std::string& path) {
  const File file = File::open(path);
  const std::uint64_t size = file.size();
  std::string first(std::min<std::uint64_t>(size, most_npy_header), '\0');
  file.read(0, std::as_writable_bytes(std::span(first)));
  const NpyHeader h = parse_npy_header(first, size, [&](std::size_t at, const std::string& what) {
    throw Error(fmt::format("'{}', byte {}: {}", path, at, with_fix(what, "save the array with numpy.save")));
  });
  std::vector<std::byte> bytes(size - h.values_at);
  file.read(h.values_at, bytes);
  return {h.shape, npy_values(h, bytes)};
}

void write_npy(const std::string& path, std::span<const std::uint64_t> shape, std::span<const float> values) {
  const std::string unfinished = path + ".tmp";
  create_directories(directory_of(path));
  File file = File::create(unfinished);
  const std::string header = npy_header(shape);
  file.write(std::as_bytes(std::span(header)));
  file.write(std::as_bytes(values));
  file.close();
  rename_durably(unfinished, path);
}

}  // namespace tutti::interchange
