// SPDX-License-Identifier: Apache-2.0
// Joins bias and activation into one pass over a product: Plus(Times(W, x), b) and a Sigmoid, Tanh or RectifiedLinear
// on it; and into the product itself, where the backend can do that.
#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/joining.h"

namespace tutti::graph {

Joining::Joining(Lowered& code, const std::vector<std::size_t>& roots) : code_(code) {
  for (const auto root : roots)
    if (code.of_node.contains(root)) kept_.insert(code.of_node.at(root).tensor);
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    makers_[code.instructions[i].out.tensor] = i;
    for (const auto& o : code.instructions[i].in) users_[o.tensor].push_back(i);
  }
}

bool Joining::used_once(const Operand& o) const {
  const auto users = users_.find(o.tensor);
  return !kept_.contains(o.tensor) && users != users_.end() && users->second.size() == 1;
}

const Instruction* Joining::made_for(const Operand& o) const {
  const auto maker = makers_.find(o.tensor);
  return maker != makers_.end() && used_once(o) ? &code_.instructions[maker->second] : nullptr;
}

bool Joining::in_one_loop(std::size_t instruction, std::size_t other) const {
  return std::all_of(code_.loops.begin(), code_.loops.end(),
                     [&](const Loop& l) { return l.holds(instruction) == l.holds(other); });
}

void Joining::take_out() {
  const auto gone_before = [&](std::size_t instruction) {
    return static_cast<std::size_t>(std::distance(gone_.begin(), gone_.lower_bound(instruction)));
  };
  for (Loop& l : code_.loops) l.first -= gone_before(l.first), l.last -= gone_before(l.last);
  std::vector<Instruction> rest;
  for (std::size_t i = 0; i < code_.instructions.size(); ++i) {
    if (const auto added = in_front_.find(i); added != in_front_.end())
      std::move(added->second.begin(), added->second.end(), std::back_inserter(rest));
    if (!gone_.contains(i)) rest.push_back(std::move(code_.instructions[i]));
  }
  code_.instructions = std::move(rest);
}

namespace {

class Fusion : Joining {
 public:
  using Joining::Joining;

  void run() {
    for (std::size_t i = 0; i < code_.instructions.size(); ++i)
      if (code_.instructions[i].operation == "Plus") fuse(i);
    take_out();
  }

 private:
  bool product(const Operand& o, const Operand& sum) const {
    const Instruction* maker = made_for(o);
    return maker && o.per_sample && o.elements == sum.elements &&
           (maker->operation == "Times" || maker->operation == "TransposeTimes");
  }
  bool bias(const Operand& o, const Operand& sum) const {
    return !o.per_sample && o.elements == sum.elements && code_.tensors[o.tensor].kind != Tensor::Kind::computed;
  }

  void fuse(std::size_t plus) {
    const Instruction& sum = code_.instructions[plus];
    for (std::size_t k = 0; k < 2; ++k) {
      if (!product(sum.in[k], sum.out) || !bias(sum.in[1 - k], sum.out)) continue;
      Instruction joint = sum;
      joint.operation = "BiasActivation";
      joint.in = {sum.in[k], sum.in[1 - k]};
      std::size_t place = plus;
      if (used_once(sum.out)) {
        const std::size_t next = users_.at(sum.out.tensor).front();
        const Instruction& act = code_.instructions[next];
        if (act.operation == "Sigmoid" || act.operation == "Tanh" || act.operation == "RectifiedLinear") {
          joint.node.attributes["activation"] = act.operation;
          joint.node.name = act.node.name;
          joint.out = act.out;
          gone_.insert(plus);
          place = next;
          ++code_.fused;
        }
      }
      code_.instructions[place] = std::move(joint);
      ++code_.fused;
      return;
    }
  }
};

// Recurrent layers take in the product that their input goes through, where the backend makes more of the whole.
class InputFusion : Joining {
 public:
  using Joining::Joining;

  void run() {
    for (Instruction& i : code_.instructions)
      if (i.operation == "LSTM" || (i.operation == "GRU" && flag(i.node, "resetAfter", false))) fuse(i);
    take_out();
  }

 private:
  // Bias and weight come last: the order in which their gradients are complete stays what it was.
  void fuse(Instruction& layer) {
    const Instruction* made = made_for(layer.in[0]);
    const Instruction* sum = made && made->operation == "BiasActivation" ? made : nullptr;
    if (sum) {
      if (!text(sum->node, "activation").empty()) return;
      made = made_for(sum->in[0]);
    }
    if (!made || made->operation != "Times" || !plain_product(*made)) return;
    layer.in[0] = made->in[1];
    if (sum) layer.in.push_back(sum->in[1]), gone_.insert(makers_.at(sum->out.tensor));
    layer.in.push_back(made->in[0]), gone_.insert(makers_.at(made->out.tensor));
    layer.node.attributes["takesInput"] = true;
    layer.node.attributes["bias"] = sum != nullptr;
    ++code_.fused;
  }
};

// The product gets the bias as an input of its own and writes the sum, or what ReLU makes of it; the instruction behind
// it stays for the gradients. A product that alone uses what ReLU leaves masks the gradient that it hands back.
class ProductFusion : Joining {
 public:
  using Joining::Joining;

