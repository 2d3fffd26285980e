// SPDX-License-Identifier: Apache-2.0
// The part of the gates that comes from the input is made for all steps at once; each step multiplies the state before
// it by H and runs the gates. Backward hands the gradient of the gates to the input's side, and H gets its own from one
// product over all steps.
#include "backend/lstm_steps.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

// What stands where in the room of a layer.
struct Places {
  std::size_t total = 0, from_state, dc[2], initial_gates, transposed, spare, work;
  bool has_spare, has_work;

  explicit Places(const LstmLayer& l) : has_spare(!l.projected || l.gates_gradient_apart), has_work(!l.work) {
    const std::size_t n = l.time.rows(), columns = l.time.columns(), c = l.cells;
    const auto take = [&](std::size_t count) { return std::exchange(total, total + count); };
    from_state = take(n * 4 * c);
    for (std::size_t& place : dc) place = take(n * c);
    initial_gates = take(4 * c);
    transposed = take(4 * c * c);
    spare = take(has_spare ? columns * 4 * c : 0);
    work = take(has_work ? columns * 5 * c : 0);
  }
};

class LstmSteps {
 public:
  LstmSteps(Backend& backend, const LstmLayer& l) : backend_(backend), l_(l), c_(l.cells) {
    const Places p(l);
    from_state_ = l.room + p.from_state;
    for (std::size_t k = 0; k < 2; ++k) dc_[k] = l.room + p.dc[k];
    initial_gates_ = l.room + p.initial_gates;
    transposed_ = l.room + p.transposed;
    if (p.has_spare) spare_ = l.room + p.spare;
    gates_ = p.has_work ? l.room + p.work : l.work;
    cells_ = gates_ + l.time.columns() * 4 * c_;
  }

  void forward() const {
    if (!l_.projected) project();
    if (!own_states()) backend_.gemm(product(1), l_.initial_output, l_.h, initial_gates_);
    const std::size_t steps = l_.time.steps();
    for (std::size_t s = 0; s < steps; ++s) forward_step(l_.backwards ? steps - 1 - s : s);
    if (l_.last_cell) keep_last_cells();
  }

  void backward(const LstmLayerGradient& g) const {
    const std::size_t steps = l_.time.steps();
    float* gates_gradient = spare_ ? spare_ : g.projected.to;
    transpose_weight();
    std::size_t known = 0;  // rows whose cell gradient the following step has left
    for (std::size_t s = 0; s < steps; ++s)
      known = backward_step(g, l_.backwards ? s : steps - 1 - s, gates_gradient, known);
    if (g.projected.to && spare_)
      backend_.map_gradient(UnaryOp::copy, spare_, spare_, spare_, g.projected.to, l_.time.columns() * 4 * c_,
                            g.projected.add);
    if (g.h.to) weight_gradient(g, gates_gradient);
    if (!l_.projected) input_gradients(g, gates_gradient);
  }

 private:
  bool own_states() const { return l_.initial_step != 0; }
  const float* projected() const { return l_.projected ? l_.projected : spare_; }

  // The step whose result step t goes on from, and for how many rows; the others begin at t.
  struct Before {
    std::size_t step, rows;
  };
  Before before(std::size_t t) const {
    if (l_.backwards) return {t + 1, l_.time.width(t + 1)};
    return t == 0 ? Before{0, 0} : Before{t - 1, l_.time.width(t)};
  }
  const float* initial_cell(std::size_t row) const { return l_.initial_cell + row * l_.initial_step; }

  Gemm input_product() const {
    Gemm g{.m = l_.time.columns(), .n = 4 * c_, .k = l_.inputs, .lda = l_.inputs, .ldb = 4 * c_, .ldc = 4 * c_};
    g.b_version = l_.w_version;
    return g;
  }
  void project() const {
    if (l_.bias) return backend_.gemm_bias(input_product(), UnaryOp::copy, l_.x, l_.w, l_.bias, spare_, nullptr);
    backend_.gemm(input_product(), l_.x, l_.w, spare_);
  }
  // The weight is the same at every step, so a backend may keep it converted.
  Gemm product(std::size_t rows) const {
    Gemm g{.m = rows, .n = 4 * c_, .k = c_, .lda = c_, .ldb = 4 * c_, .ldc = 4 * c_};
    g.b_version = l_.h_version;
    return g;
  }

