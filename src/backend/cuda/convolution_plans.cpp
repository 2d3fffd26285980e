// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/convolution_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "base/cuda/runtime.h"

namespace tutti::cuda {
namespace {

using Graph = ConvolutionGraph;

constexpr std::int64_t bytes_at_once = 16;

std::int64_t number_of(std::size_t operand) { return static_cast<std::int64_t>(operand) + 1; }

// The descriptor and attributes of a direction.
struct Direction {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, operands[3];
};
const Direction& direction_of(Graph::Operand result) {
  static constexpr Direction backward_data = {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}};
  static constexpr Direction backward_weights = {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};
  static constexpr Direction forward = {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}};
  return result == Graph::x ? backward_data : result == Graph::w ? backward_weights : forward;
}

bool is_allowed(cudnnBackendNumericalNote_t note, const EngineRules& rules) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return rules.tensor_cores;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      return rules.narrows;
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      return rules.winograd;
    default:
      return true;
  }
}

// Empty if the engine is not allowed.
std::string name_of(const GraphDescriptor& proposal, const EngineRules& rules) {
  const auto engine = proposal.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engine.empty()) return "";
  const auto number = engine[0].values<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1);
  const auto notes =
      engine[0].values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto allowed = [&](cudnnBackendNumericalNote_t note) { return is_allowed(note, rules); };
  if (number.empty() || !std::all_of(notes.begin(), notes.end(), allowed)) return "";
  std::string name = fmt::format("{}:", number[0]);
  for (const GraphDescriptor& knob : proposal.parts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                    CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    const auto type = knob.values<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1);
    const auto value = knob.values<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1);
    if (type.empty() || value.empty()) return "";
    name += fmt::format("{}={},", static_cast<int>(type[0]), value[0]);
  }
  return name;
}

}  // namespace

GraphDescriptor& GraphDescriptor::put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                      std::size_t count, const void* values) {
  if (status_ == CUDNN_STATUS_SUCCESS)
    status_ = cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(count), values);
  return *this;
}

GraphDescriptor& GraphDescriptor::set(cudnnBackendAttributeName_t name,
                                      const std::vector<const GraphDescriptor*>& parts) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const GraphDescriptor* p : parts) {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = p->status_;
    all.push_back(p->get());
  }
  return put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, all.size(), all.data());
}

cudnnStatus_t GraphDescriptor::complete() {
  if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnnBackendFinalize(get());
  return status_;
}

std::size_t GraphDescriptor::take(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t most,
                                  void* values) const {
  std::int64_t n = 0;
  const bool taken =
      status_ == CUDNN_STATUS_SUCCESS &&
      cudnnBackendGetAttribute(get(), name, type, static_cast<std::int64_t>(most), &n, values) == CUDNN_STATUS_SUCCESS;
  return taken ? std::min(most, static_cast<std::size_t>(std::max<std::int64_t>(n, 0))) : 0;
}

std::vector<GraphDescriptor> GraphDescriptor::parts(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                                    std::size_t most) const {
  std::vector<GraphDescriptor> all;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::size_t i = 0; i < most; ++i) handles.push_back(all.emplace_back(type).get());
  const std::size_t taken = take(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, handles.data());
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(taken), all.end());
  return all;
}

