// SPDX-License-Identifier: Apache-2.0
#include "backend/layer_steps.h"

#include <algorithm>
#include <utility>

#include "backend/recurrent_steps.h"

namespace tutti {

// Offsets in the workspace of a layer.
struct LayerSteps::Places {
  std::size_t total = 0, from_state, carried[2], reset, initial_gates, transposed, spare, state_gradient, work;
  bool has_spare, has_state_gradient, has_work;

  explicit Places(const RecurrentLayer& l)
      : has_spare(!l.projected || l.gates_gradient_apart),
        has_state_gradient(l.kind == CellKind::gru_reset_after && l.training),
        has_work(!l.work) {
    const std::size_t n = l.time.rows(), columns = l.time.columns(), c = l.cells, width = l.gates() * c;
    const auto take = [&](std::size_t count) { return std::exchange(total, total + count); };
    from_state = take(n * width);
    for (std::size_t& place : carried) place = take(n * c);
    reset = take(l.kind == CellKind::gru_reset_before ? n * c : 0);
    initial_gates = take(width);
    transposed = take(width * c);
    spare = take(has_spare ? columns * width : 0);
    state_gradient = take(has_state_gradient ? columns * width : 0);
    work = take(has_work ? columns * kept_of(l.kind) * c : 0);
  }
};

std::size_t LayerSteps::workspace(const RecurrentLayer& l) { return Places(l).total; }

LayerSteps::LayerSteps(Backend& backend, const RecurrentLayer& l) : backend_(backend), l_(l), c_(l.cells) {
  const Places p(l);
  from_state_ = l.workspace + p.from_state;
  for (std::size_t k = 0; k < 2; ++k) carried_[k] = l.workspace + p.carried[k];
  reset_gradient_ = l.workspace + p.reset;
  initial_gates_ = l.workspace + p.initial_gates;
  transposed_ = l.workspace + p.transposed;
  if (p.has_spare) spare_ = l.workspace + p.spare;
  if (p.has_state_gradient) state_gradient_ = l.workspace + p.state_gradient;
  kept_ = p.has_work ? l.workspace + p.work : l.work;
}

void LayerSteps::forward() {
  if (!l_.projected) project();
  if (!own_states()) backend_.gemm(state_product(1), l_.initial_output, l_.h, initial_gates_);
  const std::size_t steps = l_.time.steps();
  for (std::size_t s = 0; s < steps; ++s) forward_step(l_.backwards ? steps - 1 - s : s);
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
    backward_step(g, t);
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

std::array<LayerSteps::Part, 2> LayerSteps::parts(std::size_t t) const {
  const auto [step, going_on] = step_before(t);
  return {Part{false, 0, going_on, going_on > 0 ? l_.time.begin(step) : 0},
          Part{true, going_on, l_.time.width(t) - going_on, 0}};
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
    for (const Part& p : parts(t)) {
      if (p.count == 0) continue;
      const auto [at, step] = outputs_before(p);
      Layout l;
      l.rank = 2, l.size = {c_, p.count}, l.stride[0] = {1, step}, l.stride[3] = {1, c_};
      float* const place = to + (l_.time.begin(t) + p.first) * c_;
      if (step == c_)
        backend_.map(UnaryOp::copy, at, place, p.count * c_, Element::float32);
      else
        backend_.copy(l, at, place, false);
    }
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
