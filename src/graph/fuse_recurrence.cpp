// SPDX-License-Identifier: Apache-2.0
// Recurrent layers take in the product that their input goes through, where the backend makes more of the whole.
#include "graph/joining.h"

namespace tutti::graph {
namespace {

class InputFusion : Joining {
 public:
  InputFusion(Lowered& code, const std::vector<std::size_t>& roots) : Joining(code, roots) {}

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

}  // namespace

void fuse_recurrent_inputs(Lowered& code, const std::vector<std::size_t>& roots) { InputFusion(code, roots).run(); }

}  // namespace tutti::graph
