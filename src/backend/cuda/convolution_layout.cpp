// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/convolution_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/divisor.h"
#include "backend/cuda/images.h"

namespace tutti::cuda {
namespace {

// The largest difference between two algorithms, relative to the size of the result: far more than rounding, far less
// than the effect of an engine that ignores a part of its description.
constexpr double most_apart = 1.0 / 32;

cudnnDataType_t data_type(Element e) {
  return e == Element::float32 ? CUDNN_DATA_FLOAT : e == Element::bfloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

// Convolutions of float32 stay in float32; the other types may use tensor cores, which read float32 as tf32 and add in
// float32.
cudnnMathType_t math_of(ConvolutionLayout layout, ComputeType type) {
  if (type == ComputeType::float32) return CUDNN_FMA_MATH;
  if (layout == ConvolutionLayout::last_in_16_bits) return CUDNN_TENSOR_OP_MATH;
  return layout == ConvolutionLayout::plain && type == ComputeType::float16 ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
                                                                            : CUDNN_DEFAULT_MATH;
}

// The allowed algorithms (same bits every time, enough memory), fastest first. In float32 the library may also measure
// its default math, which rounds to tf32. Results measured that way come after those measured as they are run; the
// algorithm may not exist in float32.
template <class Performance>
std::vector<Algorithms::Choice> candidates(const std::vector<Performance>& results, ComputeType type, bool winograd,
                                           const std::vector<int>& of_winograd) {
  std::vector<Algorithms::Choice> measured, named;
  for (const Performance& p : results) {
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC || p.memory > most_workspace) continue;
    const bool rounds = p.mathType == CUDNN_TENSOR_OP_MATH || p.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (type == ComputeType::float32 && rounds) continue;
    if (!winograd && std::find(of_winograd.begin(), of_winograd.end(), static_cast<int>(p.algo)) != of_winograd.end())
      continue;
    const bool as_run = type != ComputeType::float32 || p.mathType == CUDNN_FMA_MATH;
    (as_run ? measured : named).push_back({static_cast<int>(p.algo), as_run ? p.mathType : CUDNN_FMA_MATH});
  }
  measured.insert(measured.end(), named.begin(), named.end());
  return measured;
}

template <class Performance>
bool lacked_memory(const Performance& p) {
  return p.status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         p.status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

// cuDNN pads both sides of an axis equally. For any other padding the image is copied into a frame.
bool wants_frame(const ImageWindow& w) {
  for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
    const std::size_t padded = w.in[axis] + 2 * w.pad[axis];
    if (padded < w.kernel[axis] || (padded - w.kernel[axis]) / w.stride[axis] + 1 != w.out[axis]) return true;
  }
  return false;
}

using Dims = std::vector<std::int64_t>;

std::vector<int> ints(const Dims& d) { return {d.begin(), d.end()}; }

// Sizes in cuDNN's order, the fastest axis last; one-dimensional images get a second axis of size 1.
Dims spatial(const ImageWindow& w, const ImageWindow::Sizes& sizes) {
  Dims result;
  for (std::size_t axis = std::max<std::size_t>(w.rank, 2); axis-- > 0;)
    result.push_back(static_cast<std::int64_t>(sizes[axis]));
  return result;
}

// An array without gaps, plain or with its second axis last.
ConvolutionGraph::Tensor tensor_of(std::size_t outer, std::size_t channels, const Dims& sizes, bool last) {
  Dims dims{static_cast<std::int64_t>(outer), static_cast<std::int64_t>(channels)};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  Dims strides(dims.size(), 1);
  std::int64_t step = last ? dims[1] : 1;
  for (std::size_t axis = dims.size() - 1; axis > 1; step *= dims[axis], --axis) strides[axis] = step;
  strides[1] = last ? 1 : step;
  strides[0] = last ? step : step * dims[1];
  return {dims, strides};
}

TensorDescriptor descriptor_of(const ConvolutionGraph::Tensor& t, cudnnDataType_t type) {
  std::size_t count = 1;
  for (const std::int64_t size : t.dims) count *= static_cast<std::size_t>(size);
  in_32_bits(count);
  const std::vector<int> dims = ints(t.dims), strides = ints(t.strides);
  TensorDescriptor d;
  check(cudnnCreateTensorDescriptor(d.out()), "describing an image");
  check(cudnnSetTensorNdDescriptor(d.get(), type, static_cast<int>(dims.size()), dims.data(), strides.data()),
        "describing an image");
  return d;
}

}  // namespace

Handle<void*, cudaFree> trial_memory(std::size_t bytes) {
  Handle<void*, cudaFree> memory;
  *memory.out() = take_device_memory(bytes);
  return memory;
}

LaidOutConvolution::LaidOutConvolution(const ConvolutionShape& s, ConvolutionLayout layout, CudaImages& images)
    : shape_(s), layout_(layout), images_(images) {
  const ImageWindow& w = s.window;
  const bool last = layout != ConvolutionLayout::plain;
  const Element element = layout == ConvolutionLayout::last_in_16_bits ? images.element() : Element::float32;
  // Tensor cores read 16 bytes of channels at a time. If the image is copied anyway, its channels are padded to that.
  const std::size_t whole = 16 / bytes_of(element);
  const bool fills = last && s.in == Format::plain && s.groups == 1;
  const std::size_t stored = fills ? (s.in_channels + whole - 1) / whole * whole : s.in_channels;
  x_ = {s.columns, s.in_channels, w.in, w.in, {0, 0, 0}, s.in, s.in_element, last, stored, element};
  if (wants_frame(w))
    for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis)
      x_.frame[axis] = (w.out[axis] - 1) * w.stride[axis] + w.kernel[axis], x_.pad[axis] = w.pad[axis];
  y_ = {s.columns, s.out_channels, w.out, w.out, {0, 0, 0}, s.out, s.out_element, last, s.out_channels, element};
  w_ = {ImageWindow::product(w.kernel), s.in_channels / s.groups, s.out_channels, stored / s.groups, last, element};
  bias_ = {1, 1, s.out_channels, 1, false, element};
  describe();
}

