// SPDX-License-Identifier: Apache-2.0
// Tokens -> tree of the network language. Recursive descent for operands, precedence climbing for
// binary operators.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "brainscript/syntax.h"

namespace tutti::brainscript {
namespace {

struct Operator {
  std::string_view symbol;
  int level;
};
constexpr std::array<Operator, 21> operators = {{
    {"*", 10},   {"/", 10}, {".*", 10}, {"**", 10}, {"%", 10}, {"+", 9},  {"-", 9},
    {"with", 9}, {"==", 8}, {"!=", 8},  {"<", 8},   {"<=", 8}, {">", 8},  {">=", 8},
    {"&&", 7},   {"||", 6}, {">>", 5},  {"<<", 5},  {":", 4},  {"=>", 0}, {"", -1},
}};
// The meaning of a line end for an expression: nothing within parentheses, the end of an element of [| |]. In a record
// a member begins with a name, so a line that begins with an operator or a bracket continues the previous one.
enum class LineEnd { nothing, ends_element, ends_member };
constexpr int deepest = 2000;  // nested brackets and the like; keeps broken input away from the end of the stack

class Parser {
 public:
  Parser(Program& program, const SourceText& text, const std::vector<std::string>& including)
      : program_(program), text_(text), including_(including), tokens_(tokenize(text)) {}

  Expr* whole_expression() {
    Expr* e = expression(0, LineEnd::nothing);
    if (peek().kind != TokenKind::end) unexpected("the end of the network");
    return e;
  }

  Expr* whole_members() {
    Expr* e = make(ExprKind::record, peek().where);
    members(*e, "");
    return e;
  }

 private:
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& t = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return t;
  }
  bool at(std::string_view symbol, std::size_t ahead = 0) const {
    const Token& t = peek(ahead);
    return (t.kind == TokenKind::symbol || t.kind == TokenKind::keyword) && t.text == symbol;
  }

  bool accept(std::string_view symbol) {
    const bool found = at(symbol);
    if (found) next();
    return found;
  }

  static std::string shown(const Token& t) {
    if (t.kind == TokenKind::end) return "the end of the text";
    if (t.kind == TokenKind::text) return fmt::format("the string '{}'", t.text);
    return fmt::format("'{}'", t.text);
  }

  [[noreturn]] void unexpected(std::string_view wanted, std::string fix = {}) const {
    fail(peek().where, fmt::format("expected {}, found {}", wanted, shown(peek())), std::move(fix));
  }

  void expect(std::string_view symbol, const Token& opening) {
    if (accept(symbol)) return;
    if (peek().kind == TokenKind::end)
      fail(opening.where, fmt::format("'{}' is never closed", opening.text), fmt::format("add '{}'", symbol));
    std::string fix;
    if (at("=")) fix = "write == to compare, and name=value only as an argument or a member";
    if (at(";")) fix = "arguments are separated by ',', array elements by ':'";
    if (at(")") || at("]") || at("}") || at("|]"))
      fix = fmt::format("the '{}' in front of it is still open", opening.text);
    unexpected(fmt::format("'{}' or an operator", symbol), std::move(fix));
  }

  Expr* make(ExprKind kind, const Span& where, std::string name = {}, std::vector<Expr*> args = {}) {
    Expr* e = program_.exprs.emplace_back(std::make_unique<Expr>()).get();
    e->kind = kind;
    e->where = where;
    e->name = std::move(name);
    e->args = std::move(args);
    return e;
  }

  Expr* number(ExprKind kind, double value) {
    Expr* e = make(kind, next().where);
    e->number = value;
    return e;
  }

  struct Nesting {
    explicit Nesting(Parser& p) : depth(p.depth_) {
      if (++depth > deepest)
        fail(p.peek().where, fmt::format("nested more than {} deep", deepest), "give the parts names");
    }
    ~Nesting() { --depth; }
    int& depth;
  };

  static const Operator* binary(const Token& t) {
    if (t.kind != TokenKind::symbol && t.kind != TokenKind::keyword) return nullptr;
    for (const auto& o : operators)
      if (o.level >= 0 && o.symbol == t.text) return &o;
    return nullptr;
  }

