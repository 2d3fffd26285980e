// SPDX-License-Identifier: Apache-2.0
// values.h -- strict conversion of words to numbers, and the arrays a:b:c and x*n.
#pragma once

#include <string>
#include <vector>

#include "config/syntax.h"
#include "tutti/config.h"

namespace tutti::config {

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
