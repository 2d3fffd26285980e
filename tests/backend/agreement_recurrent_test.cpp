// SPDX-License-Identifier: Apache-2.0
// Recurrent layers on a GPU against the CPU: over sequences of all kinds of lengths, with every gradient.
#include "agreement.h"

#include <algorithm>

namespace tutti::agreement_recurrent_test {
namespace {

struct Shape {
  std::size_t inputs, cells;
  std::vector<std::size_t> lengths;  // the longest first; empty sequences have no column and no row

  std::vector<std::size_t> begins() const {
    std::vector<std::size_t> b(1, 0);
    for (std::size_t t = 0; !lengths.empty() && t < lengths[0]; ++t)
      b.push_back(b.back() + static_cast<std::size_t>(std::count_if(lengths.begin(), lengths.end(),
                                                                    [t](std::size_t length) { return length > t; })));
    return b;
  }
};

// One step and many, one sequence and many; so few steps that going step by step is the faster way.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{3, 1, {5}},           {19, 20, {12, 12, 12}}, {33, 40, {9, 7, 7, 2, 1}},
                                         {5, 13, {11, 11}},     {2, 6, {1, 1, 1, 1}},   {40, 33, {2, 1}},
                                         {1, 4, {60, 3, 0, 0}}, {2, 36, {12, 12}},      {4, 4, {0}}};
  return all;
}

enum class Input { projected, taken, taken_with_bias };
constexpr CellKind kinds[] = {CellKind::lstm, CellKind::gru_reset_before, CellKind::gru_reset_after};

// The layer and its gradient with operands of its own; everything that it writes is a result.
void layer(Operands& d, CellKind kind, const Shape& shape, Input input, bool backwards, bool own_states, bool add) {
  const std::vector<std::size_t> begins = shape.begins();
  const std::size_t c = shape.cells, gates = gates_of(kind) * c;
  const bool has_cell = kind == CellKind::lstm;
  RecurrentLayer l;
  l.kind = kind, l.time = {begins}, l.backwards = backwards, l.training = true, l.cells = c;
  const std::size_t columns = l.time.columns(), rows = l.time.rows(), x = columns * shape.inputs;
  float* in = d.put(random(input == Input::projected ? columns * gates : x, 1));
  (input == Input::projected ? l.projected : l.x) = in;
  if (input != Input::projected) l.inputs = shape.inputs, l.w = d.put(random(shape.inputs * gates, 2, -0.5f, 0.5f));
  if (input == Input::taken_with_bias) l.bias = d.put(random(gates, 3));
  l.h = d.put(random(c * gates, 4, -0.5f, 0.5f));
  l.initial_step = own_states ? c : 0;
  const std::size_t states = own_states ? rows * c : c;
  l.initial_output = d.put(random(states, 5));
  if (has_cell) l.initial_cell = d.put(random(states, 6)), l.last_cell = d.put(Floats(rows * c));
  if (kind == CellKind::gru_reset_after && input != Input::taken) l.state_bias = d.put(random(gates, 11));
  l.output = d.put(Floats(columns * c));
  l.gates_gradient_apart = input == Input::projected && add;
  if (input == Input::projected) l.work = d.put(Floats(columns * kept_of(kind) * c));
  l.workspace = d.put(Floats(d.backend.recurrent_layer_workspace(l)));
  d.backend.describe_recurrent_layer(l);
  d.backend.recurrent_layer(l);
  d.take(l.output, columns * c);
  if (has_cell) d.take(l.last_cell, rows * c);

  RecurrentLayerGradient g;
  std::vector<std::int32_t> begin_here(rows, 1);
  if (own_states && rows > 0) begin_here[rows / 2] = 0, g.begins = begin_here;
  g.output = d.put(random(columns * c, 7));
  const auto place = [&](std::size_t n) { return GradientPlace{d.put(random(n, 8)), add}; };
  (input == Input::projected ? g.projected : g.x) = place(input == Input::projected ? columns * gates : x);
  if (input != Input::projected) g.w = place(shape.inputs * gates);
  if (input == Input::taken_with_bias) g.bias = place(gates);
  g.h = place(c * gates);
  if (l.state_bias) g.state_bias = place(gates);
  g.initial_output = d.put(random(c, 9));
  if (has_cell) g.initial_cell = d.put(random(c, 10));
  if (columns > 0) d.backend.recurrent_layer_gradient(l, g);
  if (g.projected.to) d.take(g.projected.to, columns * gates);
  if (g.x.to) d.take(g.x.to, x), d.take(g.w.to, shape.inputs * gates);
  if (g.bias.to) d.take(g.bias.to, gates);
  if (g.state_bias.to) d.take(g.state_bias.to, gates);
  d.take(g.h.to, c * gates), d.take(g.initial_output, c);
  if (has_cell) d.take(g.initial_cell, c);
}

// Of the GRUs the ways that networks go: one is taken in with its product, the other never is.
TEST_F(Agreement, RecurrentLayers) {
  for (const CellKind kind : kinds)
    for (const Shape& shape : shapes())
      for (const Input input : {Input::projected, Input::taken, Input::taken_with_bias}) {
        if (kind == CellKind::gru_reset_before && input != Input::projected) continue;
        if (kind == CellKind::gru_reset_after && input != Input::taken_with_bias) continue;
        for (const bool backwards : {false, true})
          for (const bool own_states : {false, true})
            compare(1e-4,
                    [&](Operands& d) { layer(d, kind, shape, input, backwards, own_states, own_states != backwards); });
      }
}

// Nothing but the result, and gradients of which only some are wanted.
void layer_in_part(Operands& d, CellKind kind, bool backwards) {
  const Shape shape{7, 10, {8, 8, 3}};
  const std::vector<std::size_t> begins = shape.begins();
  const std::size_t gates = 10 * gates_of(kind);
  RecurrentLayer l;
  l.kind = kind, l.time = {begins}, l.backwards = backwards, l.cells = 10, l.inputs = 7;
  l.x = d.put(random(19 * 7, 1)), l.w = d.put(random(7 * gates, 2)), l.h = d.put(random(10 * gates, 3));
  l.initial_output = d.put(random(10, 4));
  if (kind == CellKind::lstm) l.initial_cell = l.initial_output;
  if (kind == CellKind::gru_reset_after) l.state_bias = d.put(random(gates, 5));
  l.output = d.put(Floats(190));
  const std::vector<std::size_t> counts = {0, 19 * 7, 7 * gates, 10 * gates, l.state_bias ? gates : 0};
  for (std::size_t wanted = 0; wanted < counts.size(); ++wanted) {
    l.training = counts[wanted] > 0;
    l.workspace = d.put(Floats(d.backend.recurrent_layer_workspace(l)));
    d.backend.describe_recurrent_layer(l);
    d.backend.recurrent_layer(l);
    d.take(l.output, 190);
    if (!l.training) continue;
    RecurrentLayerGradient g;
    g.output = d.put(random(190, 5));
    GradientPlace* const places[] = {nullptr, &g.x, &g.w, &g.h, &g.state_bias};
    places[wanted]->to = d.put(random(counts[wanted], 6));
    d.backend.recurrent_layer_gradient(l, g);
    d.take(places[wanted]->to, counts[wanted]);
  }
}

TEST_F(Agreement, RecurrentLayersInPart) {
  for (const CellKind kind : kinds)
    for (const bool backwards : {false, true}) compare(1e-4, [&](Operands& d) { layer_in_part(d, kind, backwards); });
}

}  // namespace
}  // namespace tutti::agreement_recurrent_test
