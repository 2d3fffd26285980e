// SPDX-License-Identifier: Apache-2.0
// Chooses which values beside images lie in 16 bits: those that dense layers hand to each other, through bias,
// activation and dropout, and what they get of images that are stored so. Everything else (criteria, softmax, sums,
// what is asked for from outside) sees float32.
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
    // What is handed on lies as it came.
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instruction& i : code_.instructions)
        if (hands_on(i) && halves_.contains(i.in[0].tensor) != halves_.contains(i.out.tensor))
          halves_.erase(i.in[0].tensor), halves_.erase(i.out.tensor), changed = true;
    }
    for (Instruction& i : code_.instructions) {
      for (Operand& o : i.in) choose(o);
      choose(i.out);
    }
  }

 private:
  static bool hands_on(const Instruction& i) {
    static const std::set<std::string> operations = {"BiasActivation", "RectifiedLinear", "Sigmoid", "Tanh", "Dropout"};
    return operations.contains(i.operation) && i.out.format == Format::plain;
  }
  bool makes(const Instruction& i) const {
    if (!i.out.per_sample || i.out.format != Format::plain || i.out.elements % values_at_once != 0) return false;
    return !kept_.contains(i.out.tensor) &&
           (plain_product(i) || hands_on(i) || (i.operation == "Reorder" && i.in[0].element == element_));
  }
  bool users_take(const Operand& o) const {
    const auto users = users_.find(o.tensor);
    return users != users_.end() && std::all_of(users->second.begin(), users->second.end(), [&](std::size_t user) {
             const Instruction& i = code_.instructions[user];
             const std::size_t place = plain_product(i) ? 1 : 0;
             return (plain_product(i) || hands_on(i)) && i.in[place].tensor == o.tensor;
           });
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
