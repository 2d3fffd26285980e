// SPDX-License-Identifier: Apache-2.0
// The engines of the emulator of cuDNN: what they can compute, what they do to numbers, and which of them are fast. The
// fast ones are those that must not be taken: each rounds or does what its note says.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

#include "cudnn_convolution.h"
#include "cudnn_nodes.h"
#include "device.h"

namespace cuda_emulator {
namespace {

using Node = CudnnDoubleNode;

enum Engine : std::int64_t {
  plain_sums,
  of_tensor_cores,
  unsteady,
  narrowing,
  transforming,
  greedy,
  missing,
  forgetful,  // writes where it should add
  faulting,
  engines
};
constexpr int columns_of_fault = 211;  // it is tried with no others

// For windows that go on by single steps plans are faster than the older calls, else slower.
struct Traits {
  std::vector<cudnnBackendNumericalNote_t> notes;
  int bits;     // behind the point, of what it reads as float32
  int quicker;  // than the older calls, in chunks of work
};
Traits traits_of(std::int64_t engine) {
  switch (engine) {
    case of_tensor_cores:
      return {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, bits_of_tf32, 3};
    case unsteady:
      return {{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0, 4};
    case narrowing:
      return {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, 7, 4};
    case transforming:
      return {{CUDNN_NUMERICAL_NOTE_WINOGRAD}, 18, 2};
    case forgetful:
      return {{CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, 0, 4};
    default:
      return {{CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, 0, 1};
  }
}

[[noreturn]] void stop(const char* why) {
  std::fprintf(stderr, "cuDNN's emulator: %s\n", why);
  std::abort();
}

struct Tensor : CudnnDoubleTensor {
  std::int64_t number;
  bool within;  // a graph, without a place in memory
};
Tensor tensor_of(const Node& d) {
  Tensor t;
  for (const std::int64_t n : d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)) t.dims.push_back(static_cast<int>(n));
  for (const std::int64_t n : d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)) t.strides.push_back(static_cast<int>(n));
  t.type = d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  t.number = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.within = d.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && d.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  return t;
}

// A graph as the emulator reads it: a convolution, perhaps with a bias and a ReLU behind it.
struct Plan {
  Tensor x, w, y, bias, last;  // last: what the whole graph leaves
  CudnnDoubleConvolution windows;
  cudnnBackendDescriptorType_t direction;
  bool adds_bias = false, relu = false;
  float beta = 0;

  Geometry geometry() const {
    Tensor out = y;
    out.type = x.type;
    CudnnDoubleFilter filter;
    static_cast<CudnnDoubleTensor&>(filter) = w;
    return {x, filter, windows, out};
  }
  bool goes_on() const { return adds_bias || relu; }
};

bool read_convolution(const Node& d, Plan& plan) {
  const auto first = d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
                         ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
                     : d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                         ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
                         : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
  const auto name = [&](int i) { return static_cast<cudnnBackendAttributeName_t>(first + i); };
  const bool weights = d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  if (d.one<float>(name(0)) != 1.0f) return false;
  plan.direction = d.type, plan.beta = d.one<float>(name(1));
  plan.w = tensor_of(d.part(name(3))), plan.x = tensor_of(d.part(name(4))), plan.y = tensor_of(d.part(name(5)));
  plan.last = weights                                                                  ? plan.w
              : d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? plan.x
                                                                                       : plan.y;
  const Node& windows = d.part(name(2));
  for (const std::int64_t n : windows.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS))
    plan.windows.pads.push_back(static_cast<int>(n));
  for (const std::int64_t n : windows.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES))
    plan.windows.strides.push_back(static_cast<int>(n));
  plan.windows.math = CUDNN_FMA_MATH;
  if (plan.w.dims.size() != plan.x.dims.size() || plan.x.dims[1] % plan.w.dims[1] != 0) return false;
  plan.windows.groups = plan.x.dims[1] / plan.w.dims[1];
  const Geometry g = plan.geometry();
  return g.valid && plan.x.type == plan.w.type && (plan.y.within || plan.y.type == plan.x.type) && !plan.x.within &&
         !plan.w.within;
}

// One that takes what the operation before it has left in the graph.
bool read_pointwise(const Node& d, Plan& plan) {
  if (d.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || plan.relu) return false;
  const Tensor x = tensor_of(d.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)),
               y = tensor_of(d.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  const auto mode =
      d.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const bool follows = x.number == plan.last.number && x.within && x.type == CUDNN_DATA_FLOAT && x.dims == y.dims &&
                       x.strides == y.strides && y.number != x.number;
  if (mode == CUDNN_POINTWISE_ADD) {
    plan.bias = tensor_of(d.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    if (plan.adds_bias || plan.bias.dims[1] != y.dims[1] || plan.bias.within || plan.bias.type != plan.x.type ||
        elements(plan.bias) != static_cast<std::size_t>(y.dims[1]))
      return false;
  }
  (mode == CUDNN_POINTWISE_ADD ? plan.adds_bias : plan.relu) = true;
  plan.last = y;
  return follows;
}

bool read(const Node& graph, Plan& plan) {
  const auto operations = graph.all<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations.empty() || operations[0]->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
      !read_convolution(*operations[0], plan))
    return false;
  const bool forwards = plan.direction == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  for (std::size_t i = 1; i < operations.size(); ++i)
    if (!forwards || plan.beta != 0 || !read_pointwise(*operations[i], plan)) return false;
  std::set<std::int64_t> numbers{plan.x.number, plan.w.number, plan.y.number, plan.last.number};
  if (plan.adds_bias) numbers.insert(plan.bias.number);
  const std::size_t different = 3u + plan.adds_bias + plan.goes_on();
  return !plan.last.within && plan.last.type == plan.x.type && numbers.size() == different;
}

bool is_complete_tensor(const Node& d) {
  const Tensor t = tensor_of(d);
  const std::int64_t alignment = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  const bool positive = std::all_of(t.dims.begin(), t.dims.end(), [](int n) { return n > 0; });
  return positive && t.dims.size() >= 3 && t.dims.size() == t.strides.size() && (lies_plain(t) || lies_last(t)) &&
         alignment >= 4 && std::has_single_bit(static_cast<std::uint64_t>(alignment));
}

bool is_complete_windows(const Node& d) {
  const auto rank = static_cast<std::size_t>(d.one<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  for (const auto name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                          CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
    if (d.all<std::int64_t>(name).size() != rank) return false;
  const auto pads = d.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  return d.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS) == std::vector<std::int64_t>(rank, 1) &&
         pads == d.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) &&
         std::all_of(pads.begin(), pads.end(), [](std::int64_t n) { return n >= 0; }) &&
         d.one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
         d.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION;
}

const Node& graph_of(const Node& plan) {
  const Node& config = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return config.part(CUDNN_ATTR_ENGINECFG_ENGINE).part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}
std::int64_t engine_of(const Node& plan) {
  const Node& config = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return config.part(CUDNN_ATTR_ENGINECFG_ENGINE).one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}
std::int64_t tile_of(const Node& config) {
  const auto knobs = config.all<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  return knobs.empty() ? 0 : knobs[0]->one<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
}

bool is_as_described(const Node& d) {
  Plan plan;
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return is_complete_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return is_complete_windows(d);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return d.one<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_FLOAT;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return read_convolution(d, plan);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const Node& what = d.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      const auto mode = what.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
      return d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) == (mode == CUDNN_POINTWISE_ADD);
    }
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return read(d, plan);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: {
      const auto number = d.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      return number >= 0 && number < engines;
    }
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR: {
      const auto value = d.one<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
      return value >= 0 && value < 2 &&
             d.one<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) == CUDNN_KNOB_TYPE_TILE_SIZE;
    }
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return d.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) &&
             d.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() ==
                 d.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size();
    default:
      return true;
  }
}

