// SPDX-License-Identifier: Apache-2.0
// LSTM and GRU layers. Where W, H and biases are parameters, a layer is ONNX's own LSTM or GRU, which runtimes know
// best; otherwise it is a Scan.
#include <optional>

#include "interchange/onnx/node_export.h"
#include "interchange/onnx/recurrence.h"

namespace tutti::interchange {
namespace {

// The part of the gates that comes from the input, W x + b, as its operands.
struct FromInput {
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;  // may be null
  OnnxOperand x;
};

// The product of a parameter with a value per sample, all of whose axes are summed over.
std::optional<FromInput> product_with_input(const NodeExport& n, std::size_t node) {
  const graph::Node& times = n.around.node(node);
  if (times.operation != "Times" || graph::number(times, "outputRank", 1) != 1) return std::nullopt;
  FromInput found{n.around.parameter(times.inputs[0]), nullptr, n.around.operand(times.inputs[1])};
  if (!found.weight || !found.x.per_sample) return std::nullopt;
  const Shape& w = found.weight->shape;
  if (w.elements() != w[0] * found.x.shape.elements()) return std::nullopt;
  return found;
}

std::optional<FromInput> input_part(const NodeExport& n) {
  const std::size_t node = n.node.inputs[0];
  if (auto found = product_with_input(n, node)) return found;
  const graph::Node& plus = n.around.node(node);
  if (plus.operation != "Plus") return std::nullopt;
  for (const std::size_t bias : {0, 1}) {
    const Tensor* b = n.around.parameter(plus.inputs[bias]);
    auto found = b ? product_with_input(n, plus.inputs[1 - bias]) : std::nullopt;
    if (!found || b->shape.elements() != found->weight->shape[0]) continue;
    found->bias = b;
    return found;
  }
  return std::nullopt;
}

// Blocks of `cells` rows in another order. A matrix [rows x columns] lies column after column; ONNX wants it row after
// row.
std::vector<float> reordered_gates(const Tensor& matrix, std::size_t cells, const std::vector<std::size_t>& order) {
  const std::size_t rows = cells * order.size(), columns = matrix.values.size() / rows;
  std::vector<float> to(matrix.values.size());
  for (std::size_t g = 0; g < order.size(); ++g)
    for (std::size_t c = 0; c < cells; ++c)
      for (std::size_t k = 0; k < columns; ++k)
        to[(g * cells + c) * columns + k] = matrix.values[k * rows + order[g] * cells + c];
  return to;
}

// (1, batch, cells) before the first step.
std::string layer_state(NodeExport& n, std::size_t operand, std::int64_t cells, const std::string& x) {
  const std::string batch = n.builder.slice(n.op("Shape", {x}), 1, 2, 0);
  const std::string shape = n.op("Concat", {n.builder.names().ints({1}), batch, n.builder.names().ints({cells})},
                                 {{"axis", std::int64_t{0}}});
  const std::string value =
      n.in.size() > operand
          ? n.reshaped(n.in[operand], {cells})
          : n.builder.scalar(static_cast<float>(graph::number(n.node, "defaultHiddenActivation", 0.1)));
  return n.op("Expand", {value, shape});
}

// ONNX's layer; `order`: which of our blocks of gates is ONNX's first, second, ...
std::optional<std::string> recurrent_layer(NodeExport& n, const char* type, const std::vector<std::size_t>& order) {
  const bool gru = order.size() == 3;
  const auto from_input = input_part(n);
  const Tensor* h = n.around.parameter(n.node.inputs[1]);
  const Tensor* state_bias = gru && n.in.size() > 2 ? n.around.parameter(n.node.inputs[2]) : nullptr;
  if (!from_input || !h || (gru && n.in.size() > 2 && !state_bias)) return std::nullopt;
  const std::size_t cells = n.value.shape.elements(), gates = order.size();
  const auto c = static_cast<std::int64_t>(cells), rows = static_cast<std::int64_t>(cells * gates),
             inputs = static_cast<std::int64_t>(from_input->x.shape.elements());
  OnnxNames& names = n.builder.names();
  const auto constant = [&](const char* what, const Ints& dims, const std::vector<float>& values) {
    const std::string name = names.fresh(n.node.name + "/" + what);
    names.parameter(name, dims, values);
    return name;
  };
  std::vector<float> bias;
  for (const Tensor* b : {from_input->bias, state_bias}) {
    const auto part = b ? reordered_gates(*b, cells, order) : std::vector<float>(cells * gates);
    bias.insert(bias.end(), part.begin(), part.end());
  }
  const std::string x = n.reshaped(from_input->x, {inputs});
  std::vector<std::string> operands = {
      x, constant("W", {1, rows, inputs}, reordered_gates(*from_input->weight, cells, order)),
      constant("R", {1, rows, c}, reordered_gates(*h, cells, order)), constant("B", {1, 2 * rows}, bias), ""};
  operands.push_back(layer_state(n, gru ? n.in.size() : 2, c, x));
  if (!gru) operands.push_back(layer_state(n, 3, c, x));
  OnnxAttributes attributes = {{"hidden_size", c}};
  if (graph::flag(n.node, "backwards", false)) attributes.emplace_back("direction", std::string("reverse"));
  if (gru) attributes.emplace_back("linear_before_reset", std::int64_t{graph::flag(n.node, "resetAfter", false)});
  const std::string y = n.op(type, operands, attributes);  // (time, 1, batch, cells)
  return n.op("Squeeze", {y, names.ints({1})});
}

// The state of a recurrent cell before the first step: (batch, cells).
std::string initial_state(NodeExport& n, std::size_t operand, std::int64_t cells) {
  const std::string batch = n.builder.slice(n.op("Shape", {n.in[0].name}), 1, 2, 0);
  const std::string shape = n.op("Concat", {batch, n.builder.names().ints({cells})}, {{"axis", std::int64_t{0}}});
  const std::string value =
      n.in.size() > operand
          ? n.reshaped(n.in[operand], {cells})
          : n.builder.scalar(static_cast<float>(graph::number(n.node, "defaultHiddenActivation", 0.1)));
  return n.op("Expand", {value, shape});
}

// The gates of a step, [gates * cells], one after the other.
std::vector<std::string> gates_of(OnnxBuilder& step, const std::string& all, std::int64_t cells, std::int64_t gates) {
  std::vector<std::string> parts;
  for (std::int64_t g = 0; g < gates; ++g) parts.push_back(step.slice(all, g * cells, (g + 1) * cells, -1));
  return parts;
}

// Input, candidate, forget, output. Returns the cell and the output.
std::vector<std::string> lstm_step(OnnxBuilder& b, const std::string& gates, const std::string& cell_before,
                                   std::int64_t cells) {
  const auto g = gates_of(b, gates, cells, 4);
  const std::string kept = b.op("Mul", {b.op("Sigmoid", {g[2]}), cell_before});
  const std::string added = b.op("Mul", {b.op("Sigmoid", {g[0]}), b.op("Tanh", {g[1]})});
  const std::string cell = b.op("Add", {kept, added});
  return {cell, b.op("Mul", {b.op("Sigmoid", {g[3]}), b.op("Tanh", {cell})})};
}

std::string lstm(NodeExport& n) {
  if (const auto whole = recurrent_layer(n, "LSTM", {0, 3, 2, 1})) return *whole;
  const auto cells = static_cast<std::int64_t>(n.value.shape.elements());
  const std::string h = n.reshaped(n.in[1], {cells, 4 * cells});
  Scan scan(n.builder, n.node.name, graph::flag(n.node, "backwards", false));
  const auto output = scan.state(initial_state(n, 2, cells), {cells}),
             cell = scan.state(initial_state(n, 3, cells), {cells});
  const std::string x = scan.input(n.in[0].name, {4 * cells});
  OnnxBuilder& b = scan.body();
  const auto next = lstm_step(b, b.op("Add", {x, b.op("MatMul", {output, h})}), cell, cells);
  scan.next(0, next[1]), scan.next(1, next[0]);
  scan.output(next[1], n.node.name, {cells});
  scan.finish();
  return n.node.name;
}

// Update, reset, candidate.
std::string gru(NodeExport& n) {
  if (const auto whole = recurrent_layer(n, "GRU", {0, 1, 2})) return *whole;
  const auto cells = static_cast<std::int64_t>(n.value.shape.elements());
  const bool after = graph::flag(n.node, "resetAfter", false);
  const std::string h = n.reshaped(n.in[1], {cells, 3 * cells});
  const std::string bias = n.in.size() > 2 ? n.reshaped(n.in[2], {3 * cells}) : "";
  const std::string initial = initial_state(n, n.in.size(), cells);
  Scan scan(n.builder, n.node.name, graph::flag(n.node, "backwards", false));
  const std::string before = scan.state(initial, {cells}), x = scan.input(n.in[0].name, {3 * cells});
  OnnxBuilder& b = scan.body();
  std::string product = b.op("MatMul", {before, h});
  if (!bias.empty()) product = b.op("Add", {product, bias});
  const auto p = gates_of(b, x, cells, 3), s = gates_of(b, product, cells, 3);
  const std::string update = b.op("Sigmoid", {b.op("Add", {p[0], s[0]})}),
                    reset = b.op("Sigmoid", {b.op("Add", {p[1], s[1]})});
  const std::string from_state =
      after ? b.op("Mul", {reset, s[2]})
            : b.op("MatMul", {b.op("Mul", {reset, before}), b.slice(h, 2 * cells, 3 * cells, -1)});
  const std::string candidate = b.op("Tanh", {b.op("Add", {p[2], from_state})});
  const std::string kept = b.op("Mul", {update, before});
  const std::string fresh = b.op("Mul", {b.op("Sub", {b.scalar(1), update}), candidate});
  const std::string now = b.op("Add", {kept, fresh});
  scan.next(0, now);
  scan.output(now, n.node.name, {cells});
  scan.finish();
  return n.node.name;
}

}  // namespace

void list_recurrent_translations(NodeTranslations& all) { all.insert({{"LSTM", lstm}, {"GRU", gru}}); }

}  // namespace tutti::interchange
