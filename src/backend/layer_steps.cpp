// SPDX-License-Identifier: Apache-2.0
#include "backend/layer_steps.h"

#include <algorithm>
#include <utility>

#include "backend/recurrent_steps.h"

namespace tutti {

LayerMemory::LayerMemory(const RecurrentLayer& l) {
  const std::size_t n = l.time.rows(), columns = l.time.columns(), c = l.cells, width = l.gates() * c;
  const auto take = [&](std::size_t count, bool wanted = true) -> float* {
    const std::size_t at = std::exchange(total_, total_ + (wanted ? count : 0));
    return wanted && l.workspace ? l.workspace + at : nullptr;
  };
  from_state_ = take(n * width);
  for (float*& carried : carried_) carried = take(n * c);
  reset_gradient_ = take(l.kind == CellKind::gru_reset_before ? n * c : 0);
  initial_gates_ = take(width);
  transposed_ = take(width * c);
  spare_ = take(columns * width, !l.projected || l.gates_gradient_apart);
  state_gradient_ = take(columns * width, l.kind == CellKind::gru_reset_after && l.training);
  kept_ = l.work ? l.work : take(columns * kept_of(l.kind) * c);
}

// Rows that continue come first.
template <class Use>
void LayerSteps::each_part(std::size_t t, const Use& use) const {
  const auto [step, going_on] = step_before(t);
  const std::size_t column = l_.time.begin(t), count = l_.time.width(t);
  if (going_on > 0) use(Part{false, 0, going_on, column, l_.time.begin(step)});
  if (count > going_on) use(Part{true, going_on, count - going_on, column + going_on, 0});
}

void LayerSteps::forward() {
  if (!l_.projected) project();
  if (!own_states()) backend_.gemm(state_product(1), l_.initial_output, l_.h, initial_gates_);
  const std::size_t steps = l_.time.steps();
  for (std::size_t s = 0; s < steps; ++s)
    each_part(l_.backwards ? steps - 1 - s : s, [&](const Part& p) {
      multiply(p);
      forward_part(p);
    });
  finish_forward();
}

void LayerSteps::backward(const RecurrentLayerGradient& g) {
  const std::size_t steps = l_.time.steps();
  gates_gradient_ = spare_ ? spare_ : g.projected.to;
  transpose_weight();
  std::size_t known = 0;  // rows for which the following step has left something
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t t = l_.backwards ? s : steps - 1 - s, n = l_.time.width(t);
    if (known < n) backend_.fill(0, carried_[0] + known * c_, (n - known) * c_);
    each_part(t, [&](const Part& p) { backward_part(g, p); });
    std::swap(carried_[0], carried_[1]);
    known = step_before(t).rows;
  }
  if (g.projected.to && spare_)
    backend_.map_gradient(UnaryOp::copy, spare_, spare_, spare_, g.projected.to, l_.time.columns() * width(),
                          g.projected.add, Element::float32);
  weight_gradients(g);
  if (!l_.projected) input_gradients(g);
}

LayerSteps::Before LayerSteps::step_before(std::size_t t) const {
  if (l_.backwards) return {t + 1, l_.time.width(t + 1)};
  return t == 0 ? Before{0, 0} : Before{t - 1, l_.time.width(t)};
}

LayerSteps::Rows LayerSteps::before(const Part& p, const float* initial, const float* columns) const {
  if (p.begins) return {initial + p.first * l_.initial_step, l_.initial_step};
  return {columns + p.column_before * c_, c_};
}

LayerSteps::Rows LayerSteps::from_state(const Part& p) const {
  if (p.begins && !own_states()) return {initial_gates_, 0};
  return {from_state_ + p.first * width(), width()};
}

void LayerSteps::multiply(const Part& p) const {
  if (p.begins && !own_states()) return;
  backend_.gemm(state_product(p.count), outputs_before(p).at, l_.h, from_state_ + p.first * width());
}

Gemm LayerSteps::input_product() const {
  Gemm g{.m = l_.time.columns(), .n = width(), .k = l_.inputs, .lda = l_.inputs, .ldb = width(), .ldc = width()};
  g.b_version = l_.w_version;
  return g;
}

void LayerSteps::project() const {
  if (l_.bias) return backend_.gemm_bias(input_product(), UnaryOp::copy, l_.x, l_.w, l_.bias, spare_, nullptr);
  backend_.gemm(input_product(), l_.x, l_.w, spare_);
}

