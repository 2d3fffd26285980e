// SPDX-License-Identifier: Apache-2.0
// evaluator.h -- evaluates the syntax tree lazily: operands left to right, depth first, every definition once
// (semantics 2.6: this order decides the seeds). Nodes are added to a NodeTable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brainscript/node_table.h"
#include "brainscript/value.h"
#include "tutti/config.h"

namespace tutti::brainscript {

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
  void add_tag(NodeRef, const std::string& operation, Thunk* tag, const Expr&, Record* settings);
  static void append(Array&, const Value&, Heap&);
  std::optional<Value> on_nodes(const Expr&, const Value& left, const Value& right, Record* scope, const Path* path);
  const Path* operand_path(const Path*, std::string_view operation, std::size_t index);
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

}  // namespace tutti::brainscript
