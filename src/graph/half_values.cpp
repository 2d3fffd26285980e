// SPDX-License-Identifier: Apache-2.0
// Chooses which values beside images lie in 16 bits: those that dense layers hand to each other, through bias,
// activation, dropout, normalisation and sums, and what they get of images that are stored so. Everything else
// (criteria, softmax, sums, what is asked for from outside) sees float32.
#include <algorithm>

#include "graph/joining.h"

namespace tutti::graph {
namespace {

// Of 16 bits, rows of so many values begin where tensor cores like to read.
constexpr std::size_t values_at_once = 8;

class HalfValues : Joining {
 public:
  HalfValues(Lowered& code, const std::vector<std::size_t>& roots, Element element)
      : Joining(code, roots), element_(element) {}

  void run() {
    for (const Instruction& i : code_.instructions)
      if (makes(i) && users_take(i.out)) halves_.insert(i.out.tensor);
    while (settle_some()) {
    }
    for (Instruction& i : code_.instructions) {
      for (Operand& o : i.in) choose(o);
      choose(i.out);
    }
  }

 private:
  // Inputs that lie as the result does, of operations that do not care how.
  static std::vector<std::size_t> alike(const Instruction& i) {
    static const std::set<std::string> unary = {"BiasActivation", "RectifiedLinear", "Sigmoid", "Tanh", "Dropout"},
                                       binary = {"Plus", "Minus", "ElementTimes"};
    if (i.out.format != Format::plain) return {};
    if (unary.contains(i.operation)) return {0};
    const auto same = [&](const Operand& o) { return o.shape == i.out.shape && o.per_sample; };
    if (binary.contains(i.operation) && same(i.in[0]) && same(i.in[1])) return {0, 1};
    // Each element is a channel of its own.
    if (i.operation != "BatchNormalization" || i.in[0].elements != i.in[1].elements) return {};
    return i.in.size() > 6 ? std::vector<std::size_t>{0, 6} : std::vector<std::size_t>{0};
  }
  bool makes(const Instruction& i) const {
    if (!i.out.per_sample || i.out.format != Format::plain || i.out.elements % values_at_once != 0) return false;
    return !kept_.contains(i.out.tensor) &&
           (plain_product(i) || !alike(i).empty() || (i.operation == "Reorder" && i.in[0].element == element_));
  }
  bool users_take(const Operand& o) const {
    const auto users = users_.find(o.tensor);
    return users != users_.end() && std::all_of(users->second.begin(), users->second.end(), [&](std::size_t user) {
             return takes(code_.instructions[user], o.tensor);
           });
  }
  static bool takes(const Instruction& i, std::size_t tensor) {
    const std::vector<std::size_t> places = plain_product(i) ? std::vector<std::size_t>{1} : alike(i);
    for (std::size_t k = 0; k < i.in.size(); ++k)
      if (i.in[k].tensor == tensor && std::find(places.begin(), places.end(), k) == places.end()) return false;
    return true;
  }
  // Whether there was an operation some of whose values, but not all, were to lie in 16 bits; now none does.
  bool settle_some() {
    bool found = false;
    for (const Instruction& i : code_.instructions) {
      std::vector<std::size_t> tensors;
      for (const std::size_t k : alike(i)) tensors.push_back(i.in[k].tensor);
      if (!tensors.empty()) tensors.push_back(i.out.tensor);
      const auto half = [&](std::size_t t) { return halves_.contains(t); };
      if (std::none_of(tensors.begin(), tensors.end(), half) || std::all_of(tensors.begin(), tensors.end(), half))
        continue;
      for (const std::size_t t : tensors) halves_.erase(t);
      found = true;
    }
    return found;
  }
  void choose(Operand& o) const {
    if (halves_.contains(o.tensor)) o.element = element_;
  }

  const Element element_;
  std::set<std::size_t> halves_;  // tensors
};

}  // namespace

void choose_half_values(Lowered& code, const std::vector<std::size_t>& roots, Element element) {
  HalfValues(code, roots, element).run();
}

}  // namespace tutti::graph
