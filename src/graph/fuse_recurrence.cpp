// SPDX-License-Identifier: Apache-2.0
// LSTMs take in the product that their input goes through, where the backend makes more of the whole.
#include <algorithm>
#include <set>

#include "graph/lower.h"

namespace tutti::graph {
namespace {

class InputFusion {
 public:
  InputFusion(Lowered& code, const std::vector<std::size_t>& roots) : code_(code) {
    for (const auto root : roots)
      if (code.of_node.contains(root)) kept_.insert(code.of_node.at(root).tensor);
    for (std::size_t i = 0; i < code.instructions.size(); ++i) {
      makers_[code.instructions[i].out.tensor] = i;
      for (const auto& o : code.instructions[i].in) ++uses_[o.tensor];
    }
  }

  void run() {
    for (Instruction& i : code_.instructions)
      if (i.operation == "LSTM") fuse(i);
    std::vector<Instruction> rest;
    for (std::size_t i = 0; i < code_.instructions.size(); ++i)
      if (!gone_.contains(i)) rest.push_back(std::move(code_.instructions[i]));
    code_.instructions = std::move(rest);
  }

 private:
  // The instruction that makes a value for this one use.
  const Instruction* maker(const Operand& o) const {
    const auto found = makers_.find(o.tensor);
    const bool alone = found != makers_.end() && uses_.at(o.tensor) == 1 && !kept_.contains(o.tensor);
    return alone ? &code_.instructions[found->second] : nullptr;
  }

  // Bias and weight come last: the order in which their gradients are complete stays what it was.
  void fuse(Instruction& lstm) {
    const Instruction* made = maker(lstm.in[0]);
    const Instruction* sum = made && made->operation == "BiasActivation" ? made : nullptr;
    if (sum) {
      if (!text(sum->node, "activation").empty()) return;
      made = maker(sum->in[0]);
    }
    if (!made || made->operation != "Times" || !plain_product(*made)) return;
    lstm.in[0] = made->in[1];
    if (sum) lstm.in.push_back(sum->in[1]), gone_.insert(makers_.at(sum->out.tensor));
    lstm.in.push_back(made->in[0]), gone_.insert(makers_.at(made->out.tensor));
    lstm.node.attributes["takesInput"] = true;
    lstm.node.attributes["bias"] = sum != nullptr;
    ++code_.fused;
  }

  Lowered& code_;
  std::set<std::size_t> kept_, gone_;
  std::map<std::size_t, std::size_t> makers_, uses_;
};

}  // namespace

void fuse_lstm_inputs(Lowered& code, const std::vector<std::size_t>& roots) { InputFusion(code, roots).run(); }

}  // namespace tutti::graph
