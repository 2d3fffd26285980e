// SPDX-License-Identifier: Apache-2.0
// A GRU that is written as a loop through time becomes one operation:
//   z = Sigmoid (pz + Hz * d);  r = Sigmoid (pr + Hr * d);  c = Tanh (pc + Hc * (d .* r));  h = (1 - z) .* c + z .* d
// with d the h of the step before, operands in any order, and matrices that are parameters. The parts from the input
// are stacked, and so are the matrices; parameters keep their names.
#include <algorithm>
#include <optional>

#include "graph/joining.h"

namespace tutti::graph {
namespace {

class GruRecognition : Joining {
 public:
  GruRecognition(const Graph& graph, Lowered& code, const std::vector<std::size_t>& roots)
      : Joining(code, roots), graph_(graph) {}

  void run() {
    for (std::size_t i = 0; i < code_.instructions.size(); ++i)
      if (const auto gru = recognized(i)) replace(i, *gru);
    take_out();
  }

 private:
  // The terms of a gate: its part from the input, and a matrix times a function of the state.
  struct Gate {
    Operand from_input, weight;
    Operand state;
    std::vector<const Instruction*> made_of;
  };
  struct Gru {
    Gate update, reset, candidate;
    const Instruction *delay, *rest;  // rest: 1 - z
    std::vector<const Instruction*> others;
  };

  const Instruction* maker(const Operand& o, const std::string& operation) const {
    const auto found = makers_.find(o.tensor);
    if (found == makers_.end() || code_.instructions[found->second].operation != operation) return nullptr;
    return &code_.instructions[found->second];
  }
  const Instruction* made_for(const Operand& o, const std::string& operation) const {
    return used_once(o) ? maker(o, operation) : nullptr;
  }
  bool used(const Operand& o, std::size_t times) const {
    return !kept_.contains(o.tensor) && users_.at(o.tensor).size() == times;
  }

  bool is_one(const Operand& o) const {
    const Tensor& t = code_.tensors[o.tensor];
    if (t.kind != Tensor::Kind::parameter || t.trained || t.elements != 1) return false;
    const Node& node = graph_.nodes[t.node];
    if (node.start) return node.start->size() == 1 && node.start->front() == 1;
    return text(node, "init") == "fixedValue" && number(node, "value", 0) == 1;
  }

  std::optional<Gate> gate(const Operand& activated, const std::string& activation, std::size_t uses) const {
    const Instruction* act = used(activated, uses) ? maker(activated, activation) : nullptr;
    const Instruction* sum = act ? made_for(act->in[0], "Plus") : nullptr;
    for (std::size_t k = 0; sum && k < 2; ++k) {
      const Instruction* product = made_for(sum->in[k], "Times");
      const Operand& other = sum->in[1 - k];
      const std::size_t c = activated.elements;
      if (!product || !plain_product(*product) || !product->in[0].lasting || product->in[0].elements != c * c) continue;
      if (!other.per_sample || other.axis != activated.axis || other.elements != c || product->out.elements != c)
        continue;
      return Gate{other, product->in[0], product->in[1], {act, sum, product}};
    }
    return std::nullopt;
  }

  std::optional<Gru> recognized(std::size_t at) const {
    const Instruction& h = code_.instructions[at];
    if (h.operation != "Plus" || !h.out.per_sample) return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
      const Instruction *fresh = made_for(h.in[k], "ElementTimes"), *kept = made_for(h.in[1 - k], "ElementTimes");
      if (!fresh || !kept) continue;
      for (std::size_t n = 0; n < 4; ++n)
        if (auto gru = mixture(h, *fresh, n % 2, *kept, n / 2)) return gru;
    }
    return std::nullopt;
  }

