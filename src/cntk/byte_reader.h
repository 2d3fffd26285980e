// SPDX-License-Identifier: Apache-2.0
// byte_reader.h -- the fields of CNTK's binary files: little endian, without alignment. Every size is compared with
// what is left of the file before memory is allocated. A damaged file throws an Error with the offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cntk {

struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::shared_ptr<std::vector<float>> values;  // column by column; doubles are rounded
};

class ByteReader {
 public:
  // The bytes of a file; `path` is its name in errors.
  ByteReader(std::string path, std::vector<char> bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}
  static ByteReader open(const std::string& path);

  const std::string& path() const { return path_; }
  std::size_t offset() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  // `what` names the field in errors.
  template <class T>
  T number(const char* what) {
    need(sizeof(T), what);
    T v;
    std::memcpy(&v, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return v;
  }
  bool flag(const char* what);
  // A number of items that take at least `least` bytes each.
  std::size_t count(const char* what, std::size_t least);
  std::string text(const char* what);         // UTF-16 in the file, UTF-8 here
  std::string narrow_text(const char* what);  // bytes
  std::string name(const char* what);         // a text without control characters
  std::vector<double> shape(const char* what);
  std::vector<double> flags(const char* what);
  Matrix matrix(const char* what);

  // Markers are texts. next_is() looks `ahead` bytes further.
  bool next_is(std::string_view marker, std::size_t ahead = 0) const;
  bool take(std::string_view marker);
  void expect(std::string_view marker);
  // Skips all but the marker at the end of the file, where it is due.
  void skip_to_last(std::string_view marker);

  // Reports a field that begins at `at`.
  [[noreturn]] void fail(std::size_t at, const std::string& what) const;

 private:
  void need(std::size_t bytes, const char* what) const;
  template <class T>
  void read_values(std::vector<float>& to);

  std::string path_;
  std::vector<char> bytes_;
  std::size_t at_ = 0;
};

// Whether the file begins with the marker. False for files that cannot be read.
bool begins_with(const std::string& path, std::string_view marker);

}  // namespace tutti::cntk
