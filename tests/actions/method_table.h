// SPDX-License-Identifier: Apache-2.0
// method_table.h -- every method of exchange in the settings that users may give it, one line each. What is true of all
// of them is tried on all of them: a new method is a new line.
#pragma once

#include <string>
#include <vector>

#include "train_run.h"

namespace tutti::actions {

struct Method {
  std::string name;
  std::string settings;      // of ParallelTrain
  std::string bits;          // the block whose key says in how many bits it exchanges; "" = 32 only
  bool repeats = true;       // the same bits in every run
  bool drains = false;       // a checkpoint within an epoch waits for what is on its way, and so changes numbers
  bool plain_alone = false;  // one rank trains as with none
  bool sums = false;         // any number of ranks trains as one, but for the order of sums
};

inline std::string block_momentum(const std::string& settings) {
  return "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80;" + settings + "]";
}

inline std::string servers(const std::string& settings) {
  return "parallelizationMethod=ASGD;DataParallelASGD=[" + settings + "]";
}

// Blocks that end within epochs or not, momentum of SGD kept and reset.
inline const std::vector<Method>& methods() {
  static const std::vector<Method> table{
      {"none", "parallelizationMethod=none", "", true, false, true},
      {"gradients", "parallelizationMethod=DataParallelSGD", "DataParallelSGD", true, false, true, true},
      {"one-bit", "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]", ""},
      {"late", "parallelizationMethod=DataParallelSGD;DataParallelSGD=[useBufferedAsyncGradientAggregation=true]",
       "DataParallelSGD", true, true},
      {"asa", "parallelizationMethod=ASA", "ASA", true, false, true, true},
      {"asa-weights", "parallelizationMethod=ASA;ASA=[exchange=weights;exchangeBits=16]", "ASA"},
      {"asa-library", "parallelizationMethod=ASA;ASA=[allReduce=library]", "", true, false, true, true},
      {"asa-weights-library", "parallelizationMethod=ASA;ASA=[exchange=weights;allReduce=library]", "", true, false,
       true},
      {"averaging-each", "parallelizationMethod=ModelAveragingSGD", "", true, false, true},
      {"averaging", "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=80]", "ModelAveragingSGD",
       true, false, true},
      {"blocks", block_momentum(""), "BlockMomentumSGD"},
      {"blocks-kept", "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=1000;resetSGDMomentum=false]",
       "BlockMomentumSGD"},
      {"blocks-bits", block_momentum("exchangeBits=2"), ""},
      {"outer-nesterov", block_momentum("outerOptimizer=nesterov"), "BlockMomentumSGD"},
      {"outer-sgd", block_momentum("outerOptimizer=sgd;resetSGDMomentum=false"), "BlockMomentumSGD"},
      {"outer-adam", block_momentum("outerOptimizer=adam;outerLearningRate=0.001"), "BlockMomentumSGD"},
      {"fragments", block_momentum("outerOptimizer=nesterov;fragments=3;overlap=1"), "BlockMomentumSGD"},
      {"averaging-fragments",
       "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=120;fragments=2;overlap=2]",
       "ModelAveragingSGD"},
      {"elastic", "parallelizationMethod=EASGD;EASGD=[period=3]", "EASGD"},
      {"servers", servers("syncPeriod=20"), "DataParallelASGD", false, true, true},
      {"servers-late", servers("syncPeriod=20;usePipeline=true"), "DataParallelASGD", false, true, true},
      {"servers-bounded", servers("maxStaleness=1;syncPeriod=10"), "DataParallelASGD", false, true, true},
      {"servers-gradients", servers("push=gradients"), "DataParallelASGD", false, true, true},
      {"servers-mixed", servers("push=gradients;policy=mixed"), "DataParallelASGD", false, true, true},
      {"servers-sync", servers("push=gradients;policy=sync"), "DataParallelASGD", true, true, true},
      {"servers-averaging", servers("SimModelAverage=true;syncPeriod=30"), "DataParallelASGD", true, true, true},
      {"elastic-free", "parallelizationMethod=EASGD;EASGD=[period=3;policy=async]", "EASGD", false},
      {"elastic-shares", "parallelizationMethod=EASGD;EASGD=[period=1;policy=async;division=static;exchangeBits=1]", "",
       false},
  };
  return table;
}

// Of which two runs can be compared.
inline std::vector<std::pair<std::string, std::string>> exact_methods() {
  std::vector<std::pair<std::string, std::string>> result;
  for (const Method& m : methods())
    if (m.repeats) result.emplace_back(m.name, m.settings);
  return result;
}

inline std::string in_parallel_block(const std::string& settings) {
  return "Train=[SGD=[ParallelTrain=[" + settings + "]]]";
}

// `exchange` is 32, 16, bf16, 8, 4, 2 or 1; nothing for a method of 32 bits only.
inline std::string in_parallel_block(const Method& m, const std::string& exchange = "") {
  const bool given = !exchange.empty() && !m.bits.empty();
  return in_parallel_block(m.settings + (given ? fmt::format(";{}=[exchangeBits={}]", m.bits, exchange) : ""));
}

}  // namespace tutti::actions
