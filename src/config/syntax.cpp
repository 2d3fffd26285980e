// SPDX-License-Identifier: Apache-2.0
// Splits config texts into settings and arrays, and reports unmatched brackets.
#include "config/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tutti::config {
namespace {

constexpr std::size_t deepest = 200;  // far beyond any sensible config; keeps recursion over blocks harmless

bool is_open(char c) { return c == '[' || c == '{' || c == '('; }
bool is_close(char c) { return c == ']' || c == '}' || c == ')'; }
char partner(char open) { return open == '[' ? ']' : open == '{' ? '}' : ')'; }
bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Characters that become the separator when they stand right behind an opening bracket; a number, a name, a variable or
// a path there means itself.
bool is_custom_separator(std::string_view rest) {
  constexpr std::string_view allowed = "`~!@$%^&*_-+|:;,?.";
  if (rest.empty() || allowed.find(rest[0]) == std::string_view::npos) return false;
  const char next = rest.size() > 1 ? rest[1] : '\0';
  const bool digit = std::isdigit(static_cast<unsigned char>(next));
  switch (rest[0]) {
    case '.':
      return next != '.' && next != '/' && next != '\\' && !digit;
    case '-':
    case '+':
      return !digit && next != '.';
    case '_':
      return !is_name_char(next);
    case '$':
      return !is_name_start(next);
    case ';':
    case ',':
      return false;  // separators anyway
    default:
      return true;
  }
}

// Where a comment or a '...' string of BrainScript that begins at `at` ends; `at` if none begins there.
std::size_t end_of_quiet(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("//") && (at == 0 || is_blank(text[at - 1]))) return std::min(text.find('\n', at), text.size());
  if (const std::size_t end = text.find("*/", at + 2); rest.starts_with("/*")) return end == text.npos ? at : end;
  const std::size_t close = rest.starts_with('\'') ? text.find('\'', at + 1) : std::string_view::npos;
  return close < text.find('\n', at) ? close : at;
}

// The first bracket or double quote without a partner in a comment or '...' string, or npos.
std::size_t find_odd_one(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (const std::size_t close = text[i] == '"' ? text.find('"', i + 1) : text.npos; close < text.find('\n', i)) {
      i = close;
      continue;
    }
    std::vector<std::size_t> open;
    for (const std::size_t end = end_of_quiet(text, i); i < end; ++i) {
      const char c = text[i];
      const bool in_string = !open.empty() && text[open.back()] == '"';
      if (c == '"' && in_string)
        open.pop_back();
      else if (c == '"' || (is_open(c) && !in_string))
        open.push_back(i);
      else if (is_close(c) && !in_string) {
        if (open.empty() || partner(text[open.back()]) != c) return i;
        open.pop_back();
      }
    }
    if (!open.empty()) return open.front();
  }
  return text.npos;
}

// Walks over a text's brackets and says what is wrong first.
class BracketCheck {
 public:
  BracketCheck(const TextRange& s, Problems& problems) : s_(s), text_(s.text->clean), problems_(problems) {}

  bool run() {
    for (std::size_t i = s_.begin; i < s_.end; ++i) {
      const char c = text_[i];
      if (c == '"') {
        if (!string(i)) return false;
      } else if (is_open(c)) {
        if (open_.size() == deepest)
          return fail(i, fmt::format("blocks are nested more than {} deep", deepest),
                      "look for brackets that never close");
        open_.push_back(i);
      } else if (is_close(c) && !close(i)) {
        return false;
      }
    }
    return open_.empty() || unclosed();
  }

