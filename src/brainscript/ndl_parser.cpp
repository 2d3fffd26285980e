// SPDX-License-Identifier: Apache-2.0
// Tokens of the older network language -> Script. A statement ends with its line unless a parenthesis is open.
#include <fmt/format.h>

#include <algorithm>

#include "brainscript/ndl.h"

namespace tutti::brainscript::ndl {
namespace {

constexpr int deepest = 200;  // brackets in brackets

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
  auto script = std::make_shared<Script>(Parser(lex(*text, variable)).whole());
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
