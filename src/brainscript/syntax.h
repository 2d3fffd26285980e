// SPDX-License-Identifier: Apache-2.0
// syntax.h -- tokens and syntax tree of the network language. Trees live in a Program, which owns every text and every
// expression; the evaluator keeps plain pointers into it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::brainscript {

// A text to parse. `text` stands in `source` from `base` on; it may differ from it where the configuration layer has
// blanked comments, never in length.
struct SourceText {
  std::string text;
  std::shared_ptr<const Source> source;
  std::size_t base = 0;
  bool library = false;
};

// A range of a SourceText.
struct Span {
  const SourceText* text = nullptr;
  std::size_t offset = 0, length = 0;
  SourcePos pos() const { return {text->source, text->base + offset, length}; }
};

[[noreturn]] void fail(const Span&, std::string message, std::string fix = {});

enum class TokenKind { number, text, identifier, keyword, symbol, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // a string's contents, an identifier, a keyword, a symbol
  double number = 0;
  Span where;
  bool begins_line = false;
};

std::vector<Token> tokenize(const SourceText&);

struct Expr;

// A member of a record, or an argument, whose name is empty when it is positional.
struct Member {
  std::string name;
  Expr* value = nullptr;
  Span where;
};

struct Param {
  std::string name;
  Expr* otherwise = nullptr;  // the default, if there is one
  Span where;
};

enum class ExprKind {
  number,
  text,
  boolean,      // number != 0
  identifier,   // name
  record,       // members
  array,        // args; name is ":" or "[|"
  generator,    // array[lo..hi] (function): args lo, hi, function, and the call _function (_index)
  unary,        // name is the operator; args[0]
  binary,       // name is the operator; args[0], args[1]
  call,         // args[0] is the function; arguments
  member,       // args[0] . name
  index,        // args[0] [ args[1] ]
  lambda,       // params, args[0] is the body; name is that of the member it defines, for messages
  conditional,  // args condition, then, else
  construct,    // new name args[0]
};

struct Expr {
  ExprKind kind = ExprKind::number;
  Span where;
  std::string name;
  double number = 0;
  std::vector<Expr*> args;
  std::vector<Member> arguments;
  std::vector<Param> params;
  std::vector<Member> members;
};

struct Program {
  std::vector<std::unique_ptr<SourceText>> texts;
  std::vector<std::unique_ptr<Expr>> exprs;
  // Where include looks, beside the directory of the including file and the path itself.
  std::vector<std::filesystem::path> include_path;

  const SourceText* add_text(SourceText text) {
    return texts.emplace_back(std::make_unique<SourceText>(std::move(text))).get();
  }
};

// The file that an include in `from` names. `including`: the files whose includes led there; this one is added.
const SourceText* open_include(Program&, const SourceText& from, const Token& name,
                               std::vector<std::string>& including);
// The text is one expression (a record in brackets, or an expression in parentheses).
Expr* parse_expression(Program&, const SourceText&);
// The text is a list of members without brackets around it: an included file, the standard library.
Expr* parse_members(Program&, const SourceText&);

}  // namespace tutti::brainscript
