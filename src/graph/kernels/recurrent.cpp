// SPDX-License-Identifier: Apache-2.0
// An LSTM or GRU as one operation; the steps are the backend's business. Here are the states that sequences begin from,
// what truncated ones carry on, and where gradients go. The part of the gates that comes from the input, W x + b, is
// input 0, or is made within: then input 0 is x, and b and W stand behind the others (fuse.cpp). Input 1 is
// H; then come the initial states of an LSTM that are trained, or what a GRU adds to the product with H.
#include <fmt/format.h>

#include <algorithm>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

class Recurrent : public Kernel {
 public:
  Recurrent(bool gru, Instruction i)
      : Kernel(std::move(i)),
        kind_(!gru                                   ? CellKind::lstm
              : flag(code.node, "resetAfter", false) ? CellKind::gru_reset_after
                                                     : CellKind::gru_reset_before),
        backwards_(flag(code.node, "backwards", false)),
        takes_input_(flag(code.node, "takesInput", false)),
        initial_(static_cast<float>(number(code.node, "defaultHiddenActivation", 0.1))),
        c_(code.out.elements) {
    const std::size_t n = code.in.size(), outside = takes_input_ ? (flag(code.node, "bias", false) ? 2 : 1) : 0;
    if (takes_input_) w_ = n - 1, bias_ = outside == 2 ? n - 2 : n;
    (gru ? has_state_bias_ : trained_state_) = n - outside > 2;
    reads_input[0] = takes_input_;
    if (!takes_input_) work_per_column = kept_of(kind_) * c_;
  }

  // A trained initial state gets a gradient where a sequence begins.
  bool repeats(const Run& run) const override { return run.fragments.empty() || !trained_state_; }
  void tell(Run& run, std::byte*) const override {
    if (own_states(run)) list_states(run);
    const RecurrentLayer l = layer(run);
    const std::size_t floats = states(l).total + run.backend.recurrent_layer_workspace(l);
    run.workspaces[code.out.tensor].reserve(run.backend, floats);
    run.backend.describe_recurrent_layer(placed_layer(run));
  }
  void forward(Run& run) const override {
    const RecurrentLayer l = placed_layer(run);
    prepare(run);
    run.backend.recurrent_layer(l);
    if (own_states(run)) keep_states(run, l);
  }

  void backward(Run& run) const override {
    RecurrentLayerGradient g;
    g.output = out_gradient(run);
    (takes_input_ ? g.x : g.projected) = gradient(run, 0);
    g.h = gradient(run, 1);
    if (takes_input_) g.w = gradient(run, w_);
    if (bias_ < code.in.size()) g.bias = gradient(run, bias_);
    if (has_state_bias_) g.state_bias = gradient(run, 2);
    if (trained_state_) g.initial_output = cleared_gradient(run, 2), g.initial_cell = cleared_gradient(run, 3);
    if (own_states(run)) g.begins = beginnings(run);
    run.backend.recurrent_layer_gradient(placed_layer(run), g);
  }

 private:
  // Memory in front of the backend's: what the sequences begin from, and the last cells of truncated ones.
  struct States {
    std::size_t output, cell, last_cell, total;
  };
  static States states(const RecurrentLayer& l) {
    constexpr std::size_t aligned = 64;
    const std::size_t rows = std::max<std::size_t>(l.time.rows(), 1);
    const std::size_t block = (rows * l.cells + aligned - 1) / aligned * aligned;
    if (l.kind != CellKind::lstm) return {0, block, block, block};
    return {0, block, 2 * block, 3 * block};
  }
  bool has_cell() const { return kind_ == CellKind::lstm; }
  std::size_t values() const { return has_cell() ? 2 : 1; }  // of a state
  bool own_states(const Run& run) const { return !run.fragments.empty(); }

