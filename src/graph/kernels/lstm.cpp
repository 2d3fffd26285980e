// SPDX-License-Identifier: Apache-2.0
// An LSTM as one operation. The part of the gates that comes from the input, W x + b, is made outside for all steps at
// once; here each step multiplies the state before it by H and runs the gates. Backward hands the gradient of the gates
// to the input's side, and H gets its own from one product over all steps.
#include <fmt/format.h>

#include <algorithm>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

class Lstm : public Kernel {
 public:
  explicit Lstm(Instruction i)
      : Kernel(std::move(i)),
        backwards_(flag(code.node, "backwards", false)),
        initial_(static_cast<float>(number(code.node, "defaultHiddenActivation", 0.1))),
        c_(code.out.elements) {
    reads_input[0] = false;
    if (code.in.size() > 2) reads_input[2] = reads_input[3] = true;
    work_per_column = 5 * c_;  // activated gates, then cells
  }

  // A trained initial state gets a gradient where a sequence begins.
  bool repeats(const Run& run) const override { return run.fragments.empty() || code.in.size() < 3; }
  void tell(Run& run, std::byte*) const override {
    if (own_states(run)) list_states(run);
  }
  void forward(Run& run) const override {
    const SequenceTable& table = run.sequences[code.out.axis];
    prepare(run);
    const std::size_t steps = table.steps();
    for (std::size_t s = 0; s < steps; ++s) forward_step(run, backwards_ ? steps - 1 - s : s);
    if (own_states(run)) keep_states(run);
  }

  void backward(Run& run) const override {
    const SequenceTable& table = run.sequences[code.out.axis];
    const std::size_t steps = table.steps();
    float* gates_gradient = write[0] == Write::set ? in_gradient(run, 0) : room(run).spare;
    clear_state_gradients(run);
    std::size_t known = 0;  // columns whose cell gradient the following step has left
    transpose_weight(run);
    for (std::size_t s = 0; s < steps; ++s)
      known = backward_step(run, backwards_ ? s : steps - 1 - s, gates_gradient, known);
    if (write[0] == Write::add)
      run.backend.map_gradient(UnaryOp::copy, gates_gradient, gates_gradient, gates_gradient, in_gradient(run, 0),
                               run.count(code.in[0]), true);
    if (write[1] != Write::none) weight_gradient(run, gates_gradient);
  }

 private:
  // Memory beside the work area: a block of the widest step for each of these, the initial state first.
  struct Room {
    float *h, *c;          // initial state: rows x c, or one row for all
    float* from_state;     // rows x 4c: H h'
    float* initial_gates;  // one row: H h of the common initial state
    float* dc[2];          // rows x c
    float* transposed;     // H', for all steps of backward: products are faster from it
    float* spare;          // columns x 4c where the gradient of the gates has no place of its own
  };
  std::size_t rows(const Run& run) const { return run.sequences[code.out.axis].width(0); }
  bool own_states(const Run& run) const { return !run.fragments.empty(); }

  Room room(Run& run) const {
    const std::size_t n = rows(run), spare = write[0] == Write::set ? 0 : run.rows(code.out) * 4 * c_;
    const std::size_t wanted = n * c_ * 8 + 4 * c_ + 4 * c_ * c_ + spare;
    Room r{};
    r.h = run.rooms[code.out.tensor].room(run.backend, wanted);
    r.c = r.h + n * c_;
    r.from_state = r.c + n * c_;
    r.dc[0] = r.from_state + n * 4 * c_;
    r.dc[1] = r.dc[0] + n * c_;
    r.initial_gates = r.dc[1] + n * c_;
    r.transposed = r.initial_gates + 4 * c_;
    r.spare = r.transposed + 4 * c_ * c_;
    return r;
  }

  float* gates(const Run& run) const { return run.work[code.out.tensor]; }
  float* cells(const Run& run) const { return gates(run) + run.rows(code.out) * 4 * c_; }

  // The step whose result step t goes on from, and for how many rows; the others begin at t.
  struct Before {
    std::size_t step, rows;
  };
  Before before(const SequenceTable& table, std::size_t t) const {
    if (backwards_) return {t + 1, table.width(t + 1)};
    return t == 0 ? Before{0, 0} : Before{t - 1, table.width(t)};
  }

  // State rows of the sequences that begin here: one row for all, or each its own where lanes have kept something.
  std::size_t state_step(const Run& run) const { return own_states(run) ? c_ : 0; }

