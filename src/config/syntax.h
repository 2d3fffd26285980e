// SPDX-License-Identifier: Apache-2.0
// syntax.h -- the brackets, settings and arrays of a config text. Works on ranges; nothing is copied, so every range
// knows its place. A block's inside is only split when somebody asks for it: it may be another language (BrainScript).
#pragma once

#include <optional>
#include <vector>

#include "config/text.h"

namespace tutti::config {

// Reports unmatched brackets and strings without an end; false if there are any.
bool check_brackets(const TextRange&, Problems&);

// Behind the bracket or quote that closes the one at `at` (at most `end`).
std::size_t skip_nested(std::string_view text, std::size_t at, std::size_t end);

// The whole range is one bracket pair / one quoted string.
bool is_bracketed(const TextRange&);
bool is_quoted(const TextRange&);
// [ ] or { } with settings in it, as opposed to an array in brackets such as [1:2:3] or ([..]:[..]).
bool is_block(const TextRange&);

struct Inside {
  TextRange body;      // without the brackets and the separator
  char separator = 0;  // the custom separator written right behind the bracket, or 0
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

// The elements of a:b:c, (a:b:c) or a single value; x*n is not yet repeated, quotes are still there.
std::vector<TextRange> split_array(const TextRange&);

}  // namespace tutti::config