// There is nothing behind convolutions of three axes, and not every engine adds to its result.
bool is_supported(const Plan& plan, std::int64_t engine) {
  if (engine == forgetful) return plan.beta != 0;
  if (engine == faulting) return plan.x.dims[0] == columns_of_fault;
  return engine != missing && (plan.x.dims.size() < 5 || !plan.goes_on()) &&
         (plan.beta == 0 || engine == plain_sums || engine == of_tensor_cores);
}

// The places of a plan's operands, as a pack names them: each once, and no others.
class Places {
 public:
  explicit Places(const Node& pack)
      : numbers_(pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)),
        places_(pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)) {}

  bool are_of(const std::vector<std::int64_t>& numbers) const {
    const std::set<std::int64_t> given(numbers_.begin(), numbers_.end()), wanted(numbers.begin(), numbers.end());
    constexpr std::uintptr_t alignment = 16;
    const auto lies_well = [](const void* p) { return p && reinterpret_cast<std::uintptr_t>(p) % alignment == 0; };
    return given.size() == numbers_.size() && given == wanted && std::all_of(places_.begin(), places_.end(), lies_well);
  }
  void* of(const Tensor& t) const {
    const auto at = std::find(numbers_.begin(), numbers_.end(), t.number) - numbers_.begin();
    return places_[static_cast<std::size_t>(at)];
  }

 private:
  std::vector<std::int64_t> numbers_;
  std::vector<void*> places_;
};