  static bool ends(const Token& t, LineEnd line_end) {
    if (!t.begins_line || line_end == LineEnd::nothing) return false;
    const bool goes_on =
        t.kind == TokenKind::symbol && t.text != ";" && t.text != ")" && t.text != "]" && t.text != "}";
    return line_end == LineEnd::ends_element || !goes_on;
  }

  Expr* expression(int level, LineEnd line_end) {
    const Nesting nesting(*this);
    Expr* left = operand(line_end);
    bool chain = false;  // left is an array that this loop has begun
    for (;;) {
      const Token op = peek();
      const Operator* o = binary(op);
      if (!o || o->level < level || ends(op, line_end)) return left;
      next();
      if (o->symbol == "=>") return lambda_of(left, op, line_end);
      Expr* right = expression(o->level + 1, line_end);
      if (o->symbol == ":") {
        if (!chain) left = make(ExprKind::array, op.where, ":", {left});
        chain = true;
        left->args.push_back(right);
      } else {
        left = make(ExprKind::binary, op.where, op.text, {left, right});
      }
    }
  }

  Expr* lambda_of(Expr* left, const Token& arrow, LineEnd line_end) {
    if (left->kind != ExprKind::identifier)
      fail(arrow.where, "on the left of '=>' stands one name",
           "put the function into parentheses of its own: a : (x => ...) : b");
    Expr* e = make(ExprKind::lambda, arrow.where, {}, {expression(0, line_end)});
    e->params.push_back({left->name, nullptr, left->where});
    return e;
  }

  Expr* operand(LineEnd line_end) {
    const Nesting nesting(*this);
    const Token t = peek();
    if (at("+") || at("-") || at("!")) {
      next();
      return make(ExprKind::unary, t.where, t.text, {operand(line_end)});
    }
    return postfix(primary(line_end), line_end);
  }

  Expr* primary(LineEnd line_end) {
    const Token t = peek();
    switch (t.kind) {
      case TokenKind::number:
        return number(ExprKind::number, t.number);
      case TokenKind::text:
        next();
        return make(ExprKind::text, t.where, t.text);
      case TokenKind::identifier:
        next();
        return make(ExprKind::identifier, t.where, t.text);
      case TokenKind::keyword:
        if (Expr* e = keyword(t, line_end)) return e;
        unexpected("a value", fmt::format("'{}' is a word of the language and cannot be a name", t.text));
      case TokenKind::symbol:
        if (t.text == "(") return parenthesis();
        if (t.text == "{" || t.text == "[") return record();
        if (t.text == "[|") return array_brackets();
        break;
      case TokenKind::end:
        break;
    }
    unexpected("a value");
  }

  Expr* keyword(const Token& t, LineEnd line_end) {
    if (t.text == "true" || t.text == "false") return number(ExprKind::boolean, t.text == "true");
    if (t.text == "if") return conditional(line_end);
    if (t.text == "new") return construct();
    if (t.text == "array") return generator();
    return nullptr;
  }

  Expr* conditional(LineEnd line_end) {
    const Span where = next().where;
    Expr* e = make(ExprKind::conditional, where, {}, {expression(0, line_end)});
    if (!accept("then")) unexpected("'then' or an operator", "write if condition then value else value");
    e->args.push_back(expression(0, line_end));
    if (!accept("else")) unexpected("'else' or an operator", "every if has an else");
    e->args.push_back(expression(0, line_end));
    return e;
  }

  Expr* construct() {
    const Token word = next();
    if (peek().kind != TokenKind::identifier)
      unexpected("the type of the object", "write new ComputationNetwork { ... }");
    const Token type = next();
    Expr* e = make(ExprKind::construct, type.where, type.text);
    if (!at("{") && !at("[")) unexpected("'{' or '['", fmt::format("write new {} {{ ... }}", e->name));
    e->args = {record()};
    return e;
  }