  void forward_step(std::size_t t) const {
    const PackedSteps& time = l_.time;
    const auto [step, going_on] = before(t);
    const std::size_t n = time.width(t);
    if (going_on > 0) backend_.gemm(product(going_on), l_.output + time.begin(step) * c_, l_.h, from_state_);
    LstmRows rows;
    rows.cells = c_;
    const auto at = [&](std::size_t first, std::size_t count) {
      const std::size_t column = time.begin(t) + first;
      rows.rows = count;
      rows.projected = projected() + column * 4 * c_;
      rows.gates = gates_ + column * 4 * c_;
      rows.cell = cells_ + column * c_;
      rows.output = l_.output + column * c_;
    };
    if (going_on > 0) {
      at(0, going_on);
      rows.from_state = from_state_, rows.from_state_step = 4 * c_;
      rows.cell_before = cells_ + time.begin(step) * c_, rows.cell_before_step = c_;
      backend_.lstm_step(rows);
    }
    if (going_on == n) return;
    at(going_on, n - going_on);
    rows.from_state = initial_gates_, rows.from_state_step = 0;
    if (own_states()) {
      backend_.gemm(product(n - going_on), l_.initial_output + going_on * c_, l_.h, from_state_);
      rows.from_state = from_state_, rows.from_state_step = 4 * c_;
    }
    rows.cell_before = initial_cell(going_on), rows.cell_before_step = l_.initial_step;
    backend_.lstm_step(rows);
  }

  void keep_last_cells() const {
    const PackedSteps& time = l_.time;
    for (std::size_t t = 0; t < time.steps(); ++t) {
      const std::size_t longer = l_.backwards ? 0 : time.width(t + 1), ends = time.width(t) - longer;
      if (ends > 0)
        backend_.map(UnaryOp::copy, cells_ + (time.begin(t) + longer) * c_, l_.last_cell + longer * c_, ends * c_);
      if (l_.backwards) return;
    }
  }

  // A few rows at a time, so that what they share with their neighbours is still in the cache. Products are faster from
  // the transposed weight.
  void transpose_weight() const {
    constexpr std::size_t block = 8;
    for (std::size_t first = 0; first < c_; first += block) {
      Layout l;
      l.rank = 2, l.size = {std::min(block, c_ - first), 4 * c_}, l.stride[0] = {4 * c_, 1}, l.stride[3] = {1, c_};
      backend_.copy(l, l_.h + first * 4 * c_, transposed_ + first, false);
    }
  }

  // Returns how many rows of dc_[0] are good for the step before.
  std::size_t backward_step(const LstmLayerGradient& g, std::size_t t, float* gates_gradient, std::size_t known) const {
    const PackedSteps& time = l_.time;
    const auto [step, going_on] = before(t);
    const std::size_t n = time.width(t), column = time.begin(t);
    if (known < n) backend_.fill(0, dc_[0] + known * c_, (n - known) * c_);
    LstmRowsGradient rows;
    rows.cells = c_;
    const auto part = [&](std::size_t first, std::size_t count, const float* cell_before, std::size_t cell_step) {
      if (count == 0) return;
      rows.rows = count;
      rows.gates = gates_ + (column + first) * 4 * c_;
      rows.cell = cells_ + (column + first) * c_;
      rows.cell_before = cell_before, rows.cell_before_step = cell_step;
      rows.output_gradient = g.output + (column + first) * c_;
      rows.cell_gradient = dc_[0] + first * c_;
      rows.gates_gradient = gates_gradient + (column + first) * 4 * c_;
      rows.cell_before_gradient = dc_[1] + first * c_;
      backend_.lstm_step_gradient(rows);
    };
    part(0, going_on, cells_ + time.begin(step) * c_, c_);
    part(going_on, n - going_on, initial_cell(going_on), l_.initial_step);
    if (going_on > 0) {
      Gemm product{.m = going_on, .n = c_, .k = 4 * c_, .lda = 4 * c_, .ldb = c_, .ldc = c_, .accumulate = true};
      product.b_version = l_.h_version;
      backend_.gemm(product, gates_gradient + column * 4 * c_, transposed_, g.output + time.begin(step) * c_);
    }
    if (going_on < n)
      initial_gradient(g, going_on, n - going_on, gates_gradient + (column + going_on) * 4 * c_,
                       dc_[1] + going_on * c_);
    if (going_on > 0) backend_.map(UnaryOp::copy, dc_[1], dc_[0], going_on * c_);
    return going_on;
  }

