// SPDX-License-Identifier: Apache-2.0
// Text of the older network language -> tokens. A line break is the symbol "\n".
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "brainscript/ndl.h"

namespace tutti::brainscript::ndl {
namespace {

bool word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

class Lexer {
 public:
  Lexer(const SourceText& text, const Variables& variable) : text_(text), variable_(variable) {}

  std::vector<Token> run() {
    const std::string& s = text_.text;
    while (at_ < s.size()) {
      const char c = s[at_];
      if (c == '\n' || c == ';')
        add(TokenKind::symbol, 1, "\n");
      else if (std::isspace(static_cast<unsigned char>(c)))
        ++at_;
      else if (c == '#' || s.compare(at_, 2, "//") == 0)
        at_ = std::min(s.find('\n', at_), s.size());
      else if (c == '"' || c == '\'')
        string(c);
      else if (word_start(c) || c == '$' || ((c == '-' || c == '+') && at_ + 1 < s.size() && s[at_ + 1] == '$'))
        words();
      else if (std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '+')
        number();
      else if (std::string_view("(){}[]=,:*").find(c) != std::string_view::npos)
        add(TokenKind::symbol, 1, std::string(1, c));
      else
        fail(at_, 1, fmt::format("'{}' has no meaning in a network description", c), {});
    }
    lexemes_.push_back({TokenKind::end, "", 0, span(s.size(), 0)});
    return std::move(lexemes_);
  }

 private:
  Span span(std::size_t at, std::size_t length) const { return {&text_, at, length}; }
  [[noreturn]] void fail(std::size_t at, std::size_t length, std::string message, std::string fix) const {
    brainscript::fail(span(at, length), std::move(message), std::move(fix));
  }
  void add(TokenKind kind, std::size_t length, std::string text, double number = 0) {
    lexemes_.push_back({kind, std::move(text), number, span(at_, length)});
    at_ += length;
  }
  void string(char quote) {
    const std::size_t end = text_.text.find_first_of(std::string{quote, '\n'}, at_ + 1);
    if (end == std::string::npos || text_.text[end] != quote)
      fail(at_, 1, "this string has no end", "close the quote on the same line");
    add(TokenKind::text, end + 1 - at_, substituted(at_ + 1, end));
  }
  // A word, or one that variables are a part of: their values are read as if they stood there.
  void words() {
    const std::string& s = text_.text;
    std::size_t end = at_ + (s[at_] == '-' || s[at_] == '+');
    bool plain = true;
    while (end < s.size() && (word_part(s[end]) || s[end] == '$')) {
      if (s[end] == '$') end = variable_end(end), plain = false;
      ++end;
    }
    while (s[end - 1] == '.') --end;
    const SourceText inner{substituted(at_, end), text_.source, text_.base + at_, false};
    // A variable that nobody has defined stays as it is: an error where its statement is used.
    if (plain || inner.text.find('$') != std::string::npos) return add(TokenKind::identifier, end - at_, inner.text);
    for (Token& l : lex(inner, no_variables)) {
      if (l.kind == TokenKind::end) break;
      l.where = span(at_, end - at_);
      lexemes_.push_back(std::move(l));
    }
    at_ = end;
  }
  void number() {
    const char* begin = text_.text.data() + at_ + (text_.text[at_] == '+');
    double value = 0;
    const auto [end, error] = std::from_chars(begin, text_.text.data() + text_.text.size(), value);
    if (error != std::errc()) fail(at_, 1, "expected a number", {});
    std::size_t length = static_cast<std::size_t>(end - text_.text.data()) - at_;
    if (text_.text.compare(at_ + length, 4, "#INF") == 0)
      value = std::numeric_limits<double>::infinity(), length += 4;
    else if (at_ + length < text_.text.size() && word_start(text_.text[at_ + length]))
      fail(at_, length + 1, "a name cannot begin with a digit", "put a letter in front");
    add(TokenKind::number, length, text_.text.substr(at_, length), value);
  }
  // The second '$' of a variable that begins at `at`.
  std::size_t variable_end(std::size_t at) const {
    const std::size_t end = text_.text.find_first_of("$\n", at + 1);
    if (end == std::string::npos || text_.text[end] != '$') fail(at, 1, "'$' begins a variable", "write $name$");
    return end;
  }
  // The text between two places, with the values of its variables.
  std::string substituted(std::size_t at, std::size_t end) const {
    std::string out;
    while (at < end) {
      const std::size_t dollar = std::min(text_.text.find('$', at), end);
      out += text_.text.substr(at, dollar - at);
      at = dollar;
      if (at == end) break;
      const std::size_t last = variable_end(at);
      const std::string use = text_.text.substr(at, last + 1 - at);
      out += variable_(use.substr(1, use.size() - 2)).value_or(use);
      at = last + 1;
    }
    return out;
  }

  const SourceText& text_;
  const Variables& variable_;
  std::size_t at_ = 0;
  std::vector<Token> lexemes_;
};

}  // namespace

std::vector<Token> lex(const SourceText& text, const Variables& variable) { return Lexer(text, variable).run(); }

}  // namespace tutti::brainscript::ndl
