// SPDX-License-Identifier: Apache-2.0
#include "brainscript/not_available.h"

#include <algorithm>

#include "brainscript/ndl.h"

namespace tutti::brainscript {

const std::vector<NotAvailable>& not_available() {
  static const std::string sampling =
      "train with CrossEntropyWithSoftmax over all classes, or ClassBasedCrossEntropyWithSoftmax";
  static const std::string sequences = "train with CrossEntropyWithSoftmax on the labels of the frames";
  static const std::string lstm =
      "use RecurrentLSTMLayer or RecurrentLSTMLayerStack; GRUs are BS.RNNs.RecurrentGRUStack";
  static const std::vector<NotAvailable> all = {
      {"OptimizedRNNStack", lstm},
      {"RNNStack", lstm},
      {"RandomSample", sampling},
      {"GetRandomSample", sampling},
      {"RandomSampleInclusionFrequency", sampling},
      {"GetInclusionFrequency", sampling},
      {"SequenceWithSoftmax", sequences},
      {"SequenceWithLattice", sequences},
      {"SequenceDecoder", "write the scores of the labels and decode them outside of the network"},
      {"CRF", sequences},
      {"ForwardBackward", sequences},
      {"LabelsToGraph", sequences},
      {"DummyCriterion", "compute the criterion in the network; derivatives of other programs cannot be read"},
      {"EditDistanceError",
       "write the decoded labels and compare them outside of the network; ClassificationError counts frames"},
      {"GMMLogLikelihood", "write the mixture out: ReduceLogSum (LogSoftmax (prior) - ...) over its components"},
      {"EnvironmentInput", "give the value as a Constant"},
      {"QuantizedTimes", "use Times; computeType = \"bfloat16\" computes products in 16 bits"},
      {"StrideTimes", "use Times on a Slice"},
      {"PairNetwork", "name both networks in one description: BS.Network.CloneFunction takes parts of trained models"},
  };
  return all;
}

const NotAvailable* find_not_available(const std::string& name) {
  const auto found = std::find_if(not_available().begin(), not_available().end(),
                                  [&](const auto& n) { return ndl::lower(n.name) == ndl::lower(name); });
  return found == not_available().end() ? nullptr : &*found;
}

}  // namespace tutti::brainscript
