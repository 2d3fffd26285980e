// SPDX-License-Identifier: Apache-2.0
// parallel_methods.h -- settings of ParallelTrain for tests that try several.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train_run.h"

namespace tutti::actions {

// Methods with weights of their own between exchanges, momentum kept and reset, blocks that end within epochs or not.
inline const std::vector<std::pair<std::string, std::string>>& some_methods() {
  static const std::vector<std::pair<std::string, std::string>> methods{
      {"averaging", "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=80]"},
      {"kept", "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=1000;resetSGDMomentum=false]"},
      {"bits", "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80;exchangeBits=1]"},
      {"elastic", "parallelizationMethod=EASGD;EASGD=[period=3]"},
      {"weights", "parallelizationMethod=ASA;ASA=[exchange=weights;exchangeBits=16]"},
  };
  return methods;
}

inline std::string in_parallel_block(const std::string& settings) {
  return "Train=[SGD=[ParallelTrain=[" + settings + "]]]";
}

}  // namespace tutti::actions
