// SPDX-License-Identifier: Apache-2.0
// evaluator.h -- evaluates the syntax tree lazily: operands left to right, depth first, every definition once
// (as in CNTK: this order decides the seeds). Nodes are added to a NodeTable: unique names, seeds, tags.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "brainscript/value.h"
#include "tutti/config.h"
#include "tutti/graph.h"

namespace tutti::brainscript {

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
  graph::Graph tags;                       // its sets are the nodes with such a tag
  std::set<std::size_t> default_features;  // inputs whose tag the user did not write
  bool keep_loaded = false;                // the network is a loaded one as it stands

 private:
  std::map<std::string, int> names_;  // name -> the last number behind it
  std::vector<std::string> wanted_;   // by node: the name it was made under
  std::set<std::size_t> loaded_;
  std::int64_t& seed_;
  bool force_constant_seed_;
};

class Evaluator {
 public:
  using LoadModel = std::function<graph::Graph(const std::string&)>;
  Evaluator(Heap& heap, NodeTable& nodes, config::Notices* notices, LoadModel load_model = {})
      : heap_(heap), nodes_(nodes), notices_(notices), load_model_(std::move(load_model)) {}

  Value evaluate(const Expr&, Record* scope, const Path* path);
  const Value& force(Thunk*, const Expr* site = nullptr, const Record* scope = nullptr);
  // Calls a function with argument values.
  Value apply(const Value& function, std::vector<Thunk*> args, const Expr& site, Record* scope, const Path* path);

  // Creates the record of an Expr of kind record.
  Record* make_record(const Expr&, Record* outer, const Path* path);
  // The definition of `name` in this scope, or nullptr.
  static Thunk* find(const Record* scope, std::string_view name);
  // The elements of an array; any other value is the one element of itself.
  std::vector<Value> elements(const Value&, const Expr* site = nullptr, const Record* scope = nullptr);

  // The user's place of an expression: inside the library, that of the call that led there.
  static SourcePos place(const Expr&, const Record* scope);
  [[noreturn]] static void fail(const Expr&, const Record* scope, std::string message, std::string fix = {});

  double number(const Value&, std::string_view what, const Expr&, const Record* scope) const;
  std::int64_t integer(const Value&, std::string_view what, const Expr&, const Record* scope) const;
  bool boolean(const Value&, std::string_view what, const Expr&, const Record* scope) const;
  const std::string& text(const Value&, std::string_view what, const Expr&, const Record* scope) const;
  std::string describe(const Value&) const;  // "a node ('z')"
  // A short printed form, for Print, Format and messages.
  std::string shown(const Value&, const Expr&, const Record* scope, int depth = 0);

  // Evaluates the inputs of all delays (PastValue, FutureValue) made so far. They are evaluated last, so that
  // definitions may refer to each other through them: that is how loops are written.
  void resolve_delays();

  // Operators by the types of their operands (operators.cpp).
  Value binary(const Expr&, const Value& left, const Value& right, Record* scope, const Path* path);
  Value unary(const Expr&, const Value& operand, Record* scope, const Path* path);
  // A node from a number or a node (nodes.cpp); `what` names the operand in errors.
  NodeRef as_node(const Value&, const std::string& what, const Expr&, const Record* scope, const Path* path);

  Heap& heap() { return heap_; }
  NodeTable& nodes() { return nodes_; }
  const LoadModel& load_model() const { return load_model_; }
  void notice(const Diagnostic&);
  void notice(std::string line);
  void count(std::size_t elements, const Expr&, const Record* scope);  // against endless arrays and strings