 private:
  bool fail(std::size_t at, std::string message, std::string fix) {
    if (const std::size_t odd = find_odd_one(text_.substr(0, s_.end)); odd != none && odd >= s_.begin)
      fix = fmt::format(
          "take the {} of line {} out of its comment or string: brackets and double quotes count there, too",
          text_[odd], line_number(odd));
    problems_.add(Diagnostic{{s_.text->source, at, 1}, std::move(message), std::move(fix)});
    return false;
  }
  std::size_t line_begin(std::size_t at) const {
    const std::size_t before = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
    return before == std::string_view::npos ? 0 : before + 1;
  }
  std::ptrdiff_t line_number(std::size_t at) const {
    return 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at), '\n');
  }
  std::size_t indentation(std::size_t at) const {
    const std::size_t begin = line_begin(at);
    return std::min(text_.find_first_not_of(" \t", begin), text_.size()) - begin;
  }

  bool string(std::size_t& i) {
    const std::size_t close = text_.find('"', i + 1);
    // If a quote is missing, the first string that extends over a line end is the likely cause.
    if (torn_string_ == none && close > text_.find('\n', i)) torn_string_ = i;
    if (close >= s_.end) return unended(torn_string_ == none ? i : torn_string_);
    i = close;
    return true;
  }

  bool unended(std::size_t at) {
    std::string fix = "add the missing \"";
    const std::string_view written = s_.text->source->text;
    if (const std::size_t hash = written.find('#', at); hash < text_.find('\n', at) && text_[hash] == ' ')
      fix += ", or leave out the '#': behind a blank it starts a comment, also between quotes";
    return fail(at, "no closing \" found for this string", fix);
  }

  bool close(std::size_t i) {
    const char c = text_[i];
    if (open_.empty())
      return fail(i, fmt::format("unmatched bracket found in parameters: nothing is open that '{}' could close", c),
                  "remove it, or add the opening bracket");
    const std::size_t opened = open_.back();
    const char wanted = partner(text_[opened]);
    if (c != wanted)
      return fail(i,
                  fmt::format("unmatched bracket found in parameters: '{}' cannot close the '{}' of line {}", c,
                              text_[opened], line_number(opened)),
                  fmt::format("close it with '{}' first", wanted));
    const bool first_on_its_line = text_.find_first_not_of(" \t", line_begin(i)) == i;
    if (suspect_ == none && first_on_its_line && line_begin(i) != line_begin(opened) &&
        indentation(i) < indentation(opened))
      suspect_ = opened, suspect_close_ = i;
    open_.pop_back();
    return true;
  }

  // Formally an outer bracket stays open; the indentation shows which one the user forgot.
  bool unclosed() {
    const std::size_t at = suspect_ == none ? open_.back() : suspect_;
    const char c = text_[at];
    std::string fix = fmt::format("add the missing '{}'", partner(c));
    if (suspect_ != none)
      fix +=
          fmt::format("; the one of line {} is indented like that of a block around it", line_number(suspect_close_));
    return fail(at, fmt::format("no closing '{}' found in parameters for this '{}'", partner(c), c), fix);
  }

  static constexpr std::size_t none = std::string_view::npos;
  const TextRange& s_;
  std::string_view text_;
  Problems& problems_;
  std::vector<std::size_t> open_;
  std::size_t torn_string_ = none, suspect_ = none, suspect_close_ = none;
};

}  // namespace

bool check_brackets(const TextRange& s, Problems& problems) { return BracketCheck(s, problems).run(); }

std::size_t skip_nested(std::string_view text, std::size_t at, std::size_t end) {
  std::size_t depth = 0;
  for (std::size_t i = at; i < end; ++i) {
    if (text[i] == '"') {
      i = std::min(text.find('"', i + 1), end);
      if (depth == 0) return std::min(i + 1, end);
    } else if (is_open(text[i])) {
      ++depth;
    } else if (is_close(text[i])) {
      if (depth <= 1) return i + 1;
      --depth;
    }
  }
  return end;
}

bool is_bracketed(const TextRange& s) {
  return s.begin < s.end && is_open(s.text->clean[s.begin]) && s.end - s.begin > 1 &&
         skip_nested(s.text->clean, s.begin, s.end) == s.end && is_close(s.text->clean[s.end - 1]);
}

bool is_quoted(const TextRange& s) {
  return s.end - s.begin >= 2 && s.text->clean[s.begin] == '"' && skip_nested(s.text->clean, s.begin, s.end) == s.end &&
         s.text->clean[s.end - 1] == '"';
}

bool is_block(const TextRange& s) {
  if (!is_bracketed(s) || s.text->clean[s.begin] == '(') return false;
  const Inside in = inside(s);
  const std::string_view text = s.text->clean;
  bool colon = in.separator == ':';
  for (std::size_t i = in.body.begin; i < in.body.end;) {
    const char c = text[i];
    if (c == '=') return true;
    if (c == ':') colon = true;
    i = is_open(c) || c == '"' ? skip_nested(text, i, in.body.end) : i + 1;
  }
  return !colon;
}