ConvolutionPlans::ConvolutionPlans(const Graph& g, cudnnHandle_t handle, cudaStream_t stream)
    : handle_(handle), stream_(stream) {
  const auto tensor = [&](const Graph::Tensor& t, cudnnDataType_t type, std::int64_t number, bool within) -> auto& {
    GraphDescriptor& d = part(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type).set(CUDNN_ATTR_TENSOR_DIMENSIONS, t.dims);
    d.set(CUDNN_ATTR_TENSOR_STRIDES, t.strides).set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, bytes_at_once).set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, within).complete();
    return d;
  };
  const auto operand = [&](std::size_t which) -> auto& {
    used_.push_back(which);
    return tensor(g.tensors[which], g.type, number_of(which), false);
  };
  std::vector<const GraphDescriptor*> operations;
  const bool goes_on = g.adds_bias || g.relu;
  // A tensor between two operations, which is never in memory.
  std::int64_t number_within = number_of(Graph::operands);
  const auto within = [&]() -> auto& { return tensor(g.tensors[Graph::y], CUDNN_DATA_FLOAT, number_within++, true); };

  const Direction& direction = direction_of(g.result);
  GraphDescriptor& convolution = part(direction.type);
  const GraphDescriptor* last = nullptr;
  for (const Graph::Operand o : {Graph::x, Graph::w, Graph::y}) {
    const GraphDescriptor& d = o == Graph::y && goes_on ? within() : operand(o);
    convolution.set(direction.operands[o], d);
    last = &d;
  }
  convolution.set(direction.alpha, 1.0f).set(direction.beta, g.accumulates ? 1.0f : 0.0f);
  convolution.set(direction.convolution, windows(g)).complete();
  operations.push_back(&convolution);

  const auto pointwise = [&](cudnnPointwiseMode_t mode, const GraphDescriptor* added, bool is_last) {
    GraphDescriptor& what = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    what.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    what.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN).complete();
    const GraphDescriptor& to = is_last ? operand(Graph::y) : within();
    GraphDescriptor& d = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *last);
    if (added) d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *added);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to).complete();
    operations.push_back(&d), last = &to;
  };
  if (g.adds_bias) pointwise(CUDNN_POINTWISE_ADD, &operand(Graph::bias), !g.relu);
  if (g.relu) pointwise(CUDNN_POINTWISE_RELU_FWD, nullptr, true);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle).set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations).complete();
}

// Destroying a plan may free kernels that the library made for it, so nothing enqueued or captured may use them.
ConvolutionPlans::~ConvolutionPlans() {
  cudaStreamSynchronize(stream_);
  count_giving_back();
}

GraphDescriptor& ConvolutionPlans::part(cudnnBackendDescriptorType_t type) {
  return *parts_.emplace_back(std::make_unique<GraphDescriptor>(type));
}

const GraphDescriptor& ConvolutionPlans::windows(const Graph& g) {
  GraphDescriptor& d = part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const std::vector<std::int64_t> dilations(g.pads.size(), 1);
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION).set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilations);
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, g.strides).set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, g.pads);
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, g.pads);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(g.pads.size())).complete();
  return d;
}

std::vector<std::string> ConvolutionPlans::names(const EngineRules& rules, std::size_t most) const {
  constexpr std::size_t most_proposals = 64;
  std::vector<std::string> all;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    GraphDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode).complete();
    for (const GraphDescriptor& proposal :
         heuristics.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most_proposals)) {
      const std::string name = name_of(proposal, rules);
      if (!name.empty() && all.size() < most && std::find(all.begin(), all.end(), name) == all.end())
        all.push_back(name);
    }
  }
  return all;
}

bool ConvolutionPlans::take(const std::string& name) {
  std::istringstream words(name);
  std::int64_t number = 0;
  char mark = 0;
  if (!(words >> number >> mark)) return false;
  configuration_.clear();
  const auto add = [&](cudnnBackendDescriptorType_t type) -> auto& {
    return *configuration_.emplace_back(std::make_unique<GraphDescriptor>(type));
  };
  GraphDescriptor& engine = add(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number).complete();
  std::vector<const GraphDescriptor*> knobs;
  int type = 0;
  std::int64_t value = 0;
  for (char equals = 0, comma = 0; words >> type >> equals >> value >> comma;) {
    GraphDescriptor& knob = add(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value).complete();
    knobs.push_back(&knob);
  }
  GraphDescriptor& config = add(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty()) config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  config.complete();
  plan_ = GraphDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_).set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (plan_.complete() != CUDNN_STATUS_SUCCESS) return false;
  const auto bytes = plan_.values<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1);
  if (bytes.empty() || bytes[0] < 0) return false;
  workspace_ = static_cast<std::size_t>(bytes[0]);
  return true;
}

bool ConvolutionPlans::lie_well(const Pointers& pointers) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % bytes_at_once == 0; });
}

cudnnStatus_t ConvolutionPlans::run(const Pointers& pointers, void* workspace) const {
  std::vector<std::int64_t> numbers;
  std::vector<void*> places;
  for (const std::size_t operand : used_) {
    numbers.push_back(number_of(operand));
    places.push_back(const_cast<void*>(pointers[operand]));
  }
  GraphDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers).set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, places);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  const cudnnStatus_t status = pack.complete();
  return status == CUDNN_STATUS_SUCCESS ? cudnnBackendExecute(handle_, plan_.get(), pack.get()) : status;
}

}  // namespace tutti::cuda
