// SPDX-License-Identifier: Apache-2.0
// ndl.h -- NDLNetworkBuilder: the older, line-oriented network language (semantics 7.2). Text -> script
// (ndl_parser.cpp) -> BrainScript (ndl_desugar.cpp) -> graph (ndl_network.cpp); ndl_description.cpp reads the block.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brainscript/syntax.h"
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
  std::vector<Statement> statements;
  std::map<std::string, Macro> macros;
  std::map<std::string, Script> sections;
};

std::string lower(std::string);

// `variable` gives the text of $name$, or nothing. Its text becomes part of the script, also within words and strings.
using Variables = std::function<std::optional<std::string>(const std::string&)>;
// A whole file, or a section with its brackets.
Script parse(const SourceText&, const Variables& variable);

[[noreturn]] void fail(const Span& where, std::string message, std::string fix = {});

// W * x with a matrix W takes an image x as one long vector. Shapes are known as far as weights tell their own.
void flatten_products(graph::Graph&);

// A model to which statements are added one script at a time (the editing language). Statements may use names of its
// nodes. Between scripts the graph may be changed as long as its nodes keep their indices; a deleted one has no name
// and no operation.
class GrowingNetwork {
 public:
  GrowingNetwork(graph::Graph model, const BuildContext&);
  ~GrowingNetwork();
  GrowingNetwork(GrowingNetwork&&) noexcept;
  GrowingNetwork& operator=(GrowingNetwork&&) noexcept;
  void add_macros(std::shared_ptr<const Script>);
  void add(std::shared_ptr<const Script>);
  graph::Graph& graph();
  std::optional<std::size_t> find(const std::string& name);  // of a node, or a name of an earlier statement

 private:
  struct Impl;
  friend graph::Graph build_network(const std::vector<const Script*>&, const Script&, const BuildContext&,
                                    std::int64_t seed_offset);
  std::unique_ptr<Impl> impl_;
};

// a+b names two files, unless it is the name of one.
std::vector<config::Value> script_files(const config::Value& paths);
// The contents of a script file. `what` names it in the error.
SourceText text_of_file(const config::Value& path, const std::string& what);

// The network of a section, given the macros and constants of others. `seed_offset` is added to the seeds 1, 2, 3, ...
graph::Graph build_network(const std::vector<const Script*>& macros, const Script& network, const BuildContext&,
                           std::int64_t seed_offset = 0);
graph::Graph build(const config::Record& command, const BuildContext&);

}  // namespace tutti::brainscript::ndl