// The weight is the same at every step, so a backend may keep it converted.
Gemm LayerSteps::state_product(std::size_t rows) const {
  Gemm g{.m = rows, .n = direct_gates() * c_, .k = c_, .lda = c_, .ldb = width(), .ldc = width()};
  g.b_version = l_.h_version;
  return g;
}

// A few rows at a time, so that what they share with their neighbours is still in cache. Products are faster with the
// transposed weight.
void LayerSteps::transpose_weight() const {
  constexpr std::size_t block = 8;
  for (std::size_t first = 0; first < c_; first += block) {
    Layout l;
    l.rank = 2, l.size = {std::min(block, c_ - first), width()}, l.stride[0] = {width(), 1}, l.stride[3] = {1, c_};
    backend_.copy(l, l_.h + first * width(), transposed_ + first, false);
  }
}

void LayerSteps::add_state_gradient(std::size_t rows, const float* gates, float* to) const {
  Gemm product{.m = rows, .n = c_, .k = direct_gates() * c_, .lda = width(), .ldb = c_, .ldc = c_, .accumulate = true};
  product.b_version = l_.h_version;
  backend_.gemm(product, gates, transposed_, to);
}

void LayerSteps::add_initial_gradient(const RecurrentLayerGradient& g, const Part& p, const float* gates) const {
  backend_.fill(0, from_state_, width());
  add_beginning_rows(backend_, g, p.first, p.count, gates, width(), from_state_);
  Gemm product{.transpose_b = true, .m = 1, .n = c_, .k = direct_gates() * c_, .lda = width(), .ldb = width()};
  product.ldc = c_, product.accumulate = true;
  backend_.gemm(product, from_state_, l_.h, g.initial_output);
}

void LayerSteps::take_states(float* to) const {
  for (std::size_t t = 0; t < l_.time.steps(); ++t)
    each_part(t, [&](const Part& p) {
      const Rows from = outputs_before(p);
      Layout l;
      l.rank = 2, l.size = {c_, p.count}, l.stride[0] = {1, from.step}, l.stride[3] = {1, c_};
      float* const place = to + p.column * c_;
      if (from.step == c_)
        backend_.map(UnaryOp::copy, from.at, place, p.count * c_, Element::float32);
      else
        backend_.copy(l, from.at, place, false);
    });
}

// dH = (states before)' dgates. The gradient of the result is not needed any more; the states are copied to its memory.
void LayerSteps::weight_gradients(const RecurrentLayerGradient& g) const {
  const std::size_t columns = l_.time.columns(), direct = direct_gates();
  float* const gradients = state_gradient_ ? state_gradient_ : gates_gradient_;
  if (g.state_bias.to)
    backend_.bias_activation_gradient(UnaryOp::copy, columns, width(), kept_, gradients, g.state_bias.to,
                                      g.state_bias.add);
  if (!g.h.to) return;
  take_states(g.output);
  Gemm product{.transpose_a = true, .m = c_, .n = direct * c_, .k = columns, .lda = c_, .ldb = width()};
  product.ldc = width(), product.accumulate = g.h.add;
  backend_.gemm(product, g.output, gradients, g.h.to);
  if (direct == l_.gates()) return;
  product.n = width() - direct * c_;
  backend_.gemm(product, beside(0), gradients + direct * c_, g.h.to + direct * c_);
}

void LayerSteps::input_gradients(const RecurrentLayerGradient& g) const {
  const std::size_t columns = l_.time.columns();
  if (g.bias.to)
    backend_.bias_activation_gradient(UnaryOp::copy, columns, width(), kept_, gates_gradient_, g.bias.to, g.bias.add);
  if (g.x.to) {
    Gemm product{.transpose_b = true, .m = columns, .n = l_.inputs, .k = width(), .lda = width(), .ldb = width()};
    product.ldc = l_.inputs, product.accumulate = g.x.add, product.b_version = l_.w_version;
    backend_.gemm(product, gates_gradient_, l_.w, g.x.to);
  }
  if (!g.w.to) return;
  Gemm product{.transpose_a = true, .m = l_.inputs, .n = width(), .k = columns, .lda = l_.inputs, .ldb = width()};
  product.ldc = width(), product.accumulate = g.w.add;
  backend_.gemm(product, l_.x, gates_gradient_, g.w.to);
}

}  // namespace tutti