std::vector<TextRange> blocks_in(const TextRange& s) {
  const std::string_view text = s.text->clean;
  std::vector<TextRange> blocks;
  for (std::size_t i = s.begin; i < s.end;) {
    const std::size_t end = is_open(text[i]) ? skip_nested(text, i, s.end) : i + 1;
    if (!is_blank(text[i])) {
      blocks.push_back(s.part(i, end));
      if (!is_block(blocks.back())) return {};
    }
    i = end;
  }
  return blocks;
}

Inside inside(const TextRange& bracketed) {
  Inside in{bracketed.part(bracketed.begin + 1, bracketed.end - 1), 0};
  if (is_custom_separator(in.body.view())) in.separator = in.body.view()[0], ++in.body.begin;
  return in;
}

namespace {

// Walks over the settings of one block.
class Splitter {
 public:
  Splitter(const Inside& in, Problems& problems)
      : in_(in), text_(in.body.text->clean), at_(in.body.begin), end_(in.body.end), problems_(problems) {}

  std::vector<Statement> run() {
    while (true) {
      while (at_ < end_ && (is_blank(text_[at_]) || is_separator(text_[at_]))) ++at_;
      if (at_ >= end_) return std::move(found_);
      if (text_[at_] == '[' || text_[at_] == '{') {
        bare_block();
      } else {
        setting();
      }
    }
  }

 private:
  bool is_separator(char c) const {
    return in_.separator ? c == in_.separator : c == '\n' || c == '\r' || c == ',' || c == ';';
  }
  TextRange range(std::size_t from, std::size_t to) const { return trim(in_.body.part(from, to)); }
  void problem(const TextRange& where, std::string message, std::string fix) {
    problems_.add(Diagnostic{where.where(), std::move(message), std::move(fix)});
  }
  std::size_t value_end(std::size_t from) const {
    while (from < end_ && !is_separator(text_[from]))
      from = is_open(text_[from]) || text_[from] == '"' ? skip_nested(text_, from, end_) : from + 1;
    return from;
  }

  void bare_block() {
    const std::size_t end = skip_nested(text_, at_, end_);
    found_.push_back({Statement::Kind::bare, range(at_, at_), range(at_, end)});
    at_ = end;
  }

  void setting() {
    const std::size_t begin = at_;
    std::size_t stop = begin;
    while (stop < end_ && !is_separator(text_[stop]) && !is_open(text_[stop]) && text_[stop] != '=' &&
           text_[stop] != '"')
      ++stop;
    const TextRange key = range(begin, stop);
    const char c = stop < end_ ? text_[stop] : '\0';
    if (c == '=' && equal_keys(key.view(), "include")) return include_line(key, begin);
    if (c == '(' || c == '"') {
      at_ = value_end(stop);
      return problem(range(begin, at_), "expected key = value", "settings are written key = value or key = [ ... ]");
    }
    const bool alone = c != '=' && !is_open(c);
    if (alone || key.view().find('$') != std::string_view::npos) {
      at_ = alone ? stop : value_end(stop);
      if (key.view().find('$') != std::string_view::npos) {
        found_.push_back({Statement::Kind::expansion, key, range(begin, at_)});
      } else if (valid_key(key, true)) {
        found_.push_back({Statement::Kind::flag, key, key});
      }
      return;
    }
    if (valid_key(key, false)) return value(key, c == '=' ? stop + 1 : stop);
    at_ = value_end(stop);
  }

  bool valid_key(const TextRange& key, bool alone) {
    const std::string_view name = key.view();
    if (name.empty()) {
      problem(in_.body.part(at_, at_ + 1), "a setting needs a name before '='", "write key = value");
      return false;
    }
    if (std::any_of(name.begin(), name.end(), is_blank) || (alone && !is_name_start(name[0]))) {
      problem(key, fmt::format("expected key = value, found '{}'", name.substr(0, 60)),
              alone ? "write key = value; a key alone means key = true; values with blanks need quotes"
                    : "a key is one word; settings are separated by ';' or a new line");
      return false;
    }
    return true;
  }

