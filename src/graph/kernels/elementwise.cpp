// SPDX-License-Identifier: Apache-2.0
// Maps, broadcast combinations, fused bias and activation, dropout.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

// What the derivative of a map is computed from. `zero`: no gradient flows.
enum class Derived { zero, from_nothing, from_operand, from_result };

class Map : public Kernel {
 public:
  Map(UnaryOp op, Derived derived, Instruction i) : Kernel(std::move(i)), op_(op) {
    reads_output = derived == Derived::from_result;
    reads_input[0] = derived == Derived::from_operand;
    differentiable[0] = derived != Derived::zero;
    in_place = reads_input[0] ? -1 : 0;
    in_place_gradient = 0;
  }
  void forward(Run& run) const override {
    run.backend.map(op_, in(run, 0), out(run), run.count(code.out), code.out.element);
  }
  void backward(Run& run) const override {
    run.backend.map_gradient(op_, in(run, 0), out(run), out_gradient(run), in_gradient(run, 0), run.count(code.out),
                             adds(run, 0), code.out.element);
  }

 private:
  UnaryOp op_;
};

// Which inputs a gradient flows to.
enum class Flow { to_all, to_none, to_last, to_all_but_first };

class Combine : public Kernel {
 public:
  Combine(PointOp op, Flow flow, bool reads_values, Instruction i) : Kernel(std::move(i)), op_(op) {
    const std::size_t n = code.in.size();
    std::fill(reads_input.begin(), reads_input.end(), reads_values);
    for (std::size_t k = 0; k < n; ++k)
      differentiable[k] =
          flow == Flow::to_all || (flow == Flow::to_last && k + 1 == n) || (flow == Flow::to_all_but_first && k > 0);
    reads_output = false;
  }
  void forward(Run& run) const override {
    const auto values = operands(run);
    run.backend.combine(op_, broadcast_layout(run, code.in, code.out), {values.data(), code.in.size()}, out(run));
  }
  void backward(Run& run) const override {
    const auto values = operands(run);
    const Layout layout = broadcast_layout(run, code.in, code.out);
    for (std::size_t k = 0; k < code.in.size(); ++k)
      if (write[k] != Write::none)
        run.backend.combine_gradient(op_, k, layout, {values.data(), code.in.size()}, out_gradient(run),
                                     in_gradient(run, k), adds(run, k));
  }

 private:
  PointOp op_;
};

}  // namespace

UnaryOp activation(const Node& node) {
  const std::string name = text(node, "activation");
  return name == "Sigmoid"           ? UnaryOp::sigmoid
         : name == "Tanh"            ? UnaryOp::tanh
         : name == "RectifiedLinear" ? UnaryOp::relu
                                     : UnaryOp::copy;
}

namespace {

// Product (input 0), bias (input 1): one pass over the product where it lies, unless the product has done it.
class BiasActivation : public Kernel {
 public:
  explicit BiasActivation(Instruction i)
      : Kernel(std::move(i)), op_(activation(code.node)), done_(flag(code.node, "done", false)) {
    reads_input = {false, false};
    reads_output = op_ != UnaryOp::copy;
    in_place = 0;
    in_place_gradient = 0;
  }
  void forward(Run& run) const override {
    if (out(run) != in(run, 0))
      run.backend.map(UnaryOp::copy, in(run, 0), out(run), run.count(code.out), code.out.element);
    if (!done_)
      run.backend.bias_activation(op_, run.rows(code.out), code.out.elements, in(run, 1), out(run), code.out.element);
  }
  void backward(Run& run) const override {
    float* gradient = out_gradient(run);
    if (write[0] != Write::none && in_gradient(run, 0) != gradient) {
      run.backend.map(UnaryOp::copy, gradient, in_gradient(run, 0), run.count(code.out), code.out.element);
      gradient = in_gradient(run, 0);
    }
    float* bias = write[1] == Write::none ? nullptr : in_gradient(run, 1);
    if (masked_ && bias && !adds(run, 1)) bias = nullptr;  // whoever masked has summed
    if (masked_ && !bias) return;
    run.backend.bias_activation_gradient(masked_ ? UnaryOp::copy : op_, run.rows(code.out), code.out.elements, out(run),
                                         gradient, bias, bias != nullptr && adds(run, 1), code.out.element);
  }