  // h = fresh + kept, where fresh = (1 - z) .* c and kept = z .* d with 1 - z and z at the places that are given.
  std::optional<Gru> mixture(const Instruction& h, const Instruction& fresh, std::size_t rest_at,
                             const Instruction& kept, std::size_t update_at) const {
    const Instruction* rest = made_for(fresh.in[rest_at], "Minus");
    const Operand &z = kept.in[update_at], &d = kept.in[1 - update_at];
    if (!rest || !is_one(rest->in[0]) || rest->in[1].tensor != z.tensor) return std::nullopt;
    const Instruction* delay = maker(d, "PastValue");
    if (!delay) delay = maker(d, "FutureValue");
    if (!delay || delay->in.size() != 1 || delay->in[0].tensor != h.out.tensor || !used(d, 4) ||
        number(delay->node, "timeStep", 1) != 1)
      return std::nullopt;
    const auto candidate = gate(fresh.in[1 - rest_at], "Tanh", 1), update = gate(z, "Sigmoid", 2);
    const Instruction* product = candidate ? made_for(candidate->state, "ElementTimes") : nullptr;
    if (!product || !update || update->state.tensor != d.tensor) return std::nullopt;
    const std::size_t state_at = product->in[0].tensor == d.tensor ? 0 : 1;
    const auto reset = gate(product->in[1 - state_at], "Sigmoid", 1);
    if (!reset || reset->state.tensor != d.tensor || product->in[state_at].tensor != d.tensor) return std::nullopt;
    for (const Gate* g : {&*update, &*reset, &*candidate})
      if (h.out.elements != z.elements || leads_to(h.out.tensor, g->from_input)) return std::nullopt;
    return Gru{*update, *reset, *candidate, delay, rest, {&fresh, &kept, rest, delay, product}};
  }

  // Whether a value is used elsewhere: then it is part of a larger loop.
  bool leads_to(std::size_t tensor, const Operand& o) const {
    std::set<std::size_t> seen;
    std::vector<std::size_t> open = {o.tensor};
    while (!open.empty()) {
      const std::size_t t = open.back();
      open.pop_back();
      if (t == tensor) return true;
      if (const auto made = makers_.find(t); made != makers_.end() && seen.insert(t).second)
        for (const Operand& in : code_.instructions[made->second].in) open.push_back(in.tensor);
    }
    return false;
  }

  void replace(std::size_t at, const Gru& gru) {
    const Instruction& h = code_.instructions[at];
    const std::size_t c = h.out.elements;
    Instruction joint = h;
    joint.operation = joint.node.operation = "GRU";
    joint.node.attributes = {{"backwards", gru.delay->operation == "FutureValue"},
                             {"defaultHiddenActivation", number(gru.delay->node, "defaultHiddenActivation", 0.1)}};
    const Gate* const gates[] = {&gru.update, &gru.reset, &gru.candidate};
    std::vector<Operand> inputs, weights;
    for (const Gate* g : gates) {
      inputs.push_back(g->from_input), inputs.back().shape = Shape{{c}};
      weights.push_back(g->weight), weights.back().shape = Shape{{c, c}};
      for (const Instruction* i : g->made_of) gone_.insert(makers_.at(i->out.tensor));
    }
    code_.ones.insert(code_.tensors[gru.rest->in[0].tensor].node);
    for (const Instruction* i : gru.others) gone_.insert(makers_.at(i->out.tensor));
    std::vector<Instruction>& made = in_front_[at];
    made.push_back(stacked(h, std::move(inputs), Shape{{3 * c}}));
    made.push_back(stacked(h, std::move(weights), Shape{{3 * c, c}}));
    joint.in = {made[0].out, made[1].out};
    made.push_back(std::move(joint));
    gone_.insert(at);
  }

  Instruction stacked(const Instruction& h, std::vector<Operand> in, Shape shape) {
    Instruction stack;
    stack.operation = "RowStack";
    stack.node = {h.node.name, "RowStack", {}, {{"axis", 1.0}}, h.node.where};
    Tensor t = code_.tensors[h.out.tensor];
    t.elements = shape.elements(), t.per_sample = in[0].per_sample;
    stack.out = {code_.tensors.size(), std::move(shape), t.elements, t.per_sample, in[0].axis};
    stack.in = std::move(in);
    code_.tensors.push_back(std::move(t));
    return stack;
  }

  const Graph& graph_;
};

}  // namespace

void recognize_grus(const Graph& graph, Lowered& code, const std::vector<std::size_t>& roots) {
  GruRecognition(graph, code, roots).run();
}

}  // namespace tutti::graph