  RecurrentLayer layer(const Run& run) const {
    RecurrentLayer l;
    l.kind = kind_;
    l.time = run.sequences[code.out.axis].packed();
    l.backwards = backwards_, l.cells = c_;
    l.training = std::any_of(write.begin(), write.end(), [](Write w) { return w != Write::none; });
    (takes_input_ ? l.x : l.projected) = in(run, 0);
    l.h = in(run, 1);
    l.h_version = code.in[1].lasting ? run.weights_version : run.backend.new_version();
    if (takes_input_) l.inputs = code.in[0].elements, l.w = in(run, w_), l.w_version = run.version(code.in[w_]);
    if (bias_ < code.in.size()) l.bias = in(run, bias_);
    if (has_state_bias_) l.state_bias = in(run, 2);
    l.gates_gradient_apart = !takes_input_ && l.training && write[0] != Write::set;
    l.initial_step = own_states(run) ? c_ : 0;
    l.output = out(run);
    if (!takes_input_) l.work = run.work[code.out.tensor];
    return l;
  }
  RecurrentLayer placed_layer(const Run& run) const {
    RecurrentLayer l = layer(run);
    const States s = states(l);
    float* const workspace = run.workspaces[code.out.tensor].data();
    l.initial_output = workspace + s.output;
    if (has_cell()) l.initial_cell = workspace + s.cell;
    if (has_cell() && own_states(run)) l.last_cell = workspace + s.last_cell;
    l.workspace = workspace + s.total;
    return l;
  }

  void prepare(Run& run) const {
    const States s = states(layer(run));
    float* const workspace = run.workspaces[code.out.tensor].data();
    const std::size_t rows = run.sequences[code.out.axis].width(0), count = own_states(run) ? rows : 1;
    for (std::size_t k = 0; k < values(); ++k) {
      float* state = workspace + (k == 0 ? s.output : s.cell);
      for (std::size_t row = 0; row < count; ++row)
        if (trained_state_)
          run.backend.map(UnaryOp::copy, in(run, 2 + k), state + row * c_, c_);
        else
          run.backend.fill(initial_, state + row * c_, c_);
      if (own_states(run)) run.states[code.out.tensor].load(run.backend, k, 0, rows, state);
    }
  }

  GradientPlace gradient(const Run& run, std::size_t k) const {
    if (write[k] == Write::none) return {};
    return {in_gradient(run, k), adds(run, k)};
  }
  float* cleared_gradient(Run& run, std::size_t k) const {
    if (write[k] == Write::none) return nullptr;
    if (!adds(run, k)) run.backend.fill(0, in_gradient(run, k), c_);
    return in_gradient(run, k);
  }
  // No gradient flows to a state that the minibatch before has left.
  std::span<const std::int32_t> beginnings(Run& run) const {
    const SequenceTable& table = run.sequences[code.out.axis];
    run.numbers.clear();
    for (std::size_t row = 0; row < table.width(0); ++row)
      run.numbers.push_back(run.fragments[table.sequence(row)].begins);
    return run.numbers;
  }

  // Truncated sequences: what the last step leaves, for each lane.
  void list_states(Run& run) const {
    const SequenceTable& table = run.sequences[code.out.axis];
    for (std::size_t p = 0; backwards_ && p < table.width(0); ++p)
      if (const Fragment& fragment = run.fragments[table.sequence(p)]; !(fragment.begins && fragment.ends))
        throw Error(
            fmt::format("{} '{}' runs backwards and needs steps beyond the truncation; truncated sequences work only "
                        "with networks that depend on the past",
                        code.operation, code.node.name));
    CarriedState& kept = run.states[code.out.tensor];
    kept.shape(c_, 1, values());
    kept.list(run.backend, run.fragments, table, run.keeps_states);
  }
  void keep_states(Run& run, const RecurrentLayer& l) const {
    const CarriedState& kept = run.states[code.out.tensor];
    kept.save(run.backend, 0, l.output);
    if (has_cell()) kept.save(run.backend, 1, l.last_cell);
  }

  CellKind kind_;
  bool backwards_, takes_input_, trained_state_ = false, has_state_bias_ = false;
  float initial_;
  std::size_t c_;
  std::size_t w_ = static_cast<std::size_t>(-1), bias_ = static_cast<std::size_t>(-1);  // inputs
};

}  // namespace

void list_recurrent(Makers& makers) {
  makers.insert({{"LSTM", make<Recurrent, false>}, {"GRU", make<Recurrent, true>}});
}

}  // namespace tutti::graph