 private:
  UnaryOp op_;
  bool done_;                                       // by the product
  bool masked_ = flag(code.node, "masked", false);  // the gradient comes back through ReLU already
};

class Dropout : public Kernel {
 public:
  explicit Dropout(Instruction i) : Kernel(std::move(i)) {
    reads_no_values();
    in_place = 0;
    in_place_gradient = 0;
    own_rate_ = number(code.node, "rate", -1);
    told_bytes = sizeof(std::uint64_t);
  }
  void tell(Run& run, std::byte* to) const override {
    const std::uint64_t seed = run.dropout_seed + code.random_index;
    std::memcpy(to, &seed, sizeof seed);
    run.number_samples(code.out);
  }
  void forward(Run& run) const override { apply(run, in(run, 0), out(run), false); }
  void backward(Run& run) const override { apply(run, out_gradient(run), in_gradient(run, 0), adds(run, 0)); }

 private:
  void apply(Run& run, const float* x, float* y, bool add) const {
    const double rate = own_rate_ >= 0 ? own_rate_ : run.dropout_rate;
    if (rate <= 0 && x == y) return;
    if (rate <= 0)
      return run.backend.map_gradient(UnaryOp::copy, x, x, x, y, run.count(code.out), add, code.out.element);
    DropoutMask mask;
    mask.seed = reinterpret_cast<const std::uint64_t*>(told(run));
    mask.samples = run.sample_numbers(code.out);
    mask.elements = code.out.shape.elements();
    mask.first = static_cast<std::size_t>(number(code.node, "first", 0));
    mask.whole = static_cast<std::size_t>(number(code.node, "whole", 0));
    mask.rate = static_cast<float>(rate);
    if (code.out.format == Format::blocked) {
      mask.channels = code.out.shape.dims.back(), mask.pixels = code.out.shape.elements() / mask.channels;
      mask.block = std::min(run.backend.images().channel_block(), mask.channels);
    }
    run.backend.dropout(mask, x, y, run.count(code.out), add, code.out.element);
  }
  double own_rate_;  // of the node itself, otherwise negative: the epoch's
};

// Labels (input 0) and their mean over the classes: (1 - amount) label + amount mean, made by labelSmoothing.
class SmoothLabels : public Kernel {
 public:
  explicit SmoothLabels(Instruction i) : Kernel(std::move(i)), amount_(number(code.node, "amount", 0)) {
    reads_no_values();
    differentiable = {false, false};
  }
  void forward(Run& run) const override {
    const std::array apart{in(run, 0), in(run, 1)};
    run.backend.combine(PointOp::minus, broadcast_layout(run, code.in, code.out), apart, out(run));
    run.backend.scale(static_cast<float>(-amount_), out(run), run.count(code.out), nullptr);
    const std::array back{in(run, 0), static_cast<const float*>(out(run))};
    const std::array<Operand, 2> alike{code.in[0], code.out};
    run.backend.combine(PointOp::plus, broadcast_layout(run, alike, code.out), back, out(run));
  }

 private:
  const double amount_;
};

// A term of parameters alone, of which every rank counts a share, so that it counts once per minibatch.
class ShareOfMinibatch : public Kernel {
 public:
  explicit ShareOfMinibatch(Instruction i) : Kernel(std::move(i)) {
    reads_no_values();
    replayable = false;  // the factors change from step to step
  }
  void forward(Run& run) const override {
    run.backend.map(UnaryOp::copy, in(run, 0), out(run), run.count(code.out));
    run.backend.scale(run.share, out(run), run.count(code.out), nullptr);
  }
  void backward(Run& run) const override {
    float* const gradient = out_gradient(run);
    run.backend.scale(run.share_of_update, gradient, run.count(code.out), nullptr);
    run.backend.map_gradient(UnaryOp::copy, gradient, gradient, gradient, in_gradient(run, 0), run.count(code.out),
                             adds(run, 0));
  }
};

}  // namespace

