// SPDX-License-Identifier: Apache-2.0
// node_table.h -- collects the nodes that evaluation creates: unique names, seeds, tags.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "brainscript/value.h"
#include "tutti/graph.h"

namespace tutti::brainscript {

// How an attribute is written in the language and stored in the graph. A value of None leaves the attribute away.
// Lists take one value or an array of them; flags are stored as 0 and 1.
enum class AttributeKind { integer, number, flag, text, dims, flags };
struct AttributeSpec {
  std::string name;
  AttributeKind kind;
};
// Attributes of an operation, parameters excepted.
const std::vector<AttributeSpec>& attributes_of(const std::string& operation);

class NodeTable {
 public:
  NodeTable(std::int64_t& seed, bool force_constant_seed) : seed_(seed), force_constant_seed_(force_constant_seed) {}

  NodeRef add(graph::Node node);                  // makes the name unique
  void rename(NodeRef, const std::string& name);  // a node that has the name already takes this one's in exchange
  // The node as a part of a loaded model: it stays only if something needs it in the end.
  NodeRef add_loaded(graph::Node node);
  // Leaves out loaded nodes that nothing needs, and gives the names they held to those who wanted them.
  void drop_unused();
  NodeRef constant(double value, const std::string& name, const SourcePos& where);
  std::int64_t next_seed() { return force_constant_seed_ ? 1 : seed_++; }
  std::int64_t given_seed(std::int64_t wanted) const { return force_constant_seed_ ? 1 : wanted; }

  graph::Graph graph;
  std::map<std::string, std::vector<std::size_t>> tags;  // "feature" -> nodes
  std::set<std::size_t> default_features;                // inputs whose tag the user did not write
  bool keep_loaded = false;                              // the network is a loaded one as it stands

 private:
  std::map<std::string, int> names_;  // name -> the last number behind it
  std::vector<std::string> wanted_;   // by node: the name it was made under
  std::set<std::size_t> loaded_;
  std::int64_t& seed_;
  bool force_constant_seed_;
};

// The attributes of a LearnableParameter whose settings are the members of `settings`: which initialiser, which seed
// (semantics 5).
class Evaluator;
void set_parameter_attributes(Evaluator&, graph::Node&, const Expr&, Record* settings);
// The initialiser of that name as the language spells it; unknown names as they are.
std::string known_init(const std::string& name);
// The setting of that name: in the record itself, or an argument of the function around it.
Thunk* find_setting(const Record* settings, std::string_view name);
std::vector<double> dims_value(Evaluator&, const Value&, const std::string& what, const Expr&, const Record* scope);

}  // namespace tutti::brainscript