  // A trained initial state gets the sum over the sequences that began from it.
  void initial_gradient(const LstmLayerGradient& g, std::size_t first, std::size_t count, const float* dgates,
                        const float* dc) const {
    if (g.initial_cell) add_beginning_rows(backend_, g, first, count, dc, c_, g.initial_cell);
    if (!g.initial_output) return;
    backend_.fill(0, from_state_, 4 * c_);
    add_beginning_rows(backend_, g, first, count, dgates, 4 * c_, from_state_);
    Gemm product{.transpose_b = true, .m = 1, .n = c_, .k = 4 * c_, .lda = 4 * c_, .ldb = 4 * c_, .ldc = c_};
    product.accumulate = true;
    backend_.gemm(product, from_state_, l_.h, g.initial_output);
  }

  // dH = (states before)' dgates. The gradient of the result is not needed any more; its memory takes the states.
  void weight_gradient(const LstmLayerGradient& g, const float* gates_gradient) const {
    const PackedSteps& time = l_.time;
    float* states = g.output;
    for (std::size_t t = 0; t < time.steps(); ++t) {
      const auto [step, going_on] = before(t);
      float* to = states + time.begin(t) * c_;
      if (going_on > 0) backend_.map(UnaryOp::copy, l_.output + time.begin(step) * c_, to, going_on * c_);
      const std::size_t begin = time.width(t) - going_on;
      if (begin == 0) continue;
      if (own_states()) {
        backend_.map(UnaryOp::copy, l_.initial_output + going_on * c_, to + going_on * c_, begin * c_);
        continue;
      }
      Layout l;
      l.rank = 2, l.size = {c_, begin}, l.stride[0] = {1, 0}, l.stride[3] = {1, c_};
      backend_.copy(l, l_.initial_output, to + going_on * c_, false);
    }
    Gemm product{.transpose_a = true, .m = c_, .n = 4 * c_, .k = time.columns(), .lda = c_, .ldb = 4 * c_};
    product.ldc = 4 * c_, product.accumulate = g.h.add;
    backend_.gemm(product, states, gates_gradient, g.h.to);
  }

  void input_gradients(const LstmLayerGradient& g, float* gates_gradient) const {
    const std::size_t columns = l_.time.columns();
    if (g.bias.to)
      backend_.bias_activation_gradient(UnaryOp::copy, columns, 4 * c_, gates_, gates_gradient, g.bias.to, g.bias.add);
    if (g.x.to) {
      Gemm product{.transpose_b = true, .m = columns, .n = l_.inputs, .k = 4 * c_, .lda = 4 * c_, .ldb = 4 * c_};
      product.ldc = l_.inputs, product.accumulate = g.x.add, product.b_version = l_.w_version;
      backend_.gemm(product, gates_gradient, l_.w, g.x.to);
    }
    if (!g.w.to) return;
    Gemm product{.transpose_a = true, .m = l_.inputs, .n = 4 * c_, .k = columns, .lda = l_.inputs, .ldb = 4 * c_};
    product.ldc = 4 * c_, product.accumulate = g.w.add;
    backend_.gemm(product, l_.x, gates_gradient, g.w.to);
  }

  Backend& backend_;
  const LstmLayer& l_;
  const std::size_t c_;
  float* from_state_;       // rows x 4c: H h'
  float* dc_[2];            // rows x c
  float* initial_gates_;    // one row: H h of the common initial state
  float* transposed_;       // H', for all steps of backward
  float* spare_ = nullptr;  // columns x 4c: what comes from the input, later the gradient of the gates
  float *gates_, *cells_;   // activated
};

}  // namespace

std::size_t lstm_steps_room(const LstmLayer& l) { return Places(l).total; }

void lstm_by_steps(Backend& backend, const LstmLayer& l) { LstmSteps(backend, l).forward(); }

void lstm_gradient_by_steps(Backend& backend, const LstmLayer& l, const LstmLayerGradient& g) {
  LstmSteps(backend, l).backward(g);
}

void add_beginning_rows(Backend& backend, const LstmLayerGradient& g, std::size_t first, std::size_t count,
                        const float* rows, std::size_t width, float* sum) {
  const auto add = [&](std::size_t row, std::size_t how_many) {
    Layout l;
    l.rank = 2, l.size = {width, how_many}, l.stride[0] = {1, width}, l.stride[3] = {1, 0};
    backend.copy(l, rows + row * width, sum, true);
  };
  if (g.begins.empty()) return add(0, count);
  for (std::size_t row = 0; row < count; ++row)
    if (g.begins[first + row]) add(row, 1);
}

}  // namespace tutti
