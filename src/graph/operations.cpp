// SPDX-License-Identifier: Apache-2.0
// The operations of graphs with their numbers of inputs, and accessors of node attributes. Builders check calls against
// this table; shapes.cpp and the kernel table have one entry for each.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "tutti/graph.h"

namespace tutti::graph {
namespace {

constexpr int any = -1;

// Attributes follow the names; each has a default unless the builder must give it.
const std::array operations = {
    // Leaves.
    OperationInfo{"InputValue", 0, 0},  // dims, sparse, dynamicAxis
    OperationInfo{"LearnableParameter", 0,
                  0},  // dims, init, initValueScale, value, randomSeed, learningRateMultiplier, ...
    // Products.
    OperationInfo{"Times", 2, 2},  // outputRank=1, inferInputRankToMap=-1
    OperationInfo{"TransposeTimes", 2, 2}, OperationInfo{"DiagTimes", 2, 2}, OperationInfo{"ElementTimes", 2, 2},
    OperationInfo{"KhatriRaoProduct", 2, 2}, OperationInfo{"LookupTable", 2, 2},  // W, one or several one-hot vectors
    // Elementwise with broadcasting.
    OperationInfo{"Plus", 2, 2}, OperationInfo{"Minus", 2, 2}, OperationInfo{"LogPlus", 2, 2},
    OperationInfo{"Less", 2, 2}, OperationInfo{"Equal", 2, 2}, OperationInfo{"Greater", 2, 2},
    OperationInfo{"GreaterEqual", 2, 2}, OperationInfo{"NotEqual", 2, 2}, OperationInfo{"LessEqual", 2, 2},
    OperationInfo{"If", 3, 3},    // condition, then, else
    OperationInfo{"Clip", 3, 3},  // minimum, maximum, value
    // Pointwise.
    OperationInfo{"Negate", 1, 1}, OperationInfo{"Reciprocal", 1, 1}, OperationInfo{"Sigmoid", 1, 1},
    OperationInfo{"Tanh", 1, 1}, OperationInfo{"RectifiedLinear", 1, 1}, OperationInfo{"Exp", 1, 1},
    OperationInfo{"Log", 1, 1}, OperationInfo{"Sqrt", 1, 1}, OperationInfo{"Abs", 1, 1}, OperationInfo{"Floor", 1, 1},
    OperationInfo{"Ceil", 1, 1}, OperationInfo{"Round", 1, 1}, OperationInfo{"Sin", 1, 1},
    OperationInfo{"Cosine", 1, 1}, OperationInfo{"Pass", 1, 1},
    OperationInfo{"Trace", 1,
                  1},  // Pass whose values the log shows; say, logFrequency, logFirst, onlyUpToRow, onlyUpToT
    // Softmax family; axis=0 is the whole sample.
    OperationInfo{"Softmax", 1, 1}, OperationInfo{"LogSoftmax", 1, 1}, OperationInfo{"Hardmax", 1, 1},
    // Criteria.
    OperationInfo{"CrossEntropyWithSoftmax", 2, 2},                       // labels, z; axis=0
    OperationInfo{"ClassificationError", 2, 2},                           // labels, z; topN=1, axis=0
    OperationInfo{"CrossEntropy", 2, 2},                                  // labels, probabilities
    OperationInfo{"SquareError", 2, 2}, OperationInfo{"Logistic", 2, 2},  // label, probability
    OperationInfo{"WeightedLogistic", 3, 3},                              // label, probability, weight
    OperationInfo{"ClassBasedCrossEntropyWithSoftmax", 4, 4},  // [word; class; class's words], z, W, class scores
    OperationInfo{"MatrixL1Reg", 1, 1}, OperationInfo{"MatrixL2Reg", 1, 1}, OperationInfo{"CosDistance", 2, 2},
    OperationInfo{"CosDistanceWithNegativeSamples", 2, 2},  // a, b; shift=1, negatives=1
    OperationInfo{"LambdaRank", 3, 3},                      // gain, score, query
    OperationInfo{"NDCG1Eval", 3, 3},                       // the same
    // Reductions.
    OperationInfo{"SumElements", 1, 1},  // over everything, also the samples
    OperationInfo{"SumColumnElements", 1, 1}, OperationInfo{"ReduceElements", 1, 1},  // op, axis=0
    // Shape.
    OperationInfo{"Slice", 1, 1},                // begin, end, axis=1
    OperationInfo{"RowStack", 1, any},           // axis=1
    OperationInfo{"RowRepeat", 1, 1},            // numRepeats
    OperationInfo{"Reshape", 1, 1},              // dims, beginAxis=0, endAxis=0
    OperationInfo{"TransposeDimensions", 1, 1},  // axis1, axis2
    // Images [W, H, C]; lists of one element stand for all axes.
    OperationInfo{"Convolution", 2,
                  2},                // W, x; kernelDims, mapDims, stride=1, sharing=true, autoPadding=0, lowerPad=0,
                                     // upperPad=0, transpose=false, outputShape, groups=1, imageLayout="CHW"
    OperationInfo{"Pooling", 1, 1},  // poolingType="max", kernelDims, stride=1, autoPadding=0, lowerPad=0, ...
    OperationInfo{"MaxUnpooling", 2, 2},        // values, pooled image; the window as for Pooling
    OperationInfo{"ROIPooling", 2, 2},          // image, regions [4, number]; shape
    OperationInfo{"BatchNormalization", 5, 5},  // x, scale, bias, running mean, running variance; spatial=false,
                                                // normalizationTimeConstant=0, blendTimeConstant=0, epsilon=1e-5
    OperationInfo{"LocalResponseNormalization", 1, 1},  // depthRadius, bias=1, alpha=1, beta=0.75
    // Time. The input of a delay may be created after the delay: that is how loops are written.
    OperationInfo{"PastValue", 1, 2},    // dims, timeStep=1, defaultHiddenActivation=0.1; x, initial state
    OperationInfo{"FutureValue", 1, 2},  // the same
    OperationInfo{"LSTM", 2, 4},         // W x + b [4c], H [4c : c], initial h and c if trained; backwards=false,
                                         // defaultHiddenActivation=0.1
    OperationInfo{"GRU", 2, 3},          // W x + b [3c], H [3c : c], a bias of H's product with resetAfter=true;
                                         // resetAfter=false, backwards=false, defaultHiddenActivation=0.1
    OperationInfo{"TimeReverse", 1, 1},
    // Dynamic axes.
    OperationInfo{"Where", 1, 1},                 // frames where the condition is not 0; a new axis
    OperationInfo{"PackedIndex", 2, 2},           // layout of, frames from Where
    OperationInfo{"GatherPacked", 2, 2},          // index, source
    OperationInfo{"ScatterPacked", 3, 3},         // layout of, index, source
    OperationInfo{"ReconcileDynamicAxis", 2, 2},  // data, layout of
    OperationInfo{"ZeroSequence", 1, 1},          // 0 for every step of the input's axis
    OperationInfo{"BroadcastSequenceAs", 2, 2},   // layout of, sequences of length 1
    // Training and corpus statistics.
    OperationInfo{"Dropout", 1, 1},  // rate: instead of the epoch's
    OperationInfo{"Mean", 1, 1}, OperationInfo{"InvStdDev", 1, 1},
    OperationInfo{"PerDimMeanVarNormalization", 3, 3},    // x, mean, 1/deviation
    OperationInfo{"PerDimMeanVarDeNormalization", 3, 3},  // x, mean, 1/deviation
};

template <class T>
const T* attribute(const Node& node, const std::string& name) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  assert(value && "attribute of another type than the table of operations says");
  return value;
}

}  // namespace

bool flag(const Node& node, const std::string& name, bool otherwise) {
  const auto* value = attribute<bool>(node, name);
  return value ? *value : otherwise;
}

double number(const Node& node, const std::string& name, double otherwise) {
  const auto* value = attribute<double>(node, name);
  return value ? *value : otherwise;
}

std::string text(const Node& node, const std::string& name, const std::string& otherwise) {
  const auto* value = attribute<std::string>(node, name);
  return value ? *value : otherwise;
}

std::vector<double> numbers(const Node& node, const std::string& name) {
  const auto* value = attribute<std::vector<double>>(node, name);
  return value ? *value : std::vector<double>{};
}

const OperationInfo* find_operation(const std::string& name) {
  const auto found = std::find_if(operations.begin(), operations.end(), [&](const auto& o) { return o.name == name; });
  return found == operations.end() ? nullptr : &*found;
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto& o : operations) names.push_back(o.name);
  return names;
}

}  // namespace tutti::graph