Layout broadcast_layout(const Run& run, std::span<const Operand> in, const Operand& out) {
  Layout l;
  l.rank = out.shape.rank() + 1;
  assert(l.rank <= Layout::max_rank && in.size() <= 3);
  const auto fill = [&](std::size_t slot, const Operand& o) {
    std::size_t step = 1;
    for (std::size_t axis = 0; axis + 1 < l.rank; ++axis) {
      l.stride[slot][axis] = o.shape[axis] == 1 ? 0 : step;
      step *= o.shape[axis];
    }
    l.stride[slot][l.rank - 1] = o.per_sample ? o.elements : 0;
  };
  for (std::size_t k = 0; k < in.size(); ++k) fill(k, in[k]);
  fill(3, out);
  for (std::size_t axis = 0; axis + 1 < l.rank; ++axis) l.size[axis] = out.shape[axis];
  l.size[l.rank - 1] = run.rows(out);
  l.element = out.element;
  return l;
}

void list_elementwise(Makers& makers) {
  using enum Derived;
  makers.insert({{"Negate", make<Map, UnaryOp::negate, from_nothing>},
                 {"Reciprocal", make<Map, UnaryOp::reciprocal, from_result>},
                 {"Sigmoid", make<Map, UnaryOp::sigmoid, from_result>},
                 {"Tanh", make<Map, UnaryOp::tanh, from_result>},
                 {"RectifiedLinear", make<Map, UnaryOp::relu, from_result>},
                 {"Exp", make<Map, UnaryOp::exp, from_result>},
                 {"Log", make<Map, UnaryOp::log, from_operand>},
                 {"Sqrt", make<Map, UnaryOp::sqrt, from_result>},
                 {"Abs", make<Map, UnaryOp::abs, from_operand>},
                 {"Floor", make<Map, UnaryOp::floor, zero>},
                 {"Ceil", make<Map, UnaryOp::ceil, zero>},
                 {"Round", make<Map, UnaryOp::round, zero>},
                 {"Sin", make<Map, UnaryOp::sin, from_operand>},
                 {"Cosine", make<Map, UnaryOp::cosine, from_operand>},
                 {"Dropout", make<Dropout>},
                 {"SmoothLabels", make<SmoothLabels>},
                 {"ShareOfMinibatch", make<ShareOfMinibatch>},  // made by lowering
                 {"BiasActivation", make<BiasActivation>}});    // made by fusion
  using enum Flow;
  makers.insert({{"Plus", make<Combine, PointOp::plus, to_all, false>},
                 {"Minus", make<Combine, PointOp::minus, to_all, false>},
                 {"ElementTimes", make<Combine, PointOp::times, to_all, true>},
                 {"LogPlus", make<Combine, PointOp::log_plus, to_all, true>},
                 {"Less", make<Combine, PointOp::less, to_none, false>},
                 {"Equal", make<Combine, PointOp::equal, to_none, false>},
                 {"Greater", make<Combine, PointOp::greater, to_none, false>},
                 {"GreaterEqual", make<Combine, PointOp::greater_equal, to_none, false>},
                 {"NotEqual", make<Combine, PointOp::not_equal, to_none, false>},
                 {"LessEqual", make<Combine, PointOp::less_equal, to_none, false>},
                 {"If", make<Combine, PointOp::choose, to_all_but_first, true>},
                 {"Clip", make<Combine, PointOp::clip, to_last, true>},
                 {"PerDimMeanVarNormalization", make<Combine, PointOp::normalize, to_all, true>},
                 {"PerDimMeanVarDeNormalization", make<Combine, PointOp::denormalize, to_all, true>}});
}

}  // namespace tutti::graph
