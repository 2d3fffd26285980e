// SPDX-License-Identifier: Apache-2.0
// joining.h -- what the passes share that make one instruction of several: who makes a value and who uses it, and
// taking out what has been joined.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "graph/lower.h"

namespace tutti::graph {

class Joining {
 protected:
  Joining(Lowered& code, const std::vector<std::size_t>& roots);

  // Whether one instruction alone sees the value.
  bool used_once(const Operand&) const;
  // The instruction that makes a value for one use alone; null when there is none such.
  const Instruction* made_for(const Operand&) const;
  // Whether both run step by step in the same loop, or neither does in any.
  bool in_one_loop(std::size_t instruction, std::size_t other) const;
  // Removes the instructions in gone_; loops keep their members.
  void take_out();

  Lowered& code_;
  std::set<std::size_t> kept_, gone_;                      // tensors that others see as well; instructions
  std::map<std::size_t, std::size_t> makers_;              // by tensor
  std::map<std::size_t, std::vector<std::size_t>> users_;  // by tensor, once for each use
};

}  // namespace tutti::graph
