// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/convolution_algorithm.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/images.h"

namespace tutti::cuda {
namespace {

constexpr int no_algorithm = -1;

cudnnDataType_t data_type(Element e) {
  switch (e) {
    case Element::float32:
      return CUDNN_DATA_FLOAT;
    case Element::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    case Element::float16:
      return CUDNN_DATA_HALF;
  }
  return CUDNN_DATA_FLOAT;
}

// Convolutions of float32 stay in float32; the other types may use tensor cores, which read float32 as tf32 and add in
// float32.
cudnnMathType_t math_of(ConvolutionLayout layout, ComputeType type) {
  if (type == ComputeType::float32) return CUDNN_FMA_MATH;
  if (layout == ConvolutionLayout::last_in_16_bits) return CUDNN_TENSOR_OP_MATH;
  return layout == ConvolutionLayout::plain && type == ComputeType::float16 ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
                                                                            : CUDNN_DEFAULT_MATH;
}

// Results that give the same bits every time and need no more memory than there is, the fastest first. Asked for
// float32 the library may also measure its default, which rounds to tf32: what was measured so comes behind what was
// measured as it is run, and in float32 there may be no algorithm of that name.
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

// What kernels may do to the numbers of a layout, as by its math.
EngineRules rules_of(ConvolutionLayout layout, ComputeType type, bool winograd) {
  const bool narrows = layout == ConvolutionLayout::plain && type == ComputeType::float16;
  return {.tensor_cores = type != ComputeType::float32, .narrows = narrows, .winograd = winograd};
}

// cuDNN pads both sides of an axis alike. Where a window wants something else, its image gets a frame.
bool wants_frame(const ImageWindow& w) {
  for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
    const std::size_t padded = w.in[axis] + 2 * w.pad[axis];
    if (padded < w.kernel[axis] || (padded - w.kernel[axis]) / w.stride[axis] + 1 != w.out[axis]) return true;
  }
  return false;
}

}  // namespace

