// SPDX-License-Identifier: Apache-2.0
// Joins bias and activation into one pass over a product: Plus(Times(W, x), b) and a Sigmoid, Tanh or RectifiedLinear
// on it; and into the product itself, where the backend can do that.
#include <algorithm>
#include <set>

#include "graph/joining.h"

namespace tutti::graph {
namespace {

class Fusion : Joining {
 public:
  Fusion(Lowered& code, const std::vector<std::size_t>& roots) : Joining(code, roots) {}

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

bool in_a_loop(const Lowered& code, std::size_t instruction) {
  return std::any_of(code.loops.begin(), code.loops.end(), [&](const Loop& l) { return l.holds(instruction); });
}

}  // namespace

bool plain_product(const Instruction& i) {
  return (i.operation == "Times" || i.operation == "TransposeTimes") && !i.reads_sparse && !i.in[0].per_sample &&
         i.in[1].per_sample && i.in[0].elements == i.in[1].elements * i.out.elements;
}

// The product gets the bias as an input of its own and writes the sum, or what ReLU makes of it; the instruction behind
// it stays for the gradients. A product that alone uses what ReLU leaves masks the gradient that it hands back.
void fuse_into_products(Lowered& code, const std::vector<std::size_t>& roots) {
  std::set<std::size_t> kept;
  for (const auto root : roots)
    if (code.of_node.contains(root)) kept.insert(code.of_node.at(root).tensor);
  std::map<std::size_t, std::size_t> products;             // by result
  std::map<std::size_t, std::vector<Instruction*>> users;  // by tensor, once for each use
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    Instruction& code_i = code.instructions[i];
    if (plain_product(code_i) && !in_a_loop(code, i)) products[code_i.out.tensor] = i;
    for (const auto& o : code_i.in) users[o.tensor].push_back(&code_i);
  }
  for (Instruction& behind : code.instructions) {
    if (behind.operation != "BiasActivation" || !products.contains(behind.in[0].tensor)) continue;
    const std::string activation = text(behind.node, "activation");
    if (!activation.empty() && activation != "RectifiedLinear") continue;
    Instruction& product = code.instructions[products.at(behind.in[0].tensor)];
    product.in.push_back(behind.in[1]);
    product.node.attributes["activation"] = activation;
    behind.node.attributes["done"] = true;
    ++code.fused;
    const auto& next = users[behind.out.tensor];
    if (activation.empty() || kept.contains(behind.out.tensor) || next.size() != 1) continue;
    if (!products.contains(next.front()->out.tensor) || next.front()->in[1].tensor != behind.out.tensor) continue;
    product.node.attributes["keepsMask"] = behind.node.attributes["masked"] = true;
    next.front()->node.attributes["masksGradient"] = true;
  }
}

void fuse_bias_and_activation(Lowered& code, const std::vector<std::size_t>& roots) { Fusion(code, roots).run(); }

}  // namespace tutti::graph