  Expr* generator() {
    Expr* e = make(ExprKind::generator, next().where);
    if (!at("[")) unexpected("'['", "write array[from..to] (i => value)");
    const Token open = next();
    range(*e, open);
    if (!at("(")) unexpected("'('", "write array[from..to] (i => value)");
    const Token paren = next();
    e->args.push_back(expression(0, LineEnd::nothing));
    expect(")", paren);
    add_element_call(*e);
    return e;
  }

  // What one element of a generator is, for the evaluator to bind.
  void add_element_call(Expr& generator) {
    const Span& where = generator.where;
    Expr* call = make(ExprKind::call, where, {}, {make(ExprKind::identifier, where, "_function")});
    call->arguments.push_back({"", make(ExprKind::identifier, where, "_index"), where});
    generator.args.push_back(call);
  }

  void range(Expr& e, const Token& open) {
    e.args.push_back(expression(0, LineEnd::nothing));
    if (!accept("..")) unexpected("'..' or an operator", "write from..to");
    e.args.push_back(expression(0, LineEnd::nothing));
    expect("]", open);
  }

  Expr* parenthesis() {
    const Token open = next();
    if (Expr* e = lambda_with_list(open)) return e;
    if (at(")")) fail(open.where, "empty parentheses", "write [| |] for an array without elements");
    Expr* e = expression(0, LineEnd::nothing);
    if (at(",")) unexpected("')' or an operator", "array elements are separated by ':'");
    expect(")", open);
    return e;
  }

  static void add_param(Expr& function, const Token& name) {
    for (const auto& p : function.params)
      if (p.name == name.text) fail(name.where, fmt::format("'{}' is named twice", p.name), "use another name");
    function.params.push_back({name.text, nullptr, name.where});
  }

  // (a, b) => e
  Expr* lambda_with_list(const Token& open) {
    std::size_t i = 0;
    while (peek(i).kind == TokenKind::identifier && at(",", i + 1)) i += 2;
    if (i == 0 || peek(i).kind != TokenKind::identifier || !at(")", i + 1) || !at("=>", i + 2)) return nullptr;
    Expr* e = make(ExprKind::lambda, peek(i + 2).where);
    for (std::size_t k = 0; k <= i; k += 2) add_param(*e, peek(k));
    at_ += i + 3;
    e->args = {expression(0, LineEnd::nothing)};
    return e;
  }

  Expr* record() {
    const Token open = next();
    Expr* e = make(ExprKind::record, open.where);
    const std::string_view close = open.text == "{" ? "}" : "]";
    members(*e, close);
    if (!accept(close)) {
      if (peek().kind == TokenKind::end)
        fail(open.where, fmt::format("'{}' is never closed", open.text), fmt::format("add '{}'", close));
      unexpected(fmt::format("'{}' or another member", close));
    }
    return e;
  }

  Expr* array_brackets() {
    const Token open = next();
    Expr* e = make(ExprKind::array, open.where, "[|");
    while (!at("|]")) {
      if (accept(";")) continue;
      if (peek().kind == TokenKind::end) fail(open.where, "'[|' is never closed", "add '|]'");
      e->args.push_back(expression(0, LineEnd::ends_element));
      if (!at("|]") && !at(";") && !peek().begins_line && peek().kind != TokenKind::end)
        unexpected("';', a new line or '|]'", at(",") ? "elements of [| |] are separated by ';'" : "");
    }
    next();
    return e;
  }

  Expr* postfix(Expr* e, LineEnd line_end) {
    for (;;) {
      const Token t = peek();
      if (ends(t, line_end)) return e;
      if (accept(".")) {
        if (peek().kind != TokenKind::identifier) unexpected("the name of a member");
        const Token& name = next();
        e = make(ExprKind::member, name.where, name.text, {e});
      } else if (accept("[")) {
        e = make(ExprKind::index, t.where, {}, {e, expression(0, LineEnd::nothing)});
        if (at(","))
          unexpected("']' or an operator", "an index is one number; members of a record stand behind '=' or ':'");
        expect("]", t);
      } else if (at("(") || at("{")) {
        e = call(e);
      } else {
        return e;
      }
    }
  }