 private:
  static const Record* enclosing_call(const Record* scope);
  static const Expr* users_expression(const Expr&, const Record* scope, std::string* function);
  Value identifier(const Expr&, Record* scope);
  Value array(const Expr&, Record* scope, const Path* path);
  Value generator(const Expr&, Record* scope, const Path* path);
  Value conditional(const Expr&, Record* scope, const Path* path);
  Value short_circuit_or_binary(const Expr&, Record* scope, const Path* path);
  Value call(const Expr&, Record* scope, const Path* path);
  Value run(Function*, std::vector<Thunk*> args, const Expr& site, Record* scope, const Path* path);
  std::vector<Thunk*> bind(const Function&, const Expr& call, Record* scope, const Path* path);
  Value member(const Expr&, Record* scope, const Path* path);
  Value node_member(NodeRef, const Expr&, Record* scope);
  Value index(const Expr&, Record* scope, const Path* path);
  Value construct(const Expr&, Record* scope, const Path* path);
  NodeRef make_node(const Expr&, Record* settings, const Path* path);
  std::vector<std::size_t> input_nodes(const std::string& operation, const Expr&, Record* settings, const Path* path);
  void set_attributes(graph::Node&, const Expr&, Record* settings);
  std::vector<double> flags_value(const Value&, const std::string& what, const Expr&, const Record* scope);
  void add_tag(NodeRef, const std::string& operation, Thunk* tag, const Expr&, Record* settings);
  std::optional<Value> on_nodes(const Expr&, const Value& left, const Value& right, Record* scope, const Path* path);
  const Path* operand_path(const Path*, std::string_view operation, std::size_t index);
  NodeRef add_node(std::string operation, std::vector<std::size_t> inputs, const Expr&, Record* scope, const Path*);
  [[noreturn]] void circle(const Thunk*, const Expr* site, const Record* scope);

  Heap& heap_;
  NodeTable& nodes_;
  config::Notices* notices_;
  LoadModel load_model_;
  struct Delay {
    std::size_t node;
    const Expr* expr;
    Record* settings;
    const Path* path;
  };
  std::vector<Delay> delays_;                                                       // not resolved yet
  std::vector<const Thunk*> active_;                                                // being evaluated, outermost first
  const char* stack_begin_ = static_cast<const char*>(__builtin_frame_address(0));  // evaluators live on the deep stack
  int depth_ = 0;
  std::int64_t steps_ = 0, elements_ = 0;
};

// A call of a native: its arguments, one for each parameter, checked when they are asked for.
struct Call {
  Evaluator& ev;
  std::vector<Thunk*> args;
  const Expr& site;
  Record* scope;
  const Path* path;

  const Value& operator[](std::size_t i) const { return ev.force(args[i], &site, scope); }
  double number(std::size_t i) const { return ev.number((*this)[i], name(i), site, scope); }
  std::int64_t integer(std::size_t i) const { return ev.integer((*this)[i], name(i), site, scope); }
  const std::string& text(std::size_t i) const { return ev.text((*this)[i], name(i), site, scope); }
  std::string shown(std::size_t i) const { return ev.shown((*this)[i], site, scope); }
  std::vector<Value> elements(const Value& v) const { return ev.elements(v, &site, scope); }
  std::string name(std::size_t i) const { return "'" + args[i]->name + "'"; }
  [[noreturn]] void fail(std::string message, std::string fix = {}) const {
    Evaluator::fail(site, scope, std::move(message), std::move(fix));
  }
};

// The attributes of a LearnableParameter whose settings are the members of `settings`: which initialiser,
// which seed.
void set_parameter_attributes(Evaluator&, graph::Node&, const Expr&, Record* settings);
// The initialiser of that name as the language spells it; unknown names as they are.
std::string known_init(const std::string& name);
// The setting of that name: in the record itself, or an argument of the function around it.
Thunk* find_setting(const Record* settings, std::string_view name);
std::vector<double> dims_value(Evaluator&, const Value&, const std::string& what, const Expr&, const Record* scope);

// ---- trained models inside a description: BS.Network.Load, CloneFunction, Edit

// A model as it was loaded. Its nodes enter the new network when something first asks for them, with all they need.
struct LoadedNetwork {
  std::string path;
  SourcePos where;  // of the call that loaded it
  graph::Graph graph;
  std::vector<std::optional<std::size_t>> place;  // by node: its index in the new network
  std::optional<graph::Graph> edited;             // after Edit: its sets, as nodes of the new network
};

// The node of the loaded graph as one of the new network.
NodeRef bring_in(LoadedNetwork&, std::size_t node, NodeTable&);
// All of it, as the network that is built.
void adopt_whole(LoadedNetwork&, NodeTable&);

// net.name: a node by its name, where '.', '[' and ']' may be written as '_', a special set, or the start of longer
// names.
Value network_member(Evaluator&, const NetworkView&, const Expr& member, Record* scope);
Value network_element(Evaluator&, const NetworkView&, const Value& index, const Expr& e, Record* scope);

// Natives.
Value load_network(const Call&);
Value clone_function(const Call&);
Value edit_network(const Call&);

}  // namespace tutti::brainscript
