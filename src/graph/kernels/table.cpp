// SPDX-License-Identifier: Apache-2.0
// Operation name -> kernel. Operations that are missing here are lowered to others in lower.cpp.
#include <cassert>
#include <functional>
#include <map>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

using Maker = std::function<std::unique_ptr<Kernel>(Instruction)>;

Maker map(UnaryOp op) {
  return [op](Instruction i) { return make_map(op, std::move(i)); };
}
Maker combine(PointOp op) {
  return [op](Instruction i) { return make_combine(op, std::move(i)); };
}
Maker softmax(SoftmaxOp op) {
  return [op](Instruction i) { return make_softmax(op, std::move(i)); };
}
Maker loss(LossOp op) {
  return [op](Instruction i) { return make_loss(op, std::move(i)); };
}
Maker times(bool transposed) {
  return [transposed](Instruction i) { return make_times(transposed, std::move(i)); };
}
Maker ranking(bool first_only) {
  return [first_only](Instruction i) { return make_ranking(first_only, std::move(i)); };
}

Maker delay(bool past) {
  return [past](Instruction i) { return make_delay(past, std::move(i)); };
}

const std::map<std::string, Maker> makers = {
    {"Times", times(false)},
    {"TransposeTimes", times(true)},
    {"BiasActivation", make_bias_activation},  // made by fusion

    {"Plus", combine(PointOp::plus)},
    {"Minus", combine(PointOp::minus)},
    {"ElementTimes", combine(PointOp::times)},
    {"LogPlus", combine(PointOp::log_plus)},
    {"Less", combine(PointOp::less)},
    {"Equal", combine(PointOp::equal)},
    {"Greater", combine(PointOp::greater)},
    {"GreaterEqual", combine(PointOp::greater_equal)},
    {"NotEqual", combine(PointOp::not_equal)},
    {"LessEqual", combine(PointOp::less_equal)},
    {"If", combine(PointOp::choose)},
    {"Clip", combine(PointOp::clip)},
    {"PerDimMeanVarNormalization", combine(PointOp::normalize)},
    {"PerDimMeanVarDeNormalization", combine(PointOp::denormalize)},

    {"Negate", map(UnaryOp::negate)},
    {"Reciprocal", map(UnaryOp::reciprocal)},
    {"Sigmoid", map(UnaryOp::sigmoid)},
    {"Tanh", map(UnaryOp::tanh)},
    {"RectifiedLinear", map(UnaryOp::relu)},
    {"Exp", map(UnaryOp::exp)},
    {"Log", map(UnaryOp::log)},
    {"Sqrt", map(UnaryOp::sqrt)},
    {"Abs", map(UnaryOp::abs)},
    {"Floor", map(UnaryOp::floor)},
    {"Ceil", map(UnaryOp::ceil)},
    {"Round", map(UnaryOp::round)},
    {"Sin", map(UnaryOp::sin)},
    {"Cosine", map(UnaryOp::cosine)},
    {"Dropout", make_dropout},

    {"Softmax", softmax(SoftmaxOp::softmax)},
    {"LogSoftmax", softmax(SoftmaxOp::log_softmax)},
    {"Hardmax", softmax(SoftmaxOp::hardmax)},
    {"ReduceElements", make_reduce},

    {"CrossEntropyWithSoftmax", loss(LossOp::cross_entropy_with_softmax)},
    {"ClassificationError", loss(LossOp::classification_error)},
    {"CrossEntropy", loss(LossOp::cross_entropy)},
    {"SquareError", loss(LossOp::square_error)},
    {"Logistic", loss(LossOp::logistic)},
    {"WeightedLogistic", loss(LossOp::weighted_logistic)},
    {"LambdaRank", ranking(false)},
    {"NDCG1Eval", ranking(true)},
    {"ClassBasedCrossEntropyWithSoftmax", make_class_loss},
    {"SumElements", loss(LossOp::sum)},
    {"MatrixL1Reg", loss(LossOp::sum_abs)},

    {"Slice", make_slice},
    {"RowStack", make_row_stack},
    {"TransposeDimensions", make_transpose},

    {"Convolution", make_convolution},
    {"LocalConvolution", make_local_convolution},  // without sharing
    {"Pooling", make_pooling},
    {"MaxUnpooling", make_unpooling},
    {"Reorder", make_reorder},  // made by the choice of layouts
    {"ROIPooling", make_region_pooling},
    {"BatchNormalization", make_batch_normalization},
    {"LocalResponseNormalization", make_response_normalization},
    {"PastValue", delay(true)},
    {"FutureValue", delay(false)},
    {"LSTM", make_lstm},
    {"GRU", make_gru},
    {"TimeReverse", make_time_reverse},
    {"ShiftSamples", make_shift_samples},  // negative samples
    {"SliceTime", make_slice_time},        // Slice with axis = -1
    {"ReconcileDynamicAxis", make_reconcile},
    {"BroadcastSequenceAs", make_broadcast},
    {"ZeroSequence", make_zero_sequence},
    {"Where", make_where},
    {"PackedIndex", make_packed_index},
    {"GatherPacked", make_gather},
    {"ScatterPacked", make_scatter},
};

}  // namespace

bool has_kernel(const std::string& operation) { return makers.contains(operation); }

std::unique_ptr<Kernel> make_kernel(Instruction instruction) {
  const auto found = makers.find(instruction.operation);
  assert(found != makers.end() && "lowering left an operation without a kernel");
  return found->second(std::move(instruction));
}

}  // namespace tutti::graph
