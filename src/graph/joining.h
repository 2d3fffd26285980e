// SPDX-License-Identifier: Apache-2.0
// joining.h -- shared by the passes that fuse instructions: which instruction makes a value, which ones use it, and
// removal of fused instructions.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "graph/lower.h"

namespace tutti::graph {

class Joining {
 public:
  Joining(Lowered& code, const std::vector<std::size_t>& roots);

 protected:
  // Whether exactly one instruction uses the value.
  bool used_once(const Operand&) const;
  // The instruction that makes a value with a single use; null if there is none.
  const Instruction* made_for(const Operand&) const;
  // Whether both run step by step in the same loop, or neither is in a loop.
  bool in_one_loop(std::size_t instruction, std::size_t other) const;
  // Removes the instructions in gone_ and adds those in in_front_; loops keep their members.
  void take_out();

  Lowered& code_;
  std::set<std::size_t> kept_, gone_;  // tensors that are visible elsewhere; removed instructions
  std::map<std::size_t, std::vector<Instruction>> in_front_;  // by instruction that they come in front of; no loops
  std::map<std::size_t, std::size_t> makers_;                 // by tensor
  std::map<std::size_t, std::vector<std::size_t>> users_;     // by tensor, one entry per use
};

}  // namespace tutti::graph
