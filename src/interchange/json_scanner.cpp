// SPDX-License-Identifier: Apache-2.0
#include "interchange/json_scanner.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/utf8.h"

namespace tutti::interchange {
namespace {

bool json_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool json_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

void JsonScanner::fail(std::size_t at, const std::string& what) const {
  fail_(at, what);
  std::abort();  // fail_ throws
}

char JsonScanner::next() {
  while (at_ < text_.size() && json_blank(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonScanner::take(char c) {
  if (next() != c) return false;
  ++at_;
  return true;
}

void JsonScanner::expect(char c) {
  if (!take(c)) fail(at_, fmt::format("the header has no '{}' here", c));
}

void JsonScanner::members(const std::function<void(const std::string&, std::size_t)>& value) {
  expect('{');
  if (take('}')) return;
  do {
    next();
    const std::size_t at = at_;
    const std::string key = text();
    expect(':');
    value(key, at);
  } while (take(','));
  expect('}');
}

std::string JsonScanner::text() {
  expect('"');
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    const char c = text_[at_++];
    if (static_cast<unsigned char>(c) < 0x20) fail(at_ - 1, "a string of the header has a control character");
    if (c == '\\')
      append_escaped(out);
    else
      out += c;
  }
  if (at_ >= text_.size()) fail(at_, "the header ends within a string");
  ++at_;
  return out;
}

std::uint32_t JsonScanner::four_hex_digits() {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = json_digit(c)          ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) fail(at_, "\\u needs four hexadecimal digits");
    value = value * 16 + static_cast<std::uint32_t>(digit);
    ++at_;
  }
  return value;
}

void JsonScanner::append_escaped(std::string& to) {
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  if (const auto known = letters.find(c); c != '\0' && known != letters.npos) {
    to += meant[known];
    return;
  }
  if (c != 'u') fail(at_, "the header has an unknown escape in a string");
  std::uint32_t code = four_hex_digits();
  if (code >= 0xD800 && code < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") fail(at_, "half of a surrogate pair");
    at_ += 2;
    const std::uint32_t low = four_hex_digits();
    if (low < 0xDC00 || low > 0xDFFF) fail(at_, "half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(to, code);
}

std::uint64_t JsonScanner::whole_number() {
  next();
  std::uint64_t value = 0;
  const std::size_t begin = at_;
  while (at_ < text_.size() && json_digit(text_[at_])) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, static_cast<std::uint64_t>(text_[at_] - '0'), &value))
      fail(begin, "the number is too large");
    ++at_;
  }
  if (at_ == begin) fail(begin, "a whole number is expected here");
  return value;
}

std::vector<std::uint64_t> JsonScanner::numbers() {
  std::vector<std::uint64_t> values;
  expect('[');
  if (take(']')) return values;
  do values.push_back(whole_number());
  while (take(','));
  expect(']');
  return values;
}

void JsonScanner::skip_scalar() {
  if (next() == '"') {
    text();
    return;
  }
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_.find_first_of(",:]}[{\" \t\r\n", at_) != at_) ++at_;
  if (at_ == begin) fail(begin, "a value is expected here");
}

void JsonScanner::skip() {
  std::string open;  // brackets, instead of recursion
  do {
    const char c = next();
    if (c == '{' || c == '[') {
      open += c, ++at_;
    } else if (!open.empty() && (c == '}' || c == ']')) {
      if ((c == '}') != (open.back() == '{')) fail(at_, "a bracket does not fit");
      open.pop_back(), ++at_;
    } else if (!open.empty() && (c == ',' || c == ':')) {
      ++at_;
    } else {
      skip_scalar();
    }
  } while (!open.empty());
}

void JsonScanner::end() {
  if (next() != '\0' || at_ < text_.size()) fail(at_, "something follows the header's last bracket");
}

}  // namespace tutti::interchange
