// SPDX-License-Identifier: Apache-2.0
#include "graph/joining.h"

#include <algorithm>
#include <iterator>
#include <utility>

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
  for (std::size_t i = 0; i < code_.instructions.size(); ++i)
    if (!gone_.contains(i)) rest.push_back(std::move(code_.instructions[i]));
  code_.instructions = std::move(rest);
}

}  // namespace tutti::graph
