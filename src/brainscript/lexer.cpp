// SPDX-License-Identifier: Apache-2.0
// Text -> tokens of the network language, and the file that an include names.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "brainscript/syntax.h"

namespace tutti::brainscript {
namespace {

constexpr std::array<std::string_view, 9> keywords = {"include", "new",  "with", "true", "false",
                                                      "if",      "then", "else", "array"};
// Longer symbols first: the first that fits is taken.
constexpr std::array<std::string_view, 34> symbols = {
    "[|", "|]", "=>", "==", "!=", "<=", ">=", "&&", "||", ">>", "<<", "..", ".*", "**", "(", ")", "[",
    "]",  "{",  "}",  ",",  ";",  ":",  "=",  "+",  "-",  "*",  "/",  "%",  "<",  ">",  "!", ".", ""};

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(const SourceText& source) : source_(source), text_(source.text) {}

  std::vector<Token> run() {
    tokens_.reserve(text_.size() / 5);  // the library's words are longer
    for (;;) {
      skip_blanks();
      Token t;
      t.begins_line = begins_line_;
      begins_line_ = false;
      const std::size_t begin = at_;
      if (at_ < text_.size()) read(t);
      t.where = {&source_, begin, at_ - begin};
      tokens_.push_back(std::move(t));
      if (tokens_.back().kind == TokenKind::end) return std::move(tokens_);
    }
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  [[noreturn]] void fail(std::size_t length, std::string message, std::string fix) const {
    brainscript::fail({&source_, at_, length}, std::move(message), std::move(fix));
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        begins_line_ = true;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        ++at_;
      } else if (c == '#' || (c == '/' && peek(1) == '/')) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '/' && peek(1) == '*') {
        const std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) fail(2, "this comment has no end", "close it with */");
        begins_line_ |= text_.substr(at_, end - at_).find('\n') != std::string_view::npos;
        at_ = end + 2;
      } else {
        return;
      }
    }
  }

  void read(Token& t) {
    const char c = peek();
    if (digit(c) || (c == '.' && digit(peek(1)) && !follows_operand())) return number(t);
    if (letter(c)) return word(t);
    if (c == '"' || c == '\'') return text(t);
    for (auto s : symbols)
      if (!s.empty() && text_.substr(at_).starts_with(s)) {
        t.kind = TokenKind::symbol;
        t.text = s;
        at_ += s.size();
        return;
      }
    unknown(c);
  }

  [[noreturn]] void unknown(char c) const {
    if (c == '&') fail(1, "a single '&' means nothing here", "write && for 'and'");
    if (c == '|') fail(1, "a single '|' means nothing here", "write || for 'or', [| |] for an array");
    if (c == '$') fail(1, "'$' is left over after the $variables$ were put in", "check the name of the variable");
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 || byte == 127) fail(1, fmt::format("a control character (0x{:02x})", byte), "remove it");
    if (byte < 128) fail(1, fmt::format("'{}' means nothing here", c), "remove it");
    std::size_t length = 1;
    while ((static_cast<unsigned char>(peek(length)) & 0xC0) == 0x80) ++length;
    fail(length, fmt::format("'{}' means nothing here", text_.substr(at_, length)),
         "outside strings and comments only plain ASCII is understood (typographic quotes and dashes are not)");
  }

  bool follows_operand() const {
    if (tokens_.empty()) return false;
    const Token& t = tokens_.back();
    return t.kind == TokenKind::identifier || t.kind == TokenKind::number ||
           (t.kind == TokenKind::symbol && (t.text == ")" || t.text == "]" || t.text == "}"));
  }

  void number(Token& t) {
    const std::size_t begin = at_;
    while (digit(peek())) ++at_;
    // "1..3" is a range and "2.*x" a product; "2." alone is a number.
    if (peek() == '.' && peek(1) != '.' && peek(1) != '*' && !letter(peek(1))) {
      ++at_;
      while (digit(peek())) ++at_;
    }
    if (peek() == 'e' || peek() == 'E') {
      const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
      if (digit(peek(1 + sign))) {
        at_ += 1 + sign;
        while (digit(peek())) ++at_;
      }
    }
    t.kind = TokenKind::number;
    t.text = text_.substr(begin, at_ - begin);
    if (text_.substr(at_, 4) == "#INF" || text_.substr(at_, 4) == "#inf") {
      at_ += 4;
      t.number = std::numeric_limits<double>::infinity();
      return;
    }
    if (letter(peek())) {
      fail(1, fmt::format("'{}' right behind a number", peek()), "write an operator between them");
    }
    const std::string written = t.text.front() == '.' ? "0" + t.text : t.text;
    if (std::from_chars(written.data(), written.data() + written.size(), t.number).ec != std::errc()) {
      at_ = begin;
      fail(t.text.size(), fmt::format("the number {} is beyond what a double can hold", t.text),
           "write 1#INF where you mean infinity, 0 where you mean nothing");
    }
  }

  void word(Token& t) {
    const std::size_t begin = at_;
    while (letter(peek()) || digit(peek())) ++at_;
    t.text = text_.substr(begin, at_ - begin);
    const bool keyword = std::find(keywords.begin(), keywords.end(), t.text) != keywords.end();
    t.kind = keyword ? TokenKind::keyword : TokenKind::identifier;
  }

  void text(Token& t) {
    const char quote = peek();
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail(1, "this string has no end", fmt::format("close it with {}", quote));
    t.kind = TokenKind::text;
    t.text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
  }

  const SourceText& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  bool begins_line_ = true;
  std::vector<Token> tokens_;
};

namespace fs = std::filesystem;

std::optional<fs::path> find_include(const Program& program, const SourceText& from, const std::string& wanted) {
  std::error_code ignored;
  std::vector<fs::path> places = {fs::path(wanted)};
  if (!fs::path(wanted).is_absolute()) {
    places.push_back(fs::path(from.source->name).parent_path() / wanted);
    for (const auto& p : program.include_path) places.push_back(p / wanted);
    const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
    if (!self.empty()) places.push_back(self.parent_path() / wanted);
  }
  for (const auto& p : places)
    if (fs::is_regular_file(p, ignored)) return p.lexically_normal();
  return std::nullopt;
}

}  // namespace

void fail(const Span& where, std::string message, std::string fix) {
  throw ConfigError(where.pos(), std::move(message), std::move(fix));
}

std::vector<Token> tokenize(const SourceText& source) { return Lexer(source).run(); }

const SourceText* open_include(Program& program, const SourceText& from, const Token& name,
                               std::vector<std::string>& including) {
  const auto fail = [&](std::string message, std::string fix) {
    throw ConfigError(name.where.pos(), std::move(message), std::move(fix));
  };
  const auto path = find_include(program, from, name.text);
  if (!path)
    fail(fmt::format("cannot find '{}'", name.text),
         "give its path from here, from the directory of the config file, or in full");
  if (std::ranges::count(including, path->string()) > 0)
    fail(fmt::format("'{}' includes itself", name.text), "remove this include");
  if (including.size() > 50) fail("includes are nested more than 50 deep", "remove this include");
  including.push_back(path->string());
  std::ifstream file(*path, std::ios::binary);
  std::string contents{std::istreambuf_iterator<char>(file), {}};
  std::fill_n(contents.begin(), byte_order_mark_size(contents), ' ');
  if (!file) fail(fmt::format("cannot read '{}'", path->string()), "check its permissions");
  auto origin = std::make_shared<SourcePos>(name.where.pos());
  auto source = std::make_shared<Source>(Source{path->string(), std::move(contents), origin});
  return program.add_text({source->text, source, 0, from.library});
}

}  // namespace tutti::brainscript