  void run() {
    for (Instruction& behind : code_.instructions) {
      Instruction* product = behind.operation == "BiasActivation" ? product_of(behind.in[0]) : nullptr;
      const std::string activation = text(behind.node, "activation");
      if (!product || (!activation.empty() && activation != "RectifiedLinear")) continue;
      product->in.push_back(behind.in[1]);
      product->node.attributes["activation"] = activation;
      behind.node.attributes["done"] = true;
      ++code_.fused;
      if (activation.empty() || !used_once(behind.out)) continue;
      Instruction* next = product_of(code_.instructions[users_.at(behind.out.tensor).front()].out);
      if (!next || next->in[1].tensor != behind.out.tensor) continue;
      product->node.attributes["keepsMask"] = behind.node.attributes["masked"] = true;
      next->node.attributes["masksGradient"] = true;
    }
  }

 private:
  // The plain product that makes a value, outside of loops.
  Instruction* product_of(const Operand& o) {
    const auto maker = makers_.find(o.tensor);
    if (maker == makers_.end() || !plain_product(code_.instructions[maker->second])) return nullptr;
    const bool in_a_loop =
        std::any_of(code_.loops.begin(), code_.loops.end(), [&](const Loop& l) { return l.holds(maker->second); });
    return in_a_loop ? nullptr : &code_.instructions[maker->second];
  }
};

// Joins what can be done in one pass over an image: a convolution with the bias per channel and ReLU behind it, batch
// normalisation with a sum and ReLU behind it.
class ImageFusion : Joining {
 public:
  using Joining::Joining;

  void run() {
    for (std::size_t i = 0; i < code_.instructions.size(); ++i) {
      const std::string& operation = code_.instructions[i].operation;
      if (operation == "Plus") join_sum(i);
      if (operation == "RectifiedLinear") join_relu(i);
    }
    take_out();
  }

 private:
  // As made_for(), where instruction `user` takes the value under the shape that it was made with, and as often as it
  // is made: of all steps of a loop, or of one.
  const Instruction* made_as(const Operand& o, std::size_t user) const {
    const Instruction* maker = made_for(o);
    return maker && maker->out.shape == o.shape && in_one_loop(makers_.at(o.tensor), user) ? maker : nullptr;
  }

  static bool takes_bias(const Instruction& i, const Operand& bias) {
    const Shape& image = i.out.shape;
    if (i.operation != "Convolution" || i.in.size() > 2 || flag(i.node, "transpose", false) || bias.per_sample)
      return false;
    return image.rank() > 1 && bias.shape.rank() == image.rank() && bias.elements == image.dims.back() &&
           bias.shape.dims.back() == bias.elements && flag(i.node, "channelAxis", false);
  }
  static bool takes_sum(const Instruction& i, const Operand& added) {
    return i.operation == "BatchNormalization" && !flag(i.node, "relu", false) && i.in.size() == 6 &&
           added.shape == i.out.shape && added.per_sample && i.out.per_sample && added.tensor != i.out.tensor &&
           added.tensor != i.in[0].tensor;  // backward writes the gradient of the sum before that of input 0
  }
  static bool takes_relu(const Instruction& i) {
    return (i.operation == "Convolution" || i.operation == "BatchNormalization") && !flag(i.node, "relu", false) &&
           !flag(i.node, "transpose", false);
  }

  void join_sum(std::size_t plus) {
    const Instruction sum = code_.instructions[plus];
    // The later one first: what it adds is there by then.
    const Instruction* const made[] = {made_as(sum.in[0], plus), made_as(sum.in[1], plus)};
    const std::size_t last = made[0] && made[1] > made[0] ? 1 : 0;
    for (const std::size_t k : {last, 1 - last}) {
      const Operand& other = sum.in[1 - k];
      if (!made[k] || !(takes_bias(*made[k], other) || takes_sum(*made[k], other))) continue;
      Instruction joint = *made[k];
      joint.in.push_back(other);
      return replace(plus, sum.in[k].tensor, std::move(joint));
    }
  }

  void join_relu(std::size_t relu) {
    const Operand in = code_.instructions[relu].in[0];
    const Instruction* maker = made_as(in, relu);
    if (!maker || !takes_relu(*maker)) return;
    Instruction joint = *maker;
    joint.node.attributes["relu"] = true;
    replace(relu, in.tensor, std::move(joint));
  }

  // `joint` does the work of the instruction at `place` and of the one that made `inner`.
  void replace(std::size_t place, std::size_t inner, Instruction joint) {
    const Instruction& last = code_.instructions[place];
    joint.node.name = last.node.name;
    joint.out = last.out;
    gone_.insert(makers_.at(inner));
    makers_.erase(inner);
    makers_[joint.out.tensor] = place;
    code_.instructions[place] = std::move(joint);
    ++code_.fused;
  }
};

}  // namespace

bool plain_product(const Instruction& i) {
  return (i.operation == "Times" || i.operation == "TransposeTimes") && !i.reads_sparse && !i.in[0].per_sample &&
         i.in[1].per_sample && i.in[0].elements == i.in[1].elements * i.out.elements;
}

void fuse_bias_and_activation(Lowered& code, const std::vector<std::size_t>& roots) { Fusion(code, roots).run(); }
void fuse_images(Lowered& code, const std::vector<std::size_t>& roots) { ImageFusion(code, roots).run(); }
void fuse_into_products(Lowered& code, const std::vector<std::size_t>& roots) { ProductFusion(code, roots).run(); }
void fuse_recurrent_inputs(Lowered& code, const std::vector<std::size_t>& roots) { InputFusion(code, roots).run(); }

}  // namespace tutti::graph
