// SPDX-License-Identifier: Apache-2.0
// Strict parsing of bools, integers, numbers and arrays, with a fix for common slips; and formatting.
#include "config/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace tutti::config {
namespace {

constexpr std::int64_t most_elements = 1'000'000;

std::string_view without_plus(std::string_view s) {
  if (s.size() > 1 && s[0] == '+' && s[1] != '-' && s[1] != '+') s.remove_prefix(1);
  return s;
}

bool parse_integer(std::string_view s, std::int64_t& v) {
  s = without_plus(s);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  return error == std::errc{} && end == s.data() + s.size();
}

bool parse_number(std::string_view s, double& v) {
  s = without_plus(s);
  const bool negative = s.starts_with('-');
  const std::string_view digits = negative ? s.substr(1) : s;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string lower = to_lower(digits);
  const std::size_t hash = lower.find("#inf");
  if (lower == "inf" || lower == "infinity" ||
      (hash != lower.npos && hash > 0 && hash + 4 == lower.size() && lower.find_first_not_of("0123456789.") == hash)) {
    v = negative ? -infinity : infinity;
    return true;
  }
  if (digits.empty() || !(std::isdigit(static_cast<unsigned char>(digits[0])) || digits[0] == '.')) return false;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (end != s.data() + s.size()) return false;
  if (error == std::errc::result_out_of_range) {
    const std::size_t e = lower.find('e');
    if (e == std::string::npos || e + 1 >= lower.size() || lower[e + 1] != '-') return false;
    v = 0;  // too small to tell from zero
    return true;
  }
  return error == std::errc{};
}

// What a slip such as 1e6, 10k or 5.0 probably meant.
std::string integer_fix(const std::string& text) {
  double v = 0;
  double factor = 1;
  std::string digits = text;
  if (!digits.empty()) {
    const auto unit = std::tolower(static_cast<unsigned char>(digits.back()));
    if (unit == 'k' || unit == 'm' || unit == 'g') {
      factor = unit == 'k' ? 1e3 : unit == 'm' ? 1e6 : 1e9;
      digits.pop_back();
    }
  }
  if (parse_number(digits, v) && std::isfinite(v) && std::abs(v * factor) < 9e15 &&
      v * factor == std::floor(v * factor))
    return fmt::format("write {:.0f}", v * factor);
  return "write digits only, such as 256";
}

}  // namespace

bool to_boolean(const Value& v, std::string_view key) {
  for (const auto* yes : {"t", "true", "T", "True", "TRUE", "1"})
    if (v.text == yes) return true;
  for (const auto* no : {"f", "false", "F", "False", "FALSE", "0", ""})
    if (v.text == no) return false;
  throw ConfigError(v.where, fmt::format("'{}' is true or false, not '{}'", key, v.text), "write true or false");
}

std::int64_t to_integer(const Value& v, std::string_view key) {
  std::int64_t result = 0;
  if (parse_integer(v.text, result)) return result;
  throw ConfigError(v.where, fmt::format("'{}' takes a whole number, not '{}'", key, v.text), integer_fix(v.text));
}

double to_number(const Value& v, std::string_view key) {
  double result = 0;
  if (parse_number(v.text, result)) return result;
  throw ConfigError(v.where, fmt::format("'{}' takes a number, not '{}'", key, v.text),
                    "write a number such as 0.5, 1e-3 or inf");
}

std::vector<Value> to_elements(const TextRange& whole, std::string_view key, bool numeric) {
  TextRange s = whole;
  if (is_quoted(s)) s = s.part(s.begin + 1, s.end - 1);
  std::vector<Value> values;
  std::vector<TextRange> elements = split_array(s);
  if (elements.size() > 1 && trim(elements.back()).view().empty()) elements.pop_back();  // a ':' at the end
  for (const TextRange& element : elements) {
    TextRange value = element;
    std::int64_t count = 1;
    const std::string_view text = element.view();
    const std::size_t star = is_quoted(element) || is_bracketed(element) ? std::string_view::npos : text.rfind('*');
    if (star != std::string_view::npos) {
      const TextRange times = trim(element.part(element.begin + star + 1, element.end));
      std::int64_t n = 0;
      if (parse_integer(times.view(), n)) {
        count = n;
        value = trim(element.part(element.begin, element.begin + star));
        if (count < 1 || count > most_elements - static_cast<std::int64_t>(values.size()))
          throw ConfigError(times.where(), fmt::format("'{}' cannot be repeated {} times", key, times.view()),
                            fmt::format("write a count from 1 to {}", most_elements));
      } else if (numeric) {
        throw ConfigError(times.where(), fmt::format("'{}': x*n repeats x n times, and n is a count", key),
                          "write for example 0.5*10:0.1");
      }
    }
    if (value.begin == value.end && numeric)
      throw ConfigError(element.where(), fmt::format("'{}' has an empty element", key),
                        "write values with ':' between them, such as 0.5:0.1");
    if (is_bracketed(value) && !numeric && !is_block(value)) {
      const std::vector<Value> inner = to_elements(value, key, numeric);
      const std::int64_t capacity = most_elements - static_cast<std::int64_t>(values.size());
      if (static_cast<std::int64_t>(inner.size()) > capacity / count)
        throw ConfigError(value.where(), fmt::format("'{}' has more than {} elements", key, most_elements),
                          "repeat less");
      for (std::int64_t i = 0; i < count; ++i) values.insert(values.end(), inner.begin(), inner.end());
      continue;
    }
    const std::string_view v = value.view();
    const Value one{std::string(is_quoted(value) ? v.substr(1, v.size() - 2) : v), value.where()};
    values.insert(values.end(), static_cast<std::size_t>(count), one);
  }
  return values;
}

std::string from_number(double v) {
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  return fmt::format("{}", v);
}

std::string from_elements(const std::vector<std::string>& elements) {
  std::string out;
  for (std::size_t i = 0; i < elements.size();) {
    std::size_t n = 1;
    while (i + n < elements.size() && elements[i + n] == elements[i]) ++n;
    out += (i ? ":" : "") + elements[i] + (n > 1 ? fmt::format("*{}", n) : "");
    i += n;
  }
  return out;
}

std::string quoted_if_needed(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           (c != 0 && std::string_view("_./:*+-~%^<>|&@!?\\'").find(static_cast<char>(c)) != std::string_view::npos);
  });
  // A quote inside cannot be written between quotes; such a text came from an unquoted value and can stand as one.
  return plain || text.find('"') != std::string::npos ? text : '"' + text + '"';
}

}  // namespace tutti::config
