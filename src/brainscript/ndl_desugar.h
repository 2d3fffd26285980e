// SPDX-License-Identifier: Apache-2.0
// ndl_desugar.h -- scripts of the older network language as BrainScript: a record with one call for each node, in the
// order of the statements. Macros are expanded, names resolved, and nested calls get members of their own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brainscript/ndl.h"
#include "brainscript/ndl_functions.h"
#include "brainscript/syntax.h"

namespace tutti::brainscript::ndl {

using NodeSet = std::vector<std::size_t> graph::Graph::*;

struct Desugared {
  Expr* record = nullptr;                           // each member makes the node of its name
  std::vector<std::pair<NodeSet, Expr*>> in_sets;   // what tags and FeatureNodes = ... name, in their order
  std::vector<std::pair<std::string, Expr*>> uses;  // each member's name, and the identifier that stands for its node
};

class Desugarer {
 public:
  // `model`: nodes that scripts may use, by name; the identifier of node 5 is "#5". Null where there is none.
  Desugarer(Program&, const FunctionTable&, const graph::Graph* model, config::Notices*);
  ~Desugarer();
  // Scripts have to live as long as this object.
  void add_macros(const Script&);
  Desugared run(const Script&);
  // The identifier of the node that a name of an earlier statement stands for, or null.
  const Expr* find_node(const std::string& name);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::brainscript::ndl
