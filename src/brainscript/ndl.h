// SPDX-License-Identifier: Apache-2.0
// ndl.h -- NDLNetworkBuilder: the older, line-oriented network language. Text ->
// tokens (ndl_lexer.cpp) -> script (ndl_parser.cpp) -> BrainScript (ndl_desugar.cpp) -> graph (ndl_network.cpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brainscript/node_sets.h"
#include "brainscript/syntax.h"
#include "config/text.h"
#include "tutti/builder.h"

namespace tutti::brainscript::ndl {

struct Argument;

struct Expression {
  enum class Kind { number, text, name, call, list };
  Kind kind = Kind::number;
  Span where;
  double number = 0;
  std::string text;                 // a string, a name (parts joined by '.'), the called function
  std::vector<Argument> arguments;  // of a call; elements of a list
};
struct Argument {
  std::string name;  // empty when positional
  Expression value;
};

struct Statement {
  std::string name;  // empty: a call on a line of its own
  Span where;
  Expression value;
};

struct Macro {
  std::string name;
  Span where;
  std::vector<std::string> parameters;
  std::vector<std::optional<Expression>> defaults;
  std::vector<Statement> body;
  bool single = false;  // Name(x) = expression
};

// A section, or a file. Names are found whatever their case.
struct Script {
  std::shared_ptr<const SourceText> text;  // that of the whole file; all places are in it
  std::vector<Statement> statements;
  std::map<std::string, Macro> macros;
  std::map<std::string, Script> sections;
};
using ScriptPtr = std::shared_ptr<const Script>;

using config::to_lower;

// `variable` gives the text of $name$, or nothing. Its text becomes part of the script, also within words and strings.
using Variables = std::function<std::optional<std::string>(const std::string&)>;
inline std::optional<std::string> no_variables(const std::string&) { return std::nullopt; }
std::vector<Token> lex(const SourceText&, const Variables&);
// A whole file, or a section with its brackets.
ScriptPtr parse(SourceText, const Variables& variable = no_variables);
// The file's macros outside of sections; those in its sections.
ScriptPtr only_macros(const ScriptPtr&);
std::vector<ScriptPtr> sections_of(const ScriptPtr&);

// W * x with a matrix W takes an image x as one long vector. Shapes are known as far as weights tell their own.
void flatten_products(graph::Graph&);

// a+b names two files, unless it is the name of one.
std::vector<config::Value> script_files(const config::Value& paths);
// The contents of a script file. `what` names it in the error.
SourceText text_of_file(const config::Value& path, const std::string& what);
// The text of a value; `name` names it where it was built by substitution.
SourceText text_of_value(const config::Value&, const std::string& name);

// ---- the functions of the older network language: those of _Ndl in the library, and library functions
// that are the same in both languages. Each makes one node; what its parameters are is read from its definition.

struct Function {
  std::string name;
  bool own = false;  // a member of _Ndl
  const Expr* lambda = nullptr;
  std::string operation;
  std::set<std::string> nodes;  // parameters that take nodes
  bool variadic = false;        // RowStack (a, b, ...): every argument is a node

  bool is_delay() const { return operation == "PastValue" || operation == "FutureValue"; }
};

// What the call gives to each parameter; null where it gives nothing.
struct Matched {
  std::vector<const Argument*> by_parameter;
  const Argument* tag = nullptr;
};

class FunctionTable {
 public:
  explicit FunctionTable(const Expr& library);          // the parsed library, which has to live as long as the table
  const Function* find(const std::string& name) const;  // null if there is none; upper and lower case are the same
  // The function of a call, by its name and the form of its arguments. `macros` are for suggestions in the error.
  const Function& of_call(const Expression& call, const std::vector<std::string>& macros) const;
  std::vector<const Function*> all() const;

 private:
  std::map<std::string, Function> functions_;  // by name in lower case
};

Matched match(const Function&, const Expression& call);
std::string signature(const Function&);  // "Times(x, y, outputRank=1)"
// Why an argument for this parameter has no effect; nothing if it has one.
std::optional<std::string> why_unused(const Param&);

// ---- scripts of the older network language as BrainScript: a record with one call for each node, in the
// order of the statements. Macros are expanded, names resolved, and nested calls get members of their own.

struct Desugared {
  Expr* record = nullptr;                           // each member makes the node of its name
  std::vector<std::pair<NodeSet, Expr*>> in_sets;   // what tags and FeatureNodes = ... name, in their order
  std::vector<std::pair<std::string, Expr*>> uses;  // each member's name, and the identifier that stands for its node
};

class Desugarer;  // ndl_desugar.cpp

// A network to which statements are added one script at a time (the editing language). Statements may use names of its
// nodes. Between scripts the graph may be changed as long as its nodes keep their indices; a deleted one has no name
// and no operation.
class GrowingNetwork {
 public:
  GrowingNetwork(graph::Graph model, const BuildContext&, std::int64_t first_seed = 1);
  ~GrowingNetwork();
  void add_macros(ScriptPtr);
  void add(ScriptPtr);
  std::optional<std::size_t> find(const std::string& name) const;  // of a node, or a name of an earlier statement
  graph::Graph graph;

 private:
  Desugared desugared(ScriptPtr);
  BuildContext context_;
  std::int64_t seed_;
  Program program_;
  const Expr* library_;
  FunctionTable functions_;
  std::unique_ptr<Desugarer> desugarer_;
  std::vector<ScriptPtr> scripts_;  // the desugarer points into them
};

// The network of a block NDLNetworkBuilder.
graph::Graph build(const config::Record& block, const BuildContext&);

}  // namespace tutti::brainscript::ndl
