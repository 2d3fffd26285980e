// SPDX-License-Identifier: Apache-2.0
// ndl_functions.h -- the functions of the older network language: those of _Ndl in the library, and library functions
// that are the same in both languages. Each makes one node; what its parameters are is read from its definition.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "brainscript/ndl.h"
#include "brainscript/syntax.h"

namespace tutti::brainscript::ndl {

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

}  // namespace tutti::brainscript::ndl