  Expr* call(Expr* function) {
    const Token open = next();
    const std::string_view close = open.text == "(" ? ")" : "}";
    Expr* e = make(ExprKind::call, function->where, {}, {function});
    while (!at(close)) {
      Member a;
      a.where = peek().where;
      if (peek().kind == TokenKind::identifier && at("=", 1)) {
        a.name = next().text;
        next();
        for (const auto& other : e->arguments)
          if (other.name == a.name)
            fail(a.where, fmt::format("the argument '{}' is given twice", a.name), "remove one");
      }
      a.value = expression(0, LineEnd::nothing);
      e->arguments.push_back(a);
      if (!accept(",")) break;
      if (at(close)) unexpected("another argument", "remove the ',' in front");
    }
    expect(close, open);
    return e;
  }

  // Members up to `close`, or to the end of the text.
  void members(Expr& record, std::string_view close) {
    for (;;) {
      while (accept(";")) {
      }
      if (peek().kind == TokenKind::end || (!close.empty() && at(close))) return;
      if (at("include"))
        include(record);
      else
        member(record);
      if (at(";") || peek().begins_line || peek().kind == TokenKind::end || (!close.empty() && at(close))) continue;
      unexpected("an operator, ';' or a new line", at(",") || peek().kind == TokenKind::identifier
                                                       ? "members of a record are separated by ';' or a new line"
                                                       : std::string());
    }
  }

  void add(Expr& record, Member m) {
    for (const auto& other : record.members)
      if (other.name == m.name)
        fail(m.where, fmt::format("'{}' is defined twice in this record", m.name), "rename or remove one of them");
    record.members.push_back(std::move(m));
  }

  void member(Expr& record) {
    if (peek().kind == TokenKind::keyword)
      unexpected("the name of a member",
                 fmt::format("'{}' is a word of the language and cannot be a name", peek().text));
    if (peek().kind != TokenKind::identifier) unexpected("the name of a member");
    Member m;
    m.where = peek().where;
    m.name = next().text;
    Expr* function = nullptr;
    Expr* elements = nullptr;
    if (at("(") || at("{")) function = params(m.name);
    if (at("[")) elements = element_range();
    if (!accept("=")) unexpected("'='", at("==") ? "a definition has a single '='" : std::string());
    m.value = expression(0, LineEnd::ends_member);
    if (elements) {
      elements->args[2]->args = {m.value};
      m.value = elements;
    }
    if (function) {
      function->args = {m.value};
      m.value = function;
    }
    add(record, std::move(m));
  }

  Expr* params(const std::string& name) {
    const Token open = next();
    const std::string_view close = open.text == "(" ? ")" : "}";
    Expr* f = make(ExprKind::lambda, open.where, name);
    while (!at(close)) {
      if (peek().kind != TokenKind::identifier) unexpected("the name of an argument");
      add_param(*f, next());
      if (accept("=")) f->params.back().otherwise = expression(0, LineEnd::nothing);
      if (!accept(",")) break;
    }
    expect(close, open);
    return f;
  }

  // x[i:lo..hi] = e is x = array[lo..hi] (i => e).
  Expr* element_range() {
    const Token open = next();
    Expr* e = make(ExprKind::generator, open.where);
    if (peek().kind != TokenKind::identifier) unexpected("the name of the index", "write x[i:from..to] = value");
    Expr* f = make(ExprKind::lambda, peek().where);
    add_param(*f, next());
    if (!accept(":")) unexpected("':'", "write x[i:from..to] = value");
    range(*e, open);
    e->args.push_back(f);
    add_element_call(*e);
    return e;
  }

  void include(Expr& record) {
    next();
    if (peek().kind != TokenKind::text) unexpected("the name of a file in quotes");
    std::vector<std::string> including = including_;
    const SourceText* text = open_include(program_, text_, next(), including);
    const Expr* included = Parser(program_, *text, including).whole_members();
    for (const auto& m : included->members) add(record, m);
  }

  Program& program_;
  const SourceText& text_;
  const std::vector<std::string>& including_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr* parse_expression(Program& program, const SourceText& text) {
  return Parser(program, text, {}).whole_expression();
}

Expr* parse_members(Program& program, const SourceText& text) { return Parser(program, text, {}).whole_members(); }

}  // namespace tutti::brainscript
