// SPDX-License-Identifier: Apache-2.0
// json_scanner.h -- walks through a JSON text without building a tree, and reports errors with their offset; used for
// headers of safetensors. Also writes quoted strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::interchange {

class JsonScanner {
 public:
  // `fail` throws. The text must outlive the scanner.
  using Fail = std::function<void(std::size_t at, const std::string& what)>;
  JsonScanner(std::string_view text, Fail fail) : text_(text), fail_(std::move(fail)) {}

  // Reads an object. `value` is called for each key, with the key's offset, and must read its value.
  void members(const std::function<void(const std::string& key, std::size_t at)>& value);
  std::string text();
  std::vector<std::uint64_t> numbers();  // an array of whole numbers
  void skip();                           // any value
  void end();                            // only blanks follow

 private:
  char next();  // the next character that is not blank, unread; 0 at the end
  bool take(char);
  void expect(char);
  std::uint64_t whole_number();
  std::uint32_t four_hex_digits();
  void append_escaped(std::string& to);
  void skip_scalar();
  [[noreturn]] void fail(std::size_t at, const std::string& what) const;

  std::string_view text_;
  Fail fail_;
  std::size_t at_ = 0;
};

std::string json_quoted(std::string_view);  // with its quotes

}  // namespace tutti::interchange
