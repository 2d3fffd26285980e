// SPDX-License-Identifier: Apache-2.0
// loop_export.h -- a loop through PastValue or FutureValue as a Scan.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "interchange/onnx/network_export.h"
#include "interchange/onnx/recurrence.h"

namespace tutti::interchange {

class LoopExport {
 public:
  LoopExport(NetworkExport&, const std::vector<std::size_t>& members);
  void run();

 private:
  struct Delayed {
    std::size_t node = 0, first_state = 0, steps = 0;
    std::vector<std::string> states;  // names in the body, the value of the step before first
  };
  void find_outside();
  void add_states(Scan&);
  std::string initial_value(std::size_t delay);

  NetworkExport& all_;
  OnnxBuilder& outside_;
  std::set<std::size_t> members_;
  std::vector<std::size_t> order_;    // of a step
  std::vector<std::size_t> scanned_;  // values per sample from outside
  std::vector<Delayed> delays_;
  std::map<std::size_t, std::string> name_;  // by node, in the body
};

}  // namespace tutti::interchange