std::int64_t workspace_of(std::int64_t engine) {
  return engine == greedy ? std::int64_t{1} << 40 : engine == plain_sums ? 0 : std::int64_t{workspace_bytes};
}

}  // namespace

cudnnStatus_t completed(CudnnDoubleNode& d) {
  if (!is_as_described(d)) return CUDNN_STATUS_BAD_PARAM;
  const bool asks = d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  if (d.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    const auto notes = traits_of(d.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)).notes;
    d.put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  }
  if (!asks && d.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  if (breaks_capture()) return CUDNN_STATUS_INTERNAL_ERROR;
  Plan plan;
  read(asks ? d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) : graph_of(d), plan);
  if (!is_supported(plan, asks ? plain_sums : engine_of(d))) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!asks) d.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::vector{workspace_of(engine_of(d))});
  return CUDNN_STATUS_SUCCESS;
}

std::vector<Proposal> proposals(const CudnnDoubleNode& heuristics) {
  if (heuristics.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK)
    return {{plain_sums, 0}};
  return {{unsteady, 0},  {narrowing, 0}, {of_tensor_cores, 0}, {greedy, 0},     {missing, 0},
          {forgetful, 0}, {faulting, 0},  {transforming, 0},    {plain_sums, 0}, {plain_sums, 1}};
}

cudnnStatus_t executed(cudaStream_t stream, const CudnnDoubleNode& plan_node, const CudnnDoubleNode& pack) {
  Plan plan;
  read(graph_of(plan_node), plan);
  const Places places(pack);
  std::vector<std::int64_t> numbers{plan.x.number, plan.w.number, plan.goes_on() ? plan.last.number : plan.y.number};
  if (plan.adds_bias) numbers.push_back(plan.bias.number);
  void* const workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const std::int64_t engine = engine_of(plan_node);
  const auto bytes = static_cast<std::size_t>(workspace_of(engine));
  if (!places.are_of(numbers) || (bytes > 0 && !on_device(workspace, bytes))) return CUDNN_STATUS_BAD_PARAM;

  if (engine == faulting) device().faulted = true;
  if (engine == forgetful) plan.beta = 0;
  const Traits traits = traits_of(engine);
  Geometry g = plan.geometry();
  if (g.type == CUDNN_DATA_FLOAT) g.bits = traits.bits;
  const bool single_steps = g.stride == std::array<int, 3>{1, 1, 1};
  const int tile = static_cast<int>(tile_of(plan_node.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)));
  const int idle = single_steps ? g.work - std::min(g.work, traits.quicker + tile) : g.work + 2;

  if (lies_plain(plan.last)) ++device().calls.plain_plans;
  const bool odd = ++device().calls.plans % 2 == 1 && engine == unsteady;
  const void* bias = plan.adds_bias ? places.of(plan.bias) : nullptr;
  const auto channels = static_cast<std::size_t>(plan.last.dims[1]),
             step = static_cast<std::size_t>(plan.last.strides[1]);
  const auto finish = [=, type = g.type, relu = plan.relu, life = std::weak_ptr(plan_node.life)](std::size_t i,
                                                                                                 float v) {
    if (life.expired()) stop("a plan that is no more was to be executed");
    if (bias) v += number_at(bias, i / step % channels, stored(type));
    if (relu && v < 0) v = 0;
    return odd ? std::nextafter(v, 1e30f) : v;
  };
  const Operand x{places.of(plan.x), elements(plan.x)}, w{places.of(plan.w), elements(plan.w)};
  const auto add = [&](const Operand& left, const Operand& right, const auto& at) {
    return enqueue_convolution(stream, g, left, right, elements(plan.last), 1.0f, plan.beta, places.of(plan.last),
                               bytes > 0 ? workspace : nullptr, idle, at, finish);
  };
  const Operand y{plan.goes_on() ? nullptr : places.of(plan.y), elements(plan.y)};
  if (plan.direction == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return add(x, w, forwards);
  if (plan.direction == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) return add(y, w, to_data);
  return add(x, y, to_weights);
}

}  // namespace cuda_emulator