ConvolutionAlgorithm::ConvolutionAlgorithm(const ConvolutionShape& s, ConvolutionLayout layout, bool plans,
                                           CudaImages& images)
    : shape_(s), layout_(layout), plans_(plans), images_(images) {
  const ImageWindow& w = s.window;
  const bool last = layout != ConvolutionLayout::plain;
  const Element element = layout == ConvolutionLayout::last_in_16_bits ? images.element() : Element::float32;
  // Tensor cores read 16 bytes of channels at a time; where the image has to be copied anyway, it gets so many.
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

void ConvolutionAlgorithm::describe() {
  constexpr const char* doing = "describing a convolution";
  const ImageWindow& w = shape_.window;
  const cudnnDataType_t type = data_type(x_.element);
  x_descriptor_ = image_descriptor(x_.columns, x_.stored, spatial(w, x_.frame), x_.last, type);
  y_descriptor_ = image_descriptor(y_.columns, y_.stored, spatial(w, y_.frame), y_.last, type);
  const auto kernel = spatial(w, w.kernel), strides = spatial(w, w.stride);
  auto pads = spatial(w, w.pad);
  if (wants_frame(w)) std::fill(pads.begin(), pads.end(), 0);
  std::vector<int> dims{static_cast<int>(w_.out), static_cast<int>(w_.stored)};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  const std::vector<int> ones(kernel.size(), 1);
  check(cudnnCreateFilterDescriptor(w_descriptor_.out()), doing);
  check(cudnnSetFilterNdDescriptor(w_descriptor_.get(), type, w_.last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                   static_cast<int>(dims.size()), dims.data()),
        doing);
  for (Direction* d : {&forward_, &data_, &weights_}) {
    check(cudnnCreateConvolutionDescriptor(d->convolution.out()), doing);
    check(cudnnSetConvolutionNdDescriptor(d->convolution.get(), static_cast<int>(pads.size()), pads.data(),
                                          strides.data(), ones.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          doing);
    check(cudnnSetConvolutionGroupCount(d->convolution.get(), static_cast<int>(shape_.groups)), doing);
    check(cudnnSetConvolutionMathType(d->convolution.get(), math_of(layout_, images_.compute_type())), doing);
  }
  describe_graph(pads, strides);
  fuses_ = shape_.bias && shape_.relu && y_.is_image();
  if (!fuses_) return;
  bias_descriptor_ = image_descriptor(1, y_.stored, ones, false, type);
  check(cudnnCreateActivationDescriptor(relu_.out()), doing);
  check(cudnnSetActivationDescriptor(relu_.get(), CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0), doing);
}

void ConvolutionAlgorithm::describe_graph(const std::vector<int>& pads, const std::vector<int>& strides) {
  const auto tensor = [](std::size_t outer, std::size_t channels, const std::vector<int>& sizes, bool last) {
    std::vector<int> dims{static_cast<int>(outer), static_cast<int>(channels)};
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    const std::vector<int> steps = steps_of(dims, last);
    return ConvolutionGraph::Tensor{{dims.begin(), dims.end()}, {steps.begin(), steps.end()}};
  };
  const ImageWindow& w = shape_.window;
  graph_.tensors[ConvolutionGraph::x] = tensor(x_.columns, x_.stored, spatial(w, x_.frame), x_.last);
  graph_.tensors[ConvolutionGraph::w] = tensor(w_.out, w_.stored, spatial(w, w.kernel), w_.last);
  graph_.tensors[ConvolutionGraph::y] = tensor(y_.columns, y_.stored, spatial(w, y_.frame), y_.last);
  graph_.tensors[ConvolutionGraph::bias] = tensor(1, y_.stored, std::vector<int>(pads.size(), 1), y_.last);
  graph_.pads.assign(pads.begin(), pads.end()), graph_.strides.assign(strides.begin(), strides.end());
  graph_.type = data_type(x_.element);
}

std::string ConvolutionAlgorithm::key(const char* direction) const {
  const ImageWindow& w = shape_.window;
  std::string key =
      fmt::format("{}:{}:{}:{}x{}/{}{}", direction, static_cast<int>(layout_), static_cast<int>(images_.compute_type()),
                  x_.stored, shape_.out_channels, shape_.groups, shape_.winograd ? "" : ":direct");
  for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis)
    key += fmt::format(":{},{},{},{},{}", x_.frame[axis], w.out[axis], w.kernel[axis], w.stride[axis],
                       x_.frame == w.in ? w.pad[axis] : 0);
  return key;
}

template <class Performance, class Find, class Workspace>
bool ConvolutionAlgorithm::choose(Direction& d, const char* name, const std::vector<int>& of_winograd, const Find& find,
                                  const Workspace& workspace) {
  if (d.chosen) return d.possible;
  const auto plan = [&](const Algorithms::Choice& c) {
    check(cudnnSetConvolutionMathType(d.convolution.get(), static_cast<cudnnMathType_t>(c.math)),
          "planning a convolution");
    return workspace(static_cast<decltype(Performance::algo)>(c.algorithm), &d.workspace);
  };
  const auto measured = [&]() -> Algorithms::Choice {
    not_while_capturing(images_.stream());
    constexpr int most = 16;
    std::vector<Performance> results(most);
    int found = 0;
    const cudnnStatus_t status = find(most, &found, results.data());
    if (knows_nothing_of_it(status)) return {no_algorithm, 0};
    if (status != CUDNN_STATUS_SUCCESS && layout_ != ConvolutionLayout::plain)
      return {.algorithm = no_algorithm, .lasts = false};
    check(status, "measuring algorithms of a convolution");
    results.resize(static_cast<std::size_t>(found));
    for (const auto& c : candidates(results, images_.compute_type(), shape_.winograd, of_winograd))
      if (plan(c) == CUDNN_STATUS_SUCCESS && d.workspace <= most_workspace) return c;
    return {.algorithm = no_algorithm,
            .lasts = !std::any_of(results.begin(), results.end(), lacked_memory<Performance>)};
  };
  Algorithms& algorithms = images_.algorithms();
  const std::string shape = key(name);
  const auto can_run = [&](const Algorithms::Choice& c) {
    return plan(c) == CUDNN_STATUS_SUCCESS && d.workspace <= most_workspace;
  };
  Algorithms::Choice choice = algorithms.at(algorithms.name_of(shape, shape_.columns), measured);
  if (choice.algorithm != no_algorithm && !can_run(choice))
    choice = algorithms.at(Algorithms::own_name(shape, shape_.columns), measured);
  d.chosen = true;
  d.algorithm = choice.algorithm;
  if (choice.algorithm == no_algorithm) return false;
  check(plan(choice), "planning a convolution");
  return d.possible = true;
}

bool ConvolutionAlgorithm::can_forward() {
  return choose<cudnnConvolutionFwdAlgoPerf_t>(
      forward_, "forward", {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED},
      [&](int most, int* found, auto* results) {
        return cudnnFindConvolutionForwardAlgorithm(images_.cudnn(), x_descriptor_.get(), w_descriptor_.get(),
                                                    forward_.convolution.get(), y_descriptor_.get(), most, found,
                                                    results);
      },
      [&](auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionForwardWorkspaceSize(images_.cudnn(), x_descriptor_.get(), w_descriptor_.get(),
                                                       forward_.convolution.get(), y_descriptor_.get(), algorithm,
                                                       bytes);
      });
}

bool ConvolutionAlgorithm::can_backward_data() {
  return choose<cudnnConvolutionBwdDataAlgoPerf_t>(
      data_, "data", {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED},
      [&](int most, int* found, auto* results) {
        return cudnnFindConvolutionBackwardDataAlgorithm(images_.cudnn(), w_descriptor_.get(), y_descriptor_.get(),
                                                         data_.convolution.get(), x_descriptor_.get(), most, found,
                                                         results);
      },
      [&](auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardDataWorkspaceSize(images_.cudnn(), w_descriptor_.get(), y_descriptor_.get(),
                                                            data_.convolution.get(), x_descriptor_.get(), algorithm,
                                                            bytes);
      });
}

bool ConvolutionAlgorithm::can_backward_weights() {
  return choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
      weights_, "weights",
      {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED},
      [&](int most, int* found, auto* results) {
        return cudnnFindConvolutionBackwardFilterAlgorithm(images_.cudnn(), x_descriptor_.get(), y_descriptor_.get(),
                                                           weights_.convolution.get(), w_descriptor_.get(), most, found,
                                                           results);
      },
      [&](auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(images_.cudnn(), x_descriptor_.get(), y_descriptor_.get(),
                                                              weights_.convolution.get(), w_descriptor_.get(),
                                                              algorithm, bytes);
      });
}

