// SPDX-License-Identifier: Apache-2.0
// Maps, broadcast combinations, fused bias and activation, dropout.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

// Whether the derivative is computed from the result rather than from the operand.
bool derived_from_result(UnaryOp op) {
  switch (op) {
    case UnaryOp::reciprocal:
    case UnaryOp::sigmoid:
    case UnaryOp::tanh:
    case UnaryOp::relu:
    case UnaryOp::exp:
    case UnaryOp::sqrt:
      return true;
    case UnaryOp::copy:
    case UnaryOp::negate:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::log:
    case UnaryOp::abs:
    case UnaryOp::sin:
    case UnaryOp::cosine:
      return false;
  }
  return false;
}

bool derived_from_operand(UnaryOp op) {
  return op == UnaryOp::log || op == UnaryOp::abs || op == UnaryOp::sin || op == UnaryOp::cosine;
}

class Map : public Kernel {
 public:
  Map(UnaryOp op, Instruction i) : Kernel(std::move(i)), op_(op) {
    reads_output = derived_from_result(op);
    reads_input[0] = derived_from_operand(op);
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

// Which inputs a gradient flows to, and whether their values are needed for it.
struct Flow {
  bool differentiable, reads_values;
};
Flow flow(PointOp op, std::size_t k) {
  switch (op) {
    case PointOp::plus:
    case PointOp::minus:
      return {true, false};
    case PointOp::times:
    case PointOp::log_plus:
      return {true, true};
    case PointOp::less:
    case PointOp::equal:
    case PointOp::greater:
    case PointOp::greater_equal:
    case PointOp::not_equal:
    case PointOp::less_equal:
      return {false, false};
    case PointOp::choose:
      return {k != 0, true};
    case PointOp::clip:
      return {k == 2, true};
    case PointOp::normalize:
    case PointOp::denormalize:
      return {k == 0, true};
  }
  return {false, false};
}

class Combine : public Kernel {
 public:
  Combine(PointOp op, Instruction i) : Kernel(std::move(i)), op_(op) {
    for (std::size_t k = 0; k < code.in.size(); ++k) {
      differentiable[k] = flow(op, k).differentiable;
      reads_input[k] = flow(op, k).reads_values;
    }
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
  std::array<const float*, 3> operands(const Run& run) const {
    std::array<const float*, 3> values{};
    // Values that backward does not read may be gone by then, but a pointer is there.
    for (std::size_t k = 0; k < code.in.size(); ++k) values[k] = in(run, k);
    return values;
  }
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
    reads_input[0] = false;
    reads_output = false;
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
    mask.rate = static_cast<float>(rate);
    if (code.out.format == Format::blocked) {
      mask.channels = code.out.shape.dims.back(), mask.pixels = code.out.shape.elements() / mask.channels;
      mask.block = std::min(run.backend.images().channel_block(), mask.channels);
    }
    run.backend.dropout(mask, x, y, run.count(code.out), add, code.out.element);
  }
  double own_rate_;  // of the node itself, otherwise negative: the epoch's
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

std::unique_ptr<Kernel> make_map(UnaryOp op, Instruction i) { return std::make_unique<Map>(op, std::move(i)); }
std::unique_ptr<Kernel> make_combine(PointOp op, Instruction i) { return std::make_unique<Combine>(op, std::move(i)); }
std::unique_ptr<Kernel> make_bias_activation(Instruction i) { return std::make_unique<BiasActivation>(std::move(i)); }
std::unique_ptr<Kernel> make_dropout(Instruction i) { return std::make_unique<Dropout>(std::move(i)); }

}  // namespace tutti::graph