void LaidOutConvolution::describe() {
  constexpr const char* doing = "describing a convolution";
  const ImageWindow& w = shape_.window;
  const cudnnDataType_t type = data_type(x_.element);
  const Dims kernel = spatial(w, w.kernel), ones(kernel.size(), 1);
  graph_.tensors[ConvolutionGraph::x] = tensor_of(x_.columns, x_.stored, spatial(w, x_.frame), x_.last);
  graph_.tensors[ConvolutionGraph::w] = tensor_of(w_.out, w_.stored, kernel, w_.last);
  graph_.tensors[ConvolutionGraph::y] = tensor_of(y_.columns, y_.stored, spatial(w, y_.frame), y_.last);
  graph_.tensors[ConvolutionGraph::bias] = tensor_of(1, y_.stored, ones, y_.last);
  graph_.pads = wants_frame(w) ? Dims(kernel.size(), 0) : spatial(w, w.pad);
  graph_.strides = spatial(w, w.stride);
  graph_.type = type;
  x_descriptor_ = descriptor_of(graph_.tensors[ConvolutionGraph::x], type);
  y_descriptor_ = descriptor_of(graph_.tensors[ConvolutionGraph::y], type);
  const std::vector<int> dims = ints(graph_.tensors[ConvolutionGraph::w].dims);
  check(cudnnCreateFilterDescriptor(w_descriptor_.out()), doing);
  check(cudnnSetFilterNdDescriptor(w_descriptor_.get(), type, w_.last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                   static_cast<int>(dims.size()), dims.data()),
        doing);
  fuses_ = shape_.bias && shape_.relu && y_.is_image();
  if (!fuses_) return;
  bias_descriptor_ = descriptor_of(tensor_of(1, y_.stored, ones, false), type);
  check(cudnnCreateActivationDescriptor(relu_.out()), doing);
  check(cudnnSetActivationDescriptor(relu_.get(), CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0), doing);
}

