// SPDX-License-Identifier: Apache-2.0
// The meaning of an operator, by the types of its operands (CNTK's rules).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "brainscript/evaluator.h"

namespace tutti::brainscript {
namespace {

struct NodeOperator {
  std::string_view symbol, operation;
};
constexpr std::array<NodeOperator, 12> node_operators = {{{"+", "Plus"},
                                                          {"-", "Minus"},
                                                          {"*", "Times"},
                                                          {"/", "ElementDivide"},
                                                          {".*", "ElementTimes"},
                                                          {"&&", "ElementTimes"},
                                                          {"<", "Less"},
                                                          {"==", "Equal"},
                                                          {">", "Greater"},
                                                          {">=", "GreaterEqual"},
                                                          {"!=", "NotEqual"},
                                                          {"<=", "LessEqual"}}};

std::string_view node_operation(std::string_view symbol) {
  const auto found = std::ranges::find(node_operators, symbol, &NodeOperator::symbol);
  return found == node_operators.end() ? std::string_view() : found->operation;
}

std::optional<Value> on_numbers(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*" || op == ".*") return a * b;
  if (op == "/") return a / b;
  if (op == "%") return std::fmod(a, b);
  if (op == "**") return std::pow(a, b);
  return std::nullopt;
}

template <class T>
std::optional<Value> comparison(std::string_view op, const T& a, const T& b) {
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  return std::nullopt;
}

bool scalar_or_node(const Value& v) { return std::holds_alternative<double>(v) || std::holds_alternative<NodeRef>(v); }

std::string advice(std::string_view op, const Value& left, const Value& right) {
  const bool nodes = std::holds_alternative<NodeRef>(left) || std::holds_alternative<NodeRef>(right);
  if (std::holds_alternative<Function*>(left) || std::holds_alternative<Function*>(right))
    return "apply the function to its arguments first, or compose functions by >>";
  if (std::holds_alternative<None>(left) || std::holds_alternative<None>(right))
    return "ask BS.Constants.IsNone (x) whether a value is None";
  if (nodes && op == "/") return "write ElementDivide (x, y) for nodes; / divides 1/node and node/number";
  if (nodes && op == "||") return "write BS.Boolean.Or (x, y)";
  if (nodes && op == "**") return "write the product out, or Exp (p .* Log (x))";
  if (op == "+" && !nodes && (std::holds_alternative<std::string>(left) || std::holds_alternative<std::string>(right)))
    return "turn the other operand into a string by Format (value, '')";
  if (op == ">>" || op == "<<") return "f >> g composes two functions, array << n drops the first n elements";
  return {};
}

}  // namespace

const Path* Evaluator::operand_path(const Path* path, std::string_view operation, std::size_t index) {
  return operation.empty() ? path : heap_.path(path, fmt::format("{}Args[{}]", operation, index));
}

Value Evaluator::short_circuit_or_binary(const Expr& e, Record* scope, const Path* path) {
  if (e.name == "with") fail(e, scope, "'with' is not supported", "write the record with all its members");
  if (e.name == ">>") {
    // f >> g is x => g (f (x)), written in the library.
    std::vector<Thunk*> functions;
    for (std::size_t i : {0, 1}) {
      const Value v = evaluate(*e.args[i], scope, heap_.path(path, i == 0 ? "first" : "then"));
      if (!std::holds_alternative<Function*>(v))
        fail(e, scope,
             fmt::format("'>>' composes functions; the {} operand is {}", i == 0 ? "left" : "right", describe(v)));
      functions.push_back(heap_.ready(v));
    }
    return apply(force(find(scope, "_Compose"), &e, scope), std::move(functions), e, scope, path);
  }
  const std::string_view operation = node_operation(e.name);
  const Value left = evaluate(*e.args[0], scope, operand_path(path, operation, 0));
  if (auto* b = std::get_if<bool>(&left))
    if ((e.name == "&&" && !*b) || (e.name == "||" && *b)) return *b;
  const Value right = evaluate(*e.args[1], scope, operand_path(path, operation, 1));
  return binary(e, left, right, scope, path);
}

Value Evaluator::binary(const Expr& e, const Value& left, const Value& right, Record* scope, const Path* path) {
  const std::string& op = e.name;
  std::optional<Value> result;
  if (const double* divisor = std::get_if<double>(&right);
      divisor && *divisor == 0 && (op == "%" || (op == "/" && std::holds_alternative<NodeRef>(left))))
    fail(e, scope, fmt::format("{} cannot be divided by 0", describe(left)));
  if (std::holds_alternative<double>(left) && std::holds_alternative<double>(right)) {
    const double a = std::get<double>(left), b = std::get<double>(right);
    result = on_numbers(op, a, b);
    if (!result) result = comparison(op, a, b);
  } else if (std::holds_alternative<std::string>(left) && std::holds_alternative<std::string>(right)) {
    const auto &a = std::get<std::string>(left), &b = std::get<std::string>(right);
    if (op == "+") {
      count(a.size() + b.size(), e, scope);
      return a + b;
    }
    result = comparison(op, a, b);
  } else if (std::holds_alternative<bool>(left) && std::holds_alternative<bool>(right)) {
    if (op == "&&" || op == "||") return std::get<bool>(right);  // the left one alone did not decide
    result = comparison(op, std::get<bool>(left), std::get<bool>(right));
  } else if (scalar_or_node(left) && scalar_or_node(right)) {
    result = on_nodes(e, left, right, scope, path);
  } else if (op == "<<" && std::holds_alternative<Array*>(left) && std::holds_alternative<double>(right)) {
    const std::int64_t n = integer(right, "the number of elements to drop", e, scope);
    const auto& all = std::get<Array*>(left)->elements;
    if (n < 0 || n > static_cast<std::int64_t>(all.size()))
      fail(e, scope, fmt::format("cannot drop {} of {} elements", n, all.size()));
    Array* rest = heap_.array();
    rest->elements.assign(all.begin() + n, all.end());
    return rest;
  }
  if (result) return *result;
  fail(e, scope, fmt::format("'{}' does not go with {} and {}", op, describe(left), describe(right)),
       advice(op, left, right));
}

// At least one operand is a node.
std::optional<Value> Evaluator::on_nodes(const Expr& e, const Value& left, const Value& right, Record* scope,
                                         const Path* path) {
  std::string operation(node_operation(e.name));
  if (operation.empty()) return std::nullopt;
  const bool both = std::holds_alternative<NodeRef>(left) && std::holds_alternative<NodeRef>(right);
  std::vector<Value> operands = {left, right};
  if (e.name == "/") {
    if (both) return std::nullopt;
    if (std::holds_alternative<NodeRef>(right)) {
      if (std::get<double>(left) != 1)
        fail(e, scope, fmt::format("only 1 can be divided by a node, not {}", std::get<double>(left)),
             fmt::format("write {} .* (1 / x)", std::get<double>(left)));
      operation = "Reciprocal";
      operands = {right};
    } else {
      operation = "ElementTimes";
      operands[1] = 1 / std::get<double>(right);
    }
  }
  if (operation == "Times" && !both) operation = "ElementTimes";
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(as_node(operands[i], "an operand", e, scope, operand_path(path, node_operation(e.name), i)).index);
  const NodeRef made = add_node(operation, std::move(inputs), e, scope, path);
  if (operation == "Times") nodes_.graph.nodes[made.index].attributes["outputRank"] = 1.0;
  return made;
}

NodeRef Evaluator::add_node(std::string operation, std::vector<std::size_t> inputs, const Expr& e, Record* scope,
                            const Path* path) {
  return nodes_.add({path->str(), std::move(operation), std::move(inputs), {}, place(e, scope)});
}

Value Evaluator::unary(const Expr& e, const Value& operand, Record* scope, const Path* path) {
  if (auto* n = std::get_if<double>(&operand); n && e.name != "!") return e.name == "-" ? -*n : *n;
  if (auto* b = std::get_if<bool>(&operand); b && e.name == "!") return !*b;
  if (auto* x = std::get_if<NodeRef>(&operand)) {
    if (e.name == "+") return operand;
    if (e.name == "-") return add_node("Negate", {x->index}, e, scope, path);
    const NodeRef one = nodes_.constant(1, operand_path(path, "Minus", 0)->str(), place(e, scope));
    return add_node("Minus", {one.index, x->index}, e, scope, path);
  }
  fail(e, scope, fmt::format("'{}' does not go with {}", e.name, describe(operand)),
       e.name == "!" ? "'!' negates true and false" : advice(e.name, operand, operand));
}

}  // namespace tutti::brainscript