const void* ConvolutionAlgorithm::image(const Arrangement& a, const float* values, Operand operand) {
  if (a.is_image()) return values;
  void* to = images_.operand(operand).bytes(a.count() * bytes_of(a.element));
  arrange(a, values, to, images_.stream());
  return to;
}
const void* ConvolutionAlgorithm::weight(const WeightArrangement& a, const float* values, bool same) {
  if (a.is_weight()) return values;
  void* to = images_.made_of(values, a).bytes(a.count() * bytes_of(a.element));
  if (!same) arrange(a, values, to, images_.stream());
  return to;
}
// `stands`: it is what was given.
void* ConvolutionAlgorithm::result(std::size_t bytes, bool stands, float* values, Operand operand) {
  return stands ? values : images_.operand(operand).bytes(bytes);
}
void* ConvolutionAlgorithm::workspace(const Direction& d) const {
  return d.workspace ? images_.workspace().bytes(d.workspace) : nullptr;
}

// Of a direction, all but the calls and what stands behind it.
PlannedConvolution::Work ConvolutionAlgorithm::work(const char* direction, ConvolutionGraph::Operand result,
                                                    const ConvolutionPlans::Pointers& pointers, bool adds) const {
  PlannedConvolution::Work work;
  work.tries_plans = plans_;
  work.key = [this, direction] { return key(direction); };
  work.graph = &graph_, work.result = result, work.accumulates = adds;
  work.rules = rules_of(layout_, images_.compute_type(), shape_.winograd);
  work.pointers = pointers, work.element = x_.element;
  return work;
}

// False where cuDNN has no such kernel; that is asked once, and not in a captured graph, which may be what it minds.
bool ConvolutionAlgorithm::fused_forward(const void* x, const void* w, const void* bias, void* y) {
  const float one = 1, none = 0;
  const bool fused = cudnnConvolutionBiasActivationForward(
                         images_.cudnn(), &one, x_descriptor_.get(), x, w_descriptor_.get(), w,
                         forward_.convolution.get(), static_cast<cudnnConvolutionFwdAlgo_t>(forward_.algorithm),
                         workspace(forward_), forward_.workspace, &none, y_descriptor_.get(), y, bias_descriptor_.get(),
                         bias, relu_.get(), y_descriptor_.get(), y) == CUDNN_STATUS_SUCCESS;
  if (!fused) not_while_capturing(images_.stream());
  return fuses_ = fused;
}