  void prepare(Run& run) const {
    const Room r = room(run);
    const std::size_t count = own_states(run) ? rows(run) : 1;
    for (std::size_t k = 0; k < 2; ++k) {
      float* state = k == 0 ? r.h : r.c;
      for (std::size_t row = 0; row < count; ++row)
        if (code.in.size() > 2)
          run.backend.map(UnaryOp::copy, in(run, 2 + k), state + row * c_, c_);
        else
          run.backend.fill(initial_, state + row * c_, c_);
    }
    if (own_states(run)) return load_states(run, r);
    run.backend.gemm(product(run, 1), r.h, in(run, 1), r.initial_gates);
  }
  // The weight is the same at every step, so a backend may keep it converted.
  Gemm product(const Run& run, std::size_t rows) const {
    Gemm g{.m = rows, .n = 4 * c_, .k = c_, .lda = c_, .ldb = 4 * c_, .ldc = 4 * c_};
    g.b_version = run.version(code.in[1]);
    return g;
  }

  void forward_step(Run& run, std::size_t t) const {
    const SequenceTable& table = run.sequences[code.out.axis];
    const Room r = room(run);
    const auto [step, going_on] = before(table, t);
    const std::size_t n = table.width(t);
    if (going_on > 0)
      run.backend.gemm(product(run, going_on), out(run) + table.begin(step) * c_, in(run, 1), r.from_state);
    LstmRows rows;
    rows.cells = c_;
    const auto at = [&](std::size_t first, std::size_t count) {
      const std::size_t column = table.begin(t) + first;
      rows.rows = count;
      rows.projected = in(run, 0) + column * 4 * c_;
      rows.gates = gates(run) + column * 4 * c_;
      rows.cell = cells(run) + column * c_;
      rows.output = out(run) + column * c_;
    };
    if (going_on > 0) {
      at(0, going_on);
      rows.from_state = r.from_state, rows.from_state_step = 4 * c_;
      rows.cell_before = cells(run) + table.begin(step) * c_, rows.cell_before_step = c_;
      run.backend.lstm_step(rows);
    }
    if (going_on == n) return;
    at(going_on, n - going_on);
    rows.from_state = r.initial_gates, rows.from_state_step = 0;
    if (own_states(run)) {
      run.backend.gemm(product(run, n - going_on), r.h + going_on * c_, in(run, 1), r.from_state);
      rows.from_state = r.from_state, rows.from_state_step = 4 * c_;
    }
    rows.cell_before = r.c + going_on * state_step(run), rows.cell_before_step = state_step(run);
    run.backend.lstm_step(rows);
  }

  // A few rows at a time, so that what they share with their neighbours is still in the cache.
  void transpose_weight(Run& run) const {
    constexpr std::size_t block = 8;
    const Room r = room(run);
    for (std::size_t first = 0; first < c_; first += block) {
      Layout l;
      l.rank = 2, l.size = {std::min(block, c_ - first), 4 * c_}, l.stride[0] = {4 * c_, 1}, l.stride[3] = {1, c_};
      run.backend.copy(l, in(run, 1) + first * 4 * c_, r.transposed + first, false);
    }
  }

  // Returns how many rows of dc[0] are good for the step before.
  std::size_t backward_step(Run& run, std::size_t t, float* gates_gradient, std::size_t known) const {
    const SequenceTable& table = run.sequences[code.out.axis];
    const Room r = room(run);
    const auto [step, going_on] = before(table, t);
    const std::size_t n = table.width(t), column = table.begin(t);
    if (known < n) run.backend.fill(0, r.dc[0] + known * c_, (n - known) * c_);
    LstmRowsGradient rows;
    rows.cells = c_;
    const auto part = [&](std::size_t first, std::size_t count, const float* cell_before, std::size_t cell_step) {
      if (count == 0) return;
      rows.rows = count;
      rows.gates = gates(run) + (column + first) * 4 * c_;
      rows.cell = cells(run) + (column + first) * c_;
      rows.cell_before = cell_before, rows.cell_before_step = cell_step;
      rows.output_gradient = out_gradient(run) + (column + first) * c_;
      rows.cell_gradient = r.dc[0] + first * c_;
      rows.gates_gradient = gates_gradient + (column + first) * 4 * c_;
      rows.cell_before_gradient = r.dc[1] + first * c_;
      run.backend.lstm_step_gradient(rows);
    };
    part(0, going_on, cells(run) + table.begin(step) * c_, c_);
    part(going_on, n - going_on, r.c + going_on * state_step(run), state_step(run));
    if (going_on > 0) {
      Gemm g{.m = going_on, .n = c_, .k = 4 * c_, .lda = 4 * c_, .ldb = c_, .ldc = c_, .accumulate = true};
      g.b_version = run.version(code.in[1]);
      run.backend.gemm(g, gates_gradient + column * 4 * c_, r.transposed, out_gradient(run) + table.begin(step) * c_);
    }
    if (going_on < n)
      initial_gradient(run, going_on, n - going_on, gates_gradient + (column + going_on) * 4 * c_,
                       r.dc[1] + going_on * c_);
    if (going_on > 0) run.backend.map(UnaryOp::copy, r.dc[1], r.dc[0], going_on * c_);
    return going_on;
  }

