// SPDX-License-Identifier: Apache-2.0
// syntax.h -- brackets, settings and arrays of a config text. Works on ranges without copying, so every range knows its
// place. The inside of a block is split only on demand, because it may be another language (BrainScript).
#pragma once

#include <string>
#include <vector>

#include "config/text.h"
#include "tutti/config.h"

namespace tutti::config {

// Reports unmatched brackets and unterminated strings; returns false if there are any.
bool check_brackets(const TextRange&, Problems&);

// The position after the bracket or quote that closes the one at `at`, at most `end`.
std::size_t skip_nested(std::string_view text, std::size_t at, std::size_t end);

// Whether the whole range is one bracket pair or one quoted string.
bool is_bracketed(const TextRange&);
bool is_quoted(const TextRange&);
// Whether the range is a block [ ] or { } with settings, as opposed to an array in brackets such as [1:2:3] or
// ([..]:[..]).
bool is_block(const TextRange&);
// The blocks that follow each other and are all that the range holds; none if it holds anything else.
std::vector<TextRange> blocks_in(const TextRange&);

struct Inside {
  TextRange body;      // without the brackets and the separator
  char separator = 0;  // the custom separator written directly after the bracket, or 0
};
Inside inside(const TextRange& bracketed);

// One setting of a block.
struct Statement {
  enum class Kind {
    setting,    // key = value
    flag,       // key alone: true
    bare,       // [ ... ] without a key: its members belong to this level
    expansion,  // $variable$ where a key should stand: settings come out of it
    include,    // a line include=a+b
  };
  Kind kind = Kind::setting;
  TextRange key, value;
};
std::vector<Statement> split_statements(const Inside&, Problems&);

// The elements of a:b:c, (a:b:c) or a single value; x*n is not repeated yet, and quotes are kept.
std::vector<TextRange> split_array(const TextRange&);

// ---- strict conversion of words to numbers, and the arrays a:b:c and x*n

// All throw ConfigError at the value's place; `key` names it in the message.
bool to_boolean(const Value&, std::string_view key);
std::int64_t to_integer(const Value&, std::string_view key);
double to_number(const Value&, std::string_view key);

// The elements of an array value with x*n repeated; with `numeric`, n must be a count.
std::vector<Value> to_elements(const TextRange&, std::string_view key, bool numeric);

std::string from_number(double);  // shortest text that reads back as the same number
// a*3:b; for numbers and words without blanks.
std::string from_elements(const std::vector<std::string>&);
// As the value of a setting: quoted where needed.
std::string quoted_if_needed(const std::string&);

}  // namespace tutti::config