void ConvolutionAlgorithm::forward(const float* x, const float* w, const float* bias, float* y, bool accumulate,
                                   bool same_weights) {
  const void *from = image(x_, x, of_x), *by = weight(w_, w, same_weights);
  const bool stands = y_.is_image(), adds = stands && accumulate, behind = stands && (bias || shape_.relu);
  void* to = result(y_.count() * bytes_of(y_.element), stands, y, of_y);
  const auto cast_bias = [&] { return weight(bias_, bias, same_weights); };
  const auto add_bias_to = [&](void* result) {
    add_bias(
        {shape_.columns, shape_.out_channels, ImageWindow::product(shape_.window.out), shape_.out, shape_.out_element},
        bias, shape_.relu, static_cast<float*>(result), images_.stream());
  };
  PlannedConvolution::Work work = this->work("forward", ConvolutionGraph::y, {from, by, to}, adds);
  work.adds_bias = behind && bias && !adds, work.relu = behind && shape_.relu && !adds;
  work.bias = cast_bias;
  if (behind) work.behind = add_bias_to;
  work.by_calls = [&](const ConvolutionPlans::Pointers& p) {
    void* const result = const_cast<void*>(p[ConvolutionGraph::y]);
    if (bias && !adds && fuses_ && fused_forward(p[ConvolutionGraph::x], p[ConvolutionGraph::w], cast_bias(), result))
      return;
    const float one = 1, old = adds ? 1.0f : 0.0f;
    check(cudnnConvolutionForward(images_.cudnn(), &one, x_descriptor_.get(), p[ConvolutionGraph::x],
                                  w_descriptor_.get(), p[ConvolutionGraph::w], forward_.convolution.get(),
                                  static_cast<cudnnConvolutionFwdAlgo_t>(forward_.algorithm), workspace(forward_),
                                  forward_.workspace, &old, y_descriptor_.get(), result),
          "convolving");
    if (behind) add_bias_to(result);
  };
  forward_.planned[adds].run(work, images_);
  if (!stands) spread(y_, to, {bias, shape_.relu, accumulate}, y, images_.stream());
}

void ConvolutionAlgorithm::backward_data(const float* dy, const float* w, float* dx, bool accumulate,
                                         bool same_weights) {
  const void *from = image(y_, dy, of_y), *by = weight(w_, w, same_weights);
  const bool stands = x_.is_image(), adds = stands && accumulate;
  void* to = result(x_.count() * bytes_of(x_.element), stands, dx, of_x);
  PlannedConvolution::Work work = this->work("data", ConvolutionGraph::x, {to, by, from}, adds);
  work.by_calls = [&](const ConvolutionPlans::Pointers& p) {
    const float one = 1, old = adds ? 1.0f : 0.0f;
    check(cudnnConvolutionBackwardData(images_.cudnn(), &one, w_descriptor_.get(), p[ConvolutionGraph::w],
                                       y_descriptor_.get(), p[ConvolutionGraph::y], data_.convolution.get(),
                                       static_cast<cudnnConvolutionBwdDataAlgo_t>(data_.algorithm), workspace(data_),
                                       data_.workspace, &old, x_descriptor_.get(),
                                       const_cast<void*>(p[ConvolutionGraph::x])),
          "computing the gradient of a convolution");
  };
  data_.planned[adds].run(work, images_);
  if (!stands) spread(x_, to, {nullptr, false, accumulate}, dx, images_.stream());
}

void ConvolutionAlgorithm::backward_weights(const float* x, const float* dy, float* dw, bool accumulate) {
  const void *from = image(x_, x, of_x), *with = image(y_, dy, of_y);
  const bool stands = w_.is_weight(), adds = stands && accumulate;
  void* to = result(w_.count() * bytes_of(w_.element), stands, dw, of_w);
  PlannedConvolution::Work work = this->work("weights", ConvolutionGraph::w, {from, to, with}, adds);
  work.by_calls = [&](const ConvolutionPlans::Pointers& p) {
    const float one = 1, old = adds ? 1.0f : 0.0f;
    check(cudnnConvolutionBackwardFilter(images_.cudnn(), &one, x_descriptor_.get(), p[ConvolutionGraph::x],
                                         y_descriptor_.get(), p[ConvolutionGraph::y], weights_.convolution.get(),
                                         static_cast<cudnnConvolutionBwdFilterAlgo_t>(weights_.algorithm),
                                         workspace(weights_), weights_.workspace, &old, w_descriptor_.get(),
                                         const_cast<void*>(p[ConvolutionGraph::w])),
          "computing the gradient of a convolution");
  };
  weights_.planned[adds].run(work, images_);
  if (!stands) spread(w_, to, accumulate, dw, images_.stream());
}

}  // namespace tutti::cuda