  // include= is only seen at the start of a line, where the loader has already read the files.
  void include_line(const TextRange& key, std::size_t begin) {
    const bool line_start = begin == 0 || text_[begin - 1] == '\n';
    const std::size_t stop = line_start ? std::min(text_.find('\n', begin), end_) : value_end(begin);
    if (line_start) {
      found_.push_back({Statement::Kind::include, key, range(begin, stop)});
    } else {
      problem(key, "include= must begin in the first column", "move it to the start of its line");
    }
    at_ = stop;
  }

  void value(const TextRange& key, std::size_t from) {
    while (from < end_ && (text_[from] == ' ' || text_[from] == '\t')) ++from;
    // "SGD =" may have its bracket on the next line.
    const std::size_t next = range(from, end_).begin;
    if (next < end_ && is_open(text_[next])) from = next;
    at_ = value_end(from);
    const TextRange whole = range(from, at_);
    if (whole.begin == whole.end)
      return problem(key, fmt::format("no value given for '{}'", key.view()),
                     fmt::format("write {} = \"\" for an empty text, or remove the setting", key.view()));
    if (text_[whole.begin] == '[' || text_[whole.begin] == '{') return blocks(key, whole);
    if (second_setting(whole)) return;
    found_.push_back({Statement::Kind::setting, key, whole});
  }

  // A=[x=1][y=2] is A=[x=1] and A=[y=2]; [..]:[..] is an array.
  void blocks(const TextRange& key, const TextRange& whole) {
    std::vector<TextRange> groups;
    std::size_t from = whole.begin;
    while (from < whole.end && (text_[from] == '[' || text_[from] == '{')) {
      const std::size_t to = skip_nested(text_, from, whole.end);
      groups.push_back(range(from, to));
      from = range(to, whole.end).begin;
    }
    if (from < whole.end && (text_[from] == ':' || text_[from] == '*'))
      groups = {whole};
    else if (from < whole.end)
      return problem(range(from, whole.end), "unexpected text behind the closing bracket",
                     "start the next setting on a new line or behind ';'");
    for (const auto& group : groups) found_.push_back({Statement::Kind::setting, key, group});
  }

  // "a = 1  b = 2" on one line would silently make b part of a's value.
  bool second_setting(const TextRange& value) {
    for (std::size_t i = value.begin; i < value.end;) {
      if (text_[i] == '=' && text_[i - 1] != '=' && (i + 1 == value.end || text_[i + 1] != '=')) {
        std::size_t name_end = i;
        while (name_end > value.begin && (text_[name_end - 1] == ' ' || text_[name_end - 1] == '\t')) --name_end;
        std::size_t name = name_end;
        while (name > value.begin && is_name_char(text_[name - 1])) --name;
        if (name > value.begin && name < name_end && is_name_start(text_[name]) && is_blank(text_[name - 1])) {
          problem(
              range(name, value.end),
              fmt::format("'{}' seems to start another setting on the same line", text_.substr(name, name_end - name)),
              "separate settings by ';' or a new line; put quotes around a value that holds '='");
          return true;
        }
      }
      i = is_open(text_[i]) || text_[i] == '"' ? skip_nested(text_, i, value.end) : i + 1;
    }
    return false;
  }

  const Inside& in_;
  std::string_view text_;
  std::size_t at_, end_;
  Problems& problems_;
  std::vector<Statement> found_;
};

}  // namespace

std::vector<Statement> split_statements(const Inside& in, Problems& problems) { return Splitter(in, problems).run(); }

std::vector<TextRange> split_array(const TextRange& value) {
  TextRange s = trim(value);
  char separator = ':';
  if (is_bracketed(s) && !is_block(s)) {
    const Inside in = inside(s);
    s = trim(in.body);
    if (in.separator) separator = in.separator;
  }
  std::vector<TextRange> elements;
  if (s.begin == s.end) return elements;
  const std::string_view text = s.text->clean;
  std::size_t from = s.begin;
  for (std::size_t i = s.begin; i <= s.end;) {
    if (i == s.end || text[i] == separator) {
      elements.push_back(trim(s.part(from, i)));
      from = ++i;
    } else {
      i = is_open(text[i]) || text[i] == '"' ? skip_nested(text, i, s.end) : i + 1;
    }
  }
  return elements;
}

}  // namespace tutti::config