ConvolutionDescriptor LaidOutConvolution::describe_convolution(cudnnMathType_t math) const {
  constexpr const char* doing = "describing a convolution";
  const std::vector<int> pads = ints(graph_.pads), strides = ints(graph_.strides), ones(pads.size(), 1);
  ConvolutionDescriptor d;
  check(cudnnCreateConvolutionDescriptor(d.out()), doing);
  check(cudnnSetConvolutionNdDescriptor(d.get(), static_cast<int>(pads.size()), pads.data(), strides.data(),
                                        ones.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        doing);
  check(cudnnSetConvolutionGroupCount(d.get(), static_cast<int>(shape_.groups)), doing);
  check(cudnnSetConvolutionMathType(d.get(), math), doing);
  return d;
}

// What kernels may do to the numbers of the layout, as its math type allows.
EngineRules LaidOutConvolution::rules() const {
  const bool narrows = layout_ == ConvolutionLayout::plain && images_.compute_type() == ComputeType::float16;
  return {
      .tensor_cores = images_.compute_type() != ComputeType::float32, .narrows = narrows, .winograd = shape_.winograd};
}

Algorithms::Choice LaidOutConvolution::find_calls(Operand result) const {
  not_while_capturing(images_.stream());
  const ConvolutionDescriptor convolution = describe_convolution(math_of(layout_, images_.compute_type()));
  const auto x = x_descriptor_.get(), y = y_descriptor_.get();
  const auto w = w_descriptor_.get();
  const auto c = convolution.get();
  constexpr int most = 16;
  const auto best = [&](auto performance, const std::vector<int>& of_winograd, const auto& find) -> Algorithms::Choice {
    std::vector<decltype(performance)> results(most);
    int found = 0;
    const cudnnStatus_t status = find(&found, results.data());
    if (knows_nothing_of_it(status)) return {no_algorithm, 0};
    if (status != CUDNN_STATUS_SUCCESS && layout_ != ConvolutionLayout::plain)
      return {.algorithm = no_algorithm, .lasts = false};
    check(status, "measuring algorithms of a convolution");
    results.resize(static_cast<std::size_t>(found));
    for (const auto& choice : candidates(results, images_.compute_type(), shape_.winograd, of_winograd))
      if (engine(result, choice)) return choice;
    return {.algorithm = no_algorithm,
            .lasts = std::none_of(results.begin(), results.end(), lacked_memory<decltype(performance)>)};
  };
  if (result == ConvolutionGraph::y)
    return best(cudnnConvolutionFwdAlgoPerf_t{},
                {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED},
                [&](int* found, auto* all) {
                  return cudnnFindConvolutionForwardAlgorithm(images_.cudnn(), x, w, c, y, most, found, all);
                });
  if (result == ConvolutionGraph::x)
    return best(cudnnConvolutionBwdDataAlgoPerf_t{},
                {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED},
                [&](int* found, auto* all) {
                  return cudnnFindConvolutionBackwardDataAlgorithm(images_.cudnn(), w, y, c, x, most, found, all);
                });
  return best(cudnnConvolutionBwdFilterAlgoPerf_t{},
              {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED},
              [&](int* found, auto* all) {
                return cudnnFindConvolutionBackwardFilterAlgorithm(images_.cudnn(), x, y, c, w, most, found, all);
              });
}

std::optional<ConvolutionEngine> LaidOutConvolution::engine(Operand result, const Algorithms::Choice& choice) const {
  ConvolutionEngine e;
  e.convolution = describe_convolution(static_cast<cudnnMathType_t>(choice.math));
  e.algorithm = choice.algorithm;
  const auto x = x_descriptor_.get(), y = y_descriptor_.get();
  const auto w = w_descriptor_.get();
  const auto c = e.convolution.get();
  const cudnnHandle_t h = images_.cudnn();
  const cudnnStatus_t status =
      result == ConvolutionGraph::y
          ? cudnnGetConvolutionForwardWorkspaceSize(h, x, w, c, y, static_cast<cudnnConvolutionFwdAlgo_t>(e.algorithm),
                                                    &e.workspace)
      : result == ConvolutionGraph::x
          ? cudnnGetConvolutionBackwardDataWorkspaceSize(
                h, w, y, c, x, static_cast<cudnnConvolutionBwdDataAlgo_t>(e.algorithm), &e.workspace)
          : cudnnGetConvolutionBackwardFilterWorkspaceSize(
                h, x, y, c, w, static_cast<cudnnConvolutionBwdFilterAlgo_t>(e.algorithm), &e.workspace);
  if (status != CUDNN_STATUS_SUCCESS || e.workspace > most_workspace) return std::nullopt;
  return e;
}

bool LaidOutConvolution::describe_graph(const ConvolutionPass& p, Kind kind, ConvolutionEngine& e) const {
  ConvolutionGraph graph = graph_;
  graph.result = p.result, graph.accumulates = adds(p);
  const bool behind = kind == Kind::whole && p.result == ConvolutionGraph::y && y_.is_image() && !graph.accumulates;
  graph.adds_bias = behind && p.bias, graph.relu = behind && shape_.relu;
  if (kind == Kind::whole && !graph.adds_bias && !graph.relu) return false;
  e.plans = std::make_unique<ConvolutionPlans>(graph, images_.cudnn(), images_.stream());
  e.kind = kind;
  return true;
}

bool LaidOutConvolution::is_stored(Operand o) const {
  return o == ConvolutionGraph::x ? x_.is_image() : o == ConvolutionGraph::y ? y_.is_image() : w_.is_weight();
}
std::size_t LaidOutConvolution::bytes(Operand o) const {
  const std::size_t count = o == ConvolutionGraph::x ? x_.count() : o == ConvolutionGraph::y ? y_.count() : w_.count();
  return count * bytes_of(x_.element);
}
const void* LaidOutConvolution::weights(const WeightArrangement& a, const float* values, bool same) {
  if (a.is_weight()) return values;
  void* to = images_.made_of(values, a).bytes(a.count() * bytes_of(a.element));
  if (!same) arrange(a, values, to, images_.stream());
  return to;
}
void* LaidOutConvolution::workspace(std::size_t bytes) const {
  return bytes ? images_.workspace().bytes(bytes) : nullptr;
}

LaidOutConvolution::Pointers LaidOutConvolution::operands(const ConvolutionPass& p) {
  Pointers pointers{};
  for (const Operand o : {ConvolutionGraph::x, ConvolutionGraph::w, ConvolutionGraph::y}) {
    const float* values = p.values[o];
    if (is_stored(o)) {
      pointers[o] = values;
    } else if (o == ConvolutionGraph::w && o != p.result) {
      pointers[o] = weights(w_, values, p.same_weights);
    } else {
      void* to = images_.operand(o).bytes(bytes(o));
      if (o != p.result) arrange(o == ConvolutionGraph::x ? x_ : y_, values, to, images_.stream());
      pointers[o] = to;
    }
  }
  return pointers;
}

void LaidOutConvolution::store(const ConvolutionPass& p, const Pointers& pointers) const {
  if (is_stored(p.result)) return;
  auto* to = const_cast<float*>(p.values[p.result]);
  const void* from = pointers[p.result];
  if (p.result == ConvolutionGraph::w) return spread(w_, from, p.accumulate, to, images_.stream());
  const bool forward = p.result == ConvolutionGraph::y;
  spread(forward ? y_ : x_, from, {forward ? p.bias : nullptr, forward && shape_.relu, p.accumulate}, to,
         images_.stream());
}

void LaidOutConvolution::run(const ConvolutionPass& p, const ConvolutionEngine& e) {
  const Pointers pointers = operands(p);
  const cudnnStatus_t status = by_plan(p, e, pointers);
  if (knows_nothing_of_it(status))
    by_calls(p, e, pointers);
  else
    check(status, "convolving by a plan");
  store(p, pointers);
}

bool LaidOutConvolution::try_plan(const ConvolutionPass& p, const ConvolutionEngine& e) {
  const Pointers pointers = operands(p);
  if (by_plan(p, e, pointers) != CUDNN_STATUS_SUCCESS) return false;
  store(p, pointers);
  return true;
}

void LaidOutConvolution::add_bias_behind(const ConvolutionPass& p, const Pointers& pointers) const {
  if (p.result != ConvolutionGraph::y || !y_.is_image() || !(p.bias || shape_.relu)) return;
  add_bias(
      {shape_.columns, shape_.out_channels, ImageWindow::product(shape_.window.out), shape_.out, shape_.out_element},
      p.bias, shape_.relu, static_cast<float*>(const_cast<void*>(pointers[p.result])), images_.stream());
}

// Not supported without a plan, or if the plan does not accept the operands.
cudnnStatus_t LaidOutConvolution::by_plan(const ConvolutionPass& p, const ConvolutionEngine& e, Pointers pointers) {
  if (e.kind == Kind::whole && p.bias) pointers[ConvolutionGraph::bias] = bias(p);
  if (!e.plans || !ConvolutionPlans::lie_well(pointers)) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnStatus_t status = e.plans->run(pointers, workspace(e.plans->workspace()));
  if (status == CUDNN_STATUS_SUCCESS && e.kind == Kind::alone) add_bias_behind(p, pointers);
  return status;
}

// False where cuDNN has no such kernel; that is asked once, and not during a capture, which may be the reason.
bool LaidOutConvolution::fused_forward(const ConvolutionPass& p, const ConvolutionEngine& e, const Pointers& at) {
  const float one = 1, none = 0;
  void* const y = const_cast<void*>(at[ConvolutionGraph::y]);
  const bool fused =
      cudnnConvolutionBiasActivationForward(images_.cudnn(), &one, x_descriptor_.get(), at[ConvolutionGraph::x],
                                            w_descriptor_.get(), at[ConvolutionGraph::w], e.convolution.get(),
                                            static_cast<cudnnConvolutionFwdAlgo_t>(e.algorithm), workspace(e.workspace),
                                            e.workspace, &none, y_descriptor_.get(), y, bias_descriptor_.get(), bias(p),
                                            relu_.get(), y_descriptor_.get(), y) == CUDNN_STATUS_SUCCESS;
  if (!fused) not_while_capturing(images_.stream());
  return fuses_ = fused;
}

void LaidOutConvolution::by_calls(const ConvolutionPass& p, const ConvolutionEngine& e, const Pointers& at) {
  const float one = 1, old = adds(p) ? 1.0f : 0.0f;
  const auto x = x_descriptor_.get(), y = y_descriptor_.get();
  const auto w = w_descriptor_.get();
  const auto c = e.convolution.get();
  const cudnnHandle_t h = images_.cudnn();
  void* const to = const_cast<void*>(at[p.result]);
  const void *of_x = at[ConvolutionGraph::x], *of_w = at[ConvolutionGraph::w], *of_y = at[ConvolutionGraph::y];
  if (p.result == ConvolutionGraph::y) {
    if (p.bias && !adds(p) && fuses_ && fused_forward(p, e, at)) return;
    check(cudnnConvolutionForward(h, &one, x, of_x, w, of_w, c, static_cast<cudnnConvolutionFwdAlgo_t>(e.algorithm),
                                  workspace(e.workspace), e.workspace, &old, y, to),
          "convolving");
    return add_bias_behind(p, at);
  }
  constexpr const char* doing = "computing the gradient of a convolution";
  if (p.result == ConvolutionGraph::x)
    return check(cudnnConvolutionBackwardData(h, &one, w, of_w, y, of_y, c,
                                              static_cast<cudnnConvolutionBwdDataAlgo_t>(e.algorithm),
                                              workspace(e.workspace), e.workspace, &old, x, to),
                 doing);
  check(cudnnConvolutionBackwardFilter(h, &one, x, of_x, y, of_y, c,
                                       static_cast<cudnnConvolutionBwdFilterAlgo_t>(e.algorithm),
                                       workspace(e.workspace), e.workspace, &old, w, to),
        doing);
}

bool LaidOutConvolution::plan_is_right(const ConvolutionPass& p, const ConvolutionEngine& e) {
  std::vector<Handle<void*, cudaFree>> memory;
  const auto taken = [&](std::size_t n) { return memory.emplace_back(trial_memory(n)).get(); };
  Pointers of_plan{};
  for (const Operand o : {ConvolutionGraph::x, ConvolutionGraph::w, ConvolutionGraph::y}) {
    void* const operand = taken(bytes(o));
    if (!operand) return true;
    put_trial_numbers(operand, bytes(o) / bytes_of(x_.element), x_.element, o, images_.stream());
    of_plan[o] = operand;
  }
  Pointers expected = of_plan;
  expected[p.result] = taken(bytes(p.result));
  if (!expected[p.result]) return true;
  for (const Pointers* pointers : {&expected, &of_plan})
    check(cudaMemsetAsync(const_cast<void*>((*pointers)[p.result]), 0, bytes(p.result), images_.stream()),
          "comparing algorithms of a convolution");
  for (int i = 0; i < (adds(p) ? 2 : 1); ++i) {
    by_calls(p, e, expected);
    if (by_plan(p, e, of_plan) != CUDNN_STATUS_SUCCESS) return false;
  }
  const Distance d = distance(expected[p.result], of_plan[p.result], bytes(p.result) / bytes_of(x_.element), x_.element,
                              images_.stream());
  return d.apart <= most_apart * d.size;
}

}  // namespace tutti::cuda
