// SPDX-License-Identifier: Apache-2.0
// PastValue and FutureValue. In packed order the value k steps away is a run of columns of another block; the rest of a
// block is the initial state, or what the lane of a truncated sequence has kept.
#include <fmt/format.h>

#include <algorithm>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

class Delay : public Kernel {
 public:
  Delay(bool past, Instruction i)
      : Kernel(std::move(i)),
        past_(past),
        distance_(static_cast<std::size_t>(number(code.node, "timeStep", 1))),
        initial_(static_cast<float>(number(code.node, "defaultHiddenActivation", 0.1))),
        width_(code.out.elements) {
    reads_no_values();
  }

  // The initial state may come from a column of another axis, or get a gradient where a sequence begins.
  bool repeats(const Run& run) const override {
    if (code.in.size() > 1 && !one_row() && !own_axis()) return false;
    return run.fragments.empty() || write.size() < 2 || write[1] == Write::none;
  }
  void tell(Run& run, std::byte*) const override {
    if (carries(run)) return list_states(run);
    if (!run.fragments.empty()) need_whole_sequences(run);
  }
  void forward(Run& run) const override {
    each_step(run, [&](std::size_t t) { forward_step(run, t); });
    if (run.step == Run::all_steps) end_of_steps(run);
  }
  void backward(Run& run) const override {
    if (run.step == Run::all_steps)
      for (std::size_t k = 0; k < code.in.size(); ++k)
        if (write[k] != Write::none && !adds(run, k)) run.backend.fill(0, in_gradient(run, k), run.count(code.in[k]));
    each_step(run, [&](std::size_t t) { backward_step(run, t); });
  }
  void end_of_steps(Run& run) const override {
    if (carries(run)) run.states[code.out.tensor].save(run.backend, 0, in(run, 0));
  }

 private:
  bool carries(const Run& run) const { return past_ && !run.fragments.empty(); }
  const SequenceTable& table(const Run& run) const { return run.sequences[code.out.axis]; }

  template <class F>
  void each_step(const Run& run, const F& f) const {
    if (run.step != Run::all_steps) return f(run.step);
    for (std::size_t t = 0; t < table(run).steps(); ++t) f(t);
  }

  // Where block t begins, seen from where the pointers of the run stand.
  std::ptrdiff_t block(const Run& run, std::size_t t) const {
    const std::size_t here = run.step == Run::all_steps ? 0 : table(run).begin(run.step);
    return (static_cast<std::ptrdiff_t>(table(run).begin(t)) - static_cast<std::ptrdiff_t>(here)) *
           static_cast<std::ptrdiff_t>(width_);
  }

  // How many columns of block t come from another block, and from which.
  struct From {
    std::size_t step, columns;
  };
  From from(const Run& run, std::size_t t) const {
    if (past_) return t >= distance_ ? From{t - distance_, table(run).width(t)} : From{0, 0};
    return {t + distance_, table(run).width(t + distance_)};
  }

  void forward_step(Run& run, std::size_t t) const {
    const auto [step, columns] = from(run, t);
    float* y = out(run) + block(run, t);
    if (columns > 0) run.backend.map(UnaryOp::copy, in(run, 0) + block(run, step), y, columns * width_);
    const std::size_t rest = table(run).width(t) - columns;
    if (rest == 0) return;
    fill_initial(run, t, columns, rest, y + columns * width_);
    if (carries(run)) run.states[code.out.tensor].load(run.backend, 0, table(run).begin(t), rest, y + columns * width_);
  }

  void backward_step(Run& run, std::size_t t) const {
    const auto [step, columns] = from(run, t);
    const float* dy = out_gradient(run) + block(run, t);
    if (columns > 0 && write[0] != Write::none) {
      float* dx = in_gradient(run, 0) + block(run, step);
      run.backend.map_gradient(UnaryOp::copy, dy, dy, dy, dx, columns * width_, true);
    }
    const std::size_t rest = table(run).width(t) - columns;
    if (rest > 0 && write.size() > 1 && write[1] != Write::none) initial_gradient(run, t, columns, rest, dy);
  }

  // A row of the initial state under each of `rest` columns; a state without a column is one of the operand's own block
  // or, on another axis, the first step of the same sequence there.
  bool one_row() const { return !code.in[1].per_sample; }
  bool own_axis() const { return code.in[1].axis == code.out.axis; }
  Layout rows(const Operand& state, std::size_t count, bool gradient) const {
    Layout l;
    l.rank = 2;
    l.size = {width_, count};
    const std::size_t element = state.elements == 1 ? 0 : 1, row = state.per_sample ? state.elements : 0;
    l.stride[gradient ? 3 : 0] = {element, row};
    l.stride[gradient ? 0 : 3] = {1, width_};
    return l;
  }
  std::ptrdiff_t state_row(const Run& run, std::size_t t, std::size_t place) const {
    const Operand& state = code.in[1];
    if (one_row()) return 0;
    if (own_axis())
      return block(run, t) / static_cast<std::ptrdiff_t>(width_) * static_cast<std::ptrdiff_t>(state.elements) +
             static_cast<std::ptrdiff_t>(place * state.elements);
    const SequenceTable& other = run.sequences[state.axis];
    const std::size_t sequence = table(run).sequence(place);
    if (sequence >= other.sequences() || other.length(sequence) == 0)
      throw Error(fmt::format("{} '{}': its initial state has no step for sequence {} of the minibatch",
                              code.node.operation, code.node.name, sequence));
    return static_cast<std::ptrdiff_t>(other.column(sequence, 0) * state.elements);
  }
  void fill_initial(Run& run, std::size_t t, std::size_t first, std::size_t count, float* y) const {
    if (code.in.size() < 2) return run.backend.fill(initial_, y, count * width_);
    const Operand& state = code.in[1];
    if (one_row() || own_axis())
      return run.backend.copy(rows(state, count, false), in(run, 1) + state_row(run, t, first), y, false);
    for (std::size_t i = 0; i < count; ++i)
      run.backend.copy(rows(state, 1, false), in(run, 1) + state_row(run, t, first + i), y + i * width_, false);
  }
  void initial_gradient(Run& run, std::size_t t, std::size_t first, std::size_t count, const float* dy) const {
    const Operand& state = code.in[1];
    float* d = in_gradient(run, 1);
    if (run.fragments.empty() && (one_row() || own_axis()))
      return run.backend.copy(rows(state, count, true), dy + first * width_, d + state_row(run, t, first), true);
    for (std::size_t p = first; p < first + count; ++p)
      if (run.fragments.empty() || run.fragments[table(run).sequence(p)].begins)
        run.backend.copy(rows(state, 1, true), dy + p * width_, d + state_row(run, t, p), true);
  }

  void need_whole_sequences(const Run& run) const {
    for (std::size_t s = 0; s < run.fragments.size(); ++s)
      if (!run.fragments[s].ends && table(run).length(s) > 0)
        throw Error(
            fmt::format("FutureValue '{}' needs steps beyond the truncation; truncated sequences work only with "
                        "networks that depend on the past",
                        code.node.name));
  }
  // Truncated sequences: the first steps come from what their lanes have kept, the last ones are kept.
  void list_states(Run& run) const {
    CarriedState& state = run.states[code.out.tensor];
    state.shape(width_, distance_);
    state.list(run.backend, run.fragments, table(run), run.keeps_states);
  }

  bool past_;
  std::size_t distance_;
  float initial_;
  std::size_t width_;
};

}  // namespace

void list_delays(Makers& makers) {
  makers.insert({{"PastValue", make<Delay, true>}, {"FutureValue", make<Delay, false>}});
}

}  // namespace tutti::graph
