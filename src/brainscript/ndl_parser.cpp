// SPDX-License-Identifier: Apache-2.0
// Text of the older network language -> Script. A statement ends with its line unless a parenthesis is open.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "brainscript/ndl.h"

namespace tutti::brainscript::ndl {
namespace {

constexpr int deepest = 200;  // brackets in brackets

// A line break is the symbol "\n".
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
    for (Token& l : Lexer(inner, no_variables).run()) {
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

class Parser {
 public:
  explicit Parser(std::vector<Token> lexemes) : all_(std::move(lexemes)) {}

  Script whole() {
    if (is("[") || is("{")) {  // the text of a section
      const std::string close = next().text == "[" ? "]" : "}";
      Script s = statements(close);
      skip_lines();
      if (peek().kind != TokenKind::end) unexpected("the end");
      return s;
    }
    return statements("");
  }

 private:
  const Token& peek(std::size_t ahead = 0) const { return all_[std::min(at_ + ahead, all_.size() - 1)]; }
  const Token& next() { return all_[std::min(at_++, all_.size() - 1)]; }
  bool is(std::string_view symbol, std::size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::symbol && peek(ahead).text == symbol;
  }
  bool accept(std::string_view symbol) {
    if (!is(symbol)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view symbol) {
    if (!accept(symbol)) unexpected(fmt::format("'{}'", symbol));
  }
  void skip_lines() {
    while (is("\n")) ++at_;
  }
  [[noreturn]] void unexpected(const std::string& wanted) const {
    const Token& l = peek();
    const std::string found = l.kind == TokenKind::end ? "the end"
                              : l.text == "\n"         ? "the end of the line"
                                                       : "'" + l.text + "'";
    fail(l.where, fmt::format("expected {}, found {}", wanted, found));
  }

  Script statements(const std::string& close) {
    Script s;
    for (;;) {
      while (is("\n") || is(",")) ++at_;
      if (close.empty() ? peek().kind == TokenKind::end : accept(close)) return s;
      if (peek().kind == TokenKind::end) unexpected(fmt::format("'{}'", close));
      statement(s);
      if (!is("\n") && !is(",") && peek().kind != TokenKind::end && (close.empty() || !is(close)))
        unexpected("the end of the line");
    }
  }

  void statement(Script& s) {
    if (peek().kind != TokenKind::identifier) unexpected("a name");
    if (is("(", 1) && defines_macro()) return macro(s);
    const Token name = peek();
    if (is("=", 1)) {
      at_ += 2;
      if (is("[") || is("{")) return section(s, name);
      s.statements.push_back({name.text, name.where, with_rest(expression())});  // a = b : c, as in the sets of nodes
    } else if (is("[", 1) || is("{", 1)) {
      ++at_;
      section(s, name);
    } else {
      s.statements.push_back({"", name.where, expression()});
    }
  }

  // name = [ statements ]; a list of numbers in braces is a value.
  void section(Script& s, const Token& name) {
    if (is("{") && peek(1).kind == TokenKind::number) {
      s.statements.push_back({name.text, name.where, expression()});
      return;
    }
    const std::string close = next().text == "[" ? "]" : "}";
    const Nesting guard(*this);
    s.sections[to_lower(name.text)] = statements(close);
  }

  // Name (a, b) followed by a body or '='.
  bool defines_macro() const {
    std::size_t ahead = 2;
    for (int depth = 1; depth > 0; ++ahead) {
      if (peek(ahead).kind == TokenKind::end) return false;
      if (is("(", ahead)) ++depth;
      if (is(")", ahead)) --depth;
    }
    if (is("=", ahead)) return true;
    while (is("\n", ahead)) ++ahead;
    return is("{", ahead) || is("[", ahead);
  }

  void macro(Script& s) {
    Macro m;
    m.name = peek().text;
    m.where = next().where;
    expect("(");
    skip_lines();
    while (!accept(")")) {
      if (peek().kind != TokenKind::identifier) unexpected("the name of a parameter");
      m.parameters.push_back(next().text);
      m.defaults.emplace_back();
      skip_lines();
      if (accept("=")) m.defaults.back() = expression();
      skip_lines();
      if (!accept(",") && !is(")")) unexpected("',' or ')'");
      skip_lines();
    }
    const bool assigned = accept("=");
    const std::size_t before = at_;
    skip_lines();
    if (is("{") || is("[")) {
      const std::string close = next().text == "{" ? "}" : "]";
      const Nesting guard(*this);
      Script body = statements(close);
      if (!body.macros.empty() || !body.sections.empty())
        fail(m.where, fmt::format("the macro '{}' holds another macro or section", m.name), "define it outside");
      m.body = std::move(body.statements);
    } else {
      at_ = before;
      if (!assigned) unexpected("'{'");
      m.single = true;
      m.body.push_back({"", peek().where, expression()});
    }
    if (m.body.empty()) fail(m.where, fmt::format("the macro '{}' is empty", m.name));
    s.macros[to_lower(m.name)] = std::move(m);
  }

  Expression expression() {
    const Nesting guard(*this);
    Expression e;
    e.where = peek().where;
    const Token& first = peek();
    if (first.kind == TokenKind::number || first.kind == TokenKind::text) {
      e.kind = first.kind == TokenKind::number ? Expression::Kind::number : Expression::Kind::text;
      e.number = first.number;
      e.text = first.text;
      ++at_;
    } else if (first.kind == TokenKind::identifier) {
      e.kind = Expression::Kind::name;
      e.text = next().text;
      if (accept("(")) {
        e.kind = Expression::Kind::call;
        arguments(e, ")");
      }
    } else if (is("(") || is("{")) {
      e.kind = Expression::Kind::list;
      arguments(e, next().text == "(" ? ")" : "}");
    } else {
      unexpected("a value");
    }
    return e;
  }

  // a, or the list a:b:c that begins with it.
  Expression with_rest(Expression first) {
    if (!is(":")) return first;
    Expression list;
    list.kind = Expression::Kind::list;
    list.where = first.where;
    list.arguments.push_back({"", std::move(first)});
    while (accept(":")) list.arguments.push_back({"", expression()});
    return list;
  }

  void arguments(Expression& e, std::string_view close) {
    skip_lines();
    while (!accept(close)) {
      Argument a;
      if (peek().kind == TokenKind::identifier && is("=", 1)) {
        a.name = next().text;
        ++at_;
        skip_lines();
      }
      a.value = expression();
      if (e.kind == Expression::Kind::call) a.value = with_rest(std::move(a.value));
      e.arguments.push_back(std::move(a));
      skip_lines();
      if (!accept(",") && !accept(":") && !is(close)) unexpected(fmt::format("',' or '{}'", close));
      skip_lines();
    }
  }

  struct Nesting {
    explicit Nesting(Parser& p) : p(p) {
      if (++p.depth_ > deepest)
        fail(p.peek().where, fmt::format("brackets stand {} deep", deepest), "give inner parts names");
    }
    ~Nesting() { --p.depth_; }
    Nesting(const Nesting&) = delete;
    Parser& p;
  };

  std::vector<Token> all_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ScriptPtr parse(SourceText source, const Variables& variable) {
  const auto text = std::make_shared<const SourceText>(std::move(source));
  auto script = std::make_shared<Script>(Parser(Lexer(*text, variable).run()).whole());
  script->text = text;
  return script;
}

ScriptPtr only_macros(const ScriptPtr& script) {
  return std::make_shared<const Script>(Script{script->text, {}, script->macros, {}});
}

std::vector<ScriptPtr> sections_of(const ScriptPtr& script) {
  std::vector<ScriptPtr> all;
  for (const auto& [name, section] : script->sections) all.emplace_back(script, &section);
  return all;
}

}  // namespace tutti::brainscript::ndl