  // A trained initial state gets the sum over the sequences that began from it.
  void clear_state_gradients(Run& run) const {
    for (std::size_t k = 2; k < code.in.size(); ++k)
      if (write[k] != Write::none && !adds(run, k)) run.backend.fill(0, in_gradient(run, k), c_);
  }
  void initial_gradient(Run& run, std::size_t first, std::size_t count, const float* dgates, const float* dc) const {
    const SequenceTable& table = run.sequences[code.out.axis];
    if (code.in.size() < 3) return;
    const auto add_rows = [&](const float* x, std::size_t rows, std::size_t width, float* sum) {
      Layout l;
      l.rank = 2, l.size = {width, rows}, l.stride[0] = {1, width}, l.stride[3] = {1, 0};
      run.backend.copy(l, x, sum, true);
    };
    float* sum = room(run).from_state;
    run.backend.fill(0, sum, 4 * c_);
    const auto add = [&](std::size_t row, std::size_t rows) {
      add_rows(dgates + row * 4 * c_, rows, 4 * c_, sum);
      if (write[3] != Write::none) add_rows(dc + row * c_, rows, c_, in_gradient(run, 3));
    };
    if (!own_states(run)) add(0, count);
    for (std::size_t row = 0; own_states(run) && row < count; ++row)
      if (run.fragments[table.sequence(first + row)].begins) add(row, 1);
    if (write[2] == Write::none) return;
    Gemm g{.transpose_b = true, .m = 1, .n = c_, .k = 4 * c_, .lda = 4 * c_, .ldb = 4 * c_, .ldc = c_};
    g.accumulate = true;
    run.backend.gemm(g, sum, in(run, 1), in_gradient(run, 2));
  }

  // dH = (states before)' dgates. The gradient of the result is not needed any more; its memory takes the states.
  void weight_gradient(Run& run, const float* gates_gradient) const {
    const SequenceTable& table = run.sequences[code.out.axis];
    const Room r = room(run);
    float* states = out_gradient(run);
    for (std::size_t t = 0; t < table.steps(); ++t) {
      const auto [step, going_on] = before(table, t);
      float* to = states + table.begin(t) * c_;
      if (going_on > 0) run.backend.map(UnaryOp::copy, out(run) + table.begin(step) * c_, to, going_on * c_);
      if (own_states(run)) {
        if (table.width(t) > going_on)
          run.backend.map(UnaryOp::copy, r.h + going_on * c_, to + going_on * c_, (table.width(t) - going_on) * c_);
        continue;
      }
      Layout l;
      l.rank = 2, l.size = {c_, table.width(t) - going_on}, l.stride[0] = {1, 0}, l.stride[3] = {1, c_};
      if (l.size[1] > 0) run.backend.copy(l, r.h, to + going_on * c_, false);
    }
    Gemm g{.transpose_a = true, .m = c_, .n = 4 * c_, .k = run.rows(code.out), .lda = c_, .ldb = 4 * c_, .ldc = 4 * c_};
    g.accumulate = adds(run, 1);
    run.backend.gemm(g, states, gates_gradient, in_gradient(run, 1));
  }

  // Truncated sequences: output and cell of the last step, for each lane.
  void list_states(Run& run) const {
    const SequenceTable& table = run.sequences[code.out.axis];
    CarriedState& kept = run.carried[code.out.tensor];
    kept.shape(c_, 1, 2);
    kept.begin_lists(run.backend, run.fragments);
    for (std::size_t p = 0; p < rows(run); ++p) {
      const Fragment& fragment = run.fragments[table.sequence(p)];
      if (backwards_ && !(fragment.begins && fragment.ends))
        throw Error(
            fmt::format("LSTM '{}' runs backwards and needs the steps that truncation has cut off; only networks "
                        "that look into the past can be trained with truncated sequences",
                        code.node.name));
      kept.take_up(fragment, 1);
    }
    for (std::size_t s = 0; run.keeps_states && s < run.fragments.size(); ++s) {
      const Fragment& fragment = run.fragments[s];
      kept.go_on(fragment);
      if (fragment.ends || table.length(s) == 0) continue;
      const std::size_t last = table.column(s, table.length(s) - 1);
      kept.leave(fragment, {last, last});
    }
    kept.send_lists(run.backend);
  }
  void load_states(Run& run, const Room& r) const {
    const CarriedState& kept = run.carried[code.out.tensor];
    kept.load(run.backend, 0, 0, rows(run), r.h);
    kept.load(run.backend, 1, 0, rows(run), r.c);
  }
  void keep_states(Run& run) const {
    const CarriedState& kept = run.carried[code.out.tensor];
    kept.save(run.backend, 0, out(run));
    kept.save(run.backend, 1, cells(run));
  }

  bool backwards_;
  float initial_;
  std::size_t c_;
};

}  // namespace

std::unique_ptr<Kernel> make_lstm(Instruction i) { return std::make_unique<Lstm>(std::move(i)); }

}  // namespace tutti::graph
