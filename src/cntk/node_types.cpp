// SPDX-License-Identifier: Apache-2.0
#include "cntk/node_types.h"

#include <algorithm>

#include "cntk/records.h"

namespace tutti::cntk {
namespace {

const NodeType types[] = {
    {"LearnableParameter", {}, read_parameter},
    {"InputValue", {}, read_input},
    {"SparseInputValue", "InputValue", read_sparse_input},
    {"Mean InvStdDev", {}, read_statistic},
    // Products.
    {"Times TransposeTimes", {}, read_times},
    {"DiagTimes KhatriRaoProduct LookupTable", {}, nullptr},
    {"ElementTimes", {}, nullptr},
    {"ColumnElementTimes RowElementTimes Scale", "ElementTimes", nullptr},
    // One element at a time.
    {"Plus Minus LogPlus Less Equal Greater GreaterEqual NotEqual LessEqual If Clip", {}, nullptr},
    {"Negate Reciprocal Sigmoid Tanh RectifiedLinear Exp Log Sqrt Abs Floor Sin Cosine Pass", {}, nullptr},
    {"Softmax LogSoftmax Hardmax", {}, nullptr},
    {"Trace", {}, read_trace},
    // Criteria.
    {"CrossEntropyWithSoftmax CrossEntropy SquareError Logistic ClassificationError", {}, nullptr},
    {"ErrorPrediction", "ClassificationError", nullptr},
    {"ClassBasedCrossEntropyWithSoftmax MatrixL1Reg MatrixL2Reg CosDistance", {}, nullptr},
    {"CosDistanceWithNegativeSamples LambdaRank NDCG1Eval", {}, nullptr},
    {"DummyCriterion", {}, nullptr, "its derivatives come from another program"},
    // Reductions and shape.
    {"SumElements SumColumnElements", {}, nullptr},
    {"ReduceElements", {}, read_reduce},
    {"Slice", {}, read_slice},
    {"RowSlice", "Slice", read_slice},
    {"RowStack", {}, read_row_stack},
    {"RowRepeat", {}, read_row_repeat},
    {"Reshape", {}, read_reshape},
    {"LegacyReshape", "Reshape", read_legacy_reshape},
    {"TransposeDimensions", {}, read_transpose},
    {"Transpose", "TransposeDimensions", read_transpose},
    // Images.
    {"Convolution", {}, read_convolution},
    {"Pooling", {}, read_pooling},
    {"MaxPooling", "Pooling", read_max_pooling},
    {"AveragePooling", "Pooling", read_average_pooling},
    {"MaxUnpooling", {}, read_unpooling},
    {"ROIPooling", {}, read_roi_pooling},
    {"BatchNormalization", {}, read_normalization},
    // Time and dynamic axes.
    {"PastValue FutureValue", {}, read_delay},
    {"Delay", "PastValue", read_delay},
    {"Where", {}, read_where},
    {"PackedIndex GatherPacked ScatterPacked ReconcileDynamicAxis", {}, nullptr},
    {"ReconcileMBLayout", "ReconcileDynamicAxis", nullptr},
    {"DynamicAxis", {}, nullptr, "inputs name their dynamic axis"},
    // Training.
    {"Dropout", {}, read_generator},
    {"PerDimMeanVarNormalization PerDimMeanVarDeNormalization", {}, nullptr},
    {"PerDimMeanVarNormalizationNode", "PerDimMeanVarNormalization", nullptr},
    {"PerDimMeanVarDeNormalizationNode", "PerDimMeanVarDeNormalization", nullptr},
};

}  // namespace

const NodeType* find_type(std::string_view name) {
  if (name.empty() || name.find(' ') != name.npos) return nullptr;
  for (const NodeType& type : types)
    for (std::size_t at = 0; at < type.names.size();) {
      const std::size_t end = std::min(type.names.find(' ', at), type.names.size());
      if (type.names.substr(at, end - at) == name) return &type;
      at = end + 1;
    }
  return nullptr;
}

}  // namespace tutti::cntk
