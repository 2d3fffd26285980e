// SPDX-License-Identifier: Apache-2.0
// Convolution by cuDNN; bias and ReLU by a kernel behind it. cuDNN pads both sides of an axis alike: where a window
// wants something else, a padded copy of the image goes through the shared scratch memory.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "backend/cuda/frames.h"
#include "backend/cuda/images.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

// ---- one direction of a convolution

constexpr std::size_t most_workspace = std::size_t{2} << 30;

// Convolutions of float32 stay in float32; the other types may use tensor cores, which read operands in tf32 or in 16
// bits and add in float32.
cudnnMathType_t math_of(ComputeType type) {
  switch (type) {
    case ComputeType::float32:
      return CUDNN_FMA_MATH;
    case ComputeType::tf32:
    case ComputeType::bfloat16:
      return CUDNN_DEFAULT_MATH;
    case ComputeType::float16:
      return CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  }
  return CUDNN_FMA_MATH;
}

// The fastest result that gives the same bits every time and needs no more memory than there is.
template <class Performance>
Algorithms::Choice fastest(const std::vector<Performance>& results, int found, ComputeType type, bool winograd,
                           const std::vector<int>& of_winograd) {
  for (int i = 0; i < found; ++i) {
    const Performance& p = results[static_cast<std::size_t>(i)];
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC || p.memory > most_workspace) continue;
    if (type == ComputeType::float32 && p.mathType != CUDNN_FMA_MATH) continue;
    if (!winograd && std::find(of_winograd.begin(), of_winograd.end(), static_cast<int>(p.algo)) != of_winograd.end())
      continue;
    return {static_cast<int>(p.algo), static_cast<int>(p.mathType)};
  }
  throw Error("cuDNN has no algorithm for this convolution that gives the same bits every time");
}

class CudaConvolution : public ConvolutionPlan {
 public:
  CudaConvolution(const ConvolutionShape& s, CudaImages& images) : shape_(s), images_(images) {
    assert(s.in == Format::plain && s.out == Format::plain);
    const ImageWindow& w = s.window;
    frame_.planes = s.columns * s.in_channels;
    frame_.image = frame_.framed = w.in;
    std::vector<int> pads = spatial(w, w.pad);
    if (wants_frame()) {
      for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis)
        frame_.framed[axis] = (w.out[axis] - 1) * w.stride[axis] + w.kernel[axis], frame_.pad[axis] = w.pad[axis];
      framed_ = frame_.framed_cells();
      std::fill(pads.begin(), pads.end(), 0);
    }
    x_ = image_descriptor(s.columns, s.in_channels, spatial(w, frame_.framed));
    y_ = image_descriptor(s.columns, s.out_channels, spatial(w, w.out));
    const auto kernel = spatial(w, w.kernel), strides = spatial(w, w.stride);
    std::vector<int> dims{static_cast<int>(s.out_channels), static_cast<int>(s.in_channels / s.groups)};
    dims.insert(dims.end(), kernel.begin(), kernel.end());
    check(cudnnCreateFilterDescriptor(w_.out()), "describing weights");
    check(cudnnSetFilterNdDescriptor(w_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, static_cast<int>(dims.size()),
                                     dims.data()),
          "describing weights");
    const std::vector<int> dilation(kernel.size(), 1);
    for (Direction* d : {&forward_, &data_, &weights_}) {
      check(cudnnCreateConvolutionDescriptor(d->convolution.out()), "describing a convolution");
      check(cudnnSetConvolutionNdDescriptor(d->convolution.get(), static_cast<int>(pads.size()), pads.data(),
                                            strides.data(), dilation.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            "describing a convolution");
      check(cudnnSetConvolutionGroupCount(d->convolution.get(), static_cast<int>(s.groups)),
            "describing a convolution");
      set_math(*d, math_of(images.compute_type()));
    }
  }

  void forward(const float* x, const float* w, const float* bias, float* y, bool accumulate) override {
    constexpr const char* doing = "convolving";
    assert(!accumulate || (!shape_.bias && !shape_.relu));
    if (!forward_.chosen)
      choose<cudnnConvolutionFwdAlgoPerf_t>(
          forward_, "forward", {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED},
          [&](int most, int* found, auto* results) {
            return cudnnFindConvolutionForwardAlgorithm(cudnn(), x_.get(), w_.get(), forward_.convolution.get(),
                                                        y_.get(), most, found, results);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionForwardWorkspaceSize(cudnn(), x_.get(), w_.get(), forward_.convolution.get(),
                                                           y_.get(), algorithm, bytes);
          });
    const float one = 1, old = accumulate ? 1.0f : 0.0f;
    check(cudnnConvolutionForward(cudnn(), &one, x_.get(), framed(x), w_.get(), w, forward_.convolution.get(),
                                  static_cast<cudnnConvolutionFwdAlgo_t>(forward_.algorithm), room(forward_),
                                  forward_.workspace, &old, y_.get(), y),
          doing);
    if (!shape_.bias && !shape_.relu) return;
    add_bias({shape_.columns, shape_.out_channels, ImageWindow::product(shape_.window.out), Format::plain},
             shape_.bias ? bias : nullptr, shape_.relu, y, images_.stream());
  }

  void backward_data(const float* dy, const float* w, float* dx, bool accumulate) override {
    constexpr const char* doing = "computing the gradient of a convolution";
    if (!data_.chosen)
      choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          data_, "data", {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED},
          [&](int most, int* found, auto* results) {
            return cudnnFindConvolutionBackwardDataAlgorithm(cudnn(), w_.get(), y_.get(), data_.convolution.get(),
                                                             x_.get(), most, found, results);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardDataWorkspaceSize(cudnn(), w_.get(), y_.get(), data_.convolution.get(),
                                                                x_.get(), algorithm, bytes);
          });
    const float one = 1, old = accumulate && framed_ == 0 ? 1.0f : 0.0f;
    float* target = framed_ ? images_.padded().room<float>(framed_) : dx;
    check(cudnnConvolutionBackwardData(cudnn(), &one, w_.get(), w, y_.get(), dy, data_.convolution.get(),
                                       static_cast<cudnnConvolutionBwdDataAlgo_t>(data_.algorithm), room(data_),
                                       data_.workspace, &old, x_.get(), target),
          doing);
    if (framed_) take_from_frame(frame_, target, dx, accumulate, images_.stream());
  }

  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) override {
    constexpr const char* doing = "computing the gradient of a convolution";
    if (!weights_.chosen)
      choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          weights_, "weights",
          {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED},
          [&](int most, int* found, auto* results) {
            return cudnnFindConvolutionBackwardFilterAlgorithm(cudnn(), x_.get(), y_.get(), weights_.convolution.get(),
                                                               w_.get(), most, found, results);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardFilterWorkspaceSize(
                cudnn(), x_.get(), y_.get(), weights_.convolution.get(), w_.get(), algorithm, bytes);
          });
    const float one = 1, old = accumulate ? 1.0f : 0.0f;
    check(cudnnConvolutionBackwardFilter(cudnn(), &one, x_.get(), framed(x), y_.get(), dy, weights_.convolution.get(),
                                         static_cast<cudnnConvolutionBwdFilterAlgo_t>(weights_.algorithm),
                                         room(weights_), weights_.workspace, &old, w_.get(), dw),
          doing);
  }

 private:
  struct Direction {
    ConvolutionDescriptor convolution;
    bool chosen = false;
    int algorithm = 0;
    std::size_t workspace = 0;
  };

  cudnnHandle_t cudnn() const { return images_.cudnn(); }
  void* room(const Direction& d) const { return d.workspace ? images_.workspace().bytes(d.workspace) : nullptr; }
  static void set_math(const Direction& d, cudnnMathType_t math) {
    check(cudnnSetConvolutionMathType(d.convolution.get(), math), "describing a convolution");
  }

  // Whether equal padding on both sides gives another number of windows than wanted.
  bool wants_frame() const {
    const ImageWindow& w = shape_.window;
    for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
      const std::size_t padded = w.in[axis] + 2 * w.pad[axis];
      if (padded < w.kernel[axis] || (padded - w.kernel[axis]) / w.stride[axis] + 1 != w.out[axis]) return true;
    }
    return false;
  }

  const float* framed(const float* x) const {
    if (framed_ == 0) return x;
    float* copy = images_.padded().room<float>(framed_);
    put_into_frame(frame_, x, copy, images_.stream());
    return copy;
  }

  std::string key(const char* direction) const {
    const ImageWindow& w = shape_.window;
    std::string key =
        fmt::format("{}:{}:{}x{}x{}/{}{}", direction, static_cast<int>(images_.compute_type()), shape_.columns,
                    shape_.in_channels, shape_.out_channels, shape_.groups, shape_.winograd ? "" : ":direct");
    for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis)
      key += fmt::format(":{},{},{},{},{}", frame_.framed[axis], w.out[axis], w.kernel[axis], w.stride[axis],
                         framed_ ? 0 : w.pad[axis]);
    return key;
  }

  template <class Performance, class Find, class Workspace>
  void choose(Direction& d, const char* name, const std::vector<int>& of_winograd, const Find& find,
              const Workspace& workspace) {
    const auto choice = images_.algorithms().at(key(name), [&] {
      constexpr int most = 16;
      std::vector<Performance> results(most);
      int found = 0;
      check(find(most, &found, results.data()), "measuring algorithms of a convolution");
      return fastest(results, found, images_.compute_type(), shape_.winograd, of_winograd);
    });
    d.algorithm = choice.algorithm;
    set_math(d, static_cast<cudnnMathType_t>(choice.math));
    check(workspace(static_cast<decltype(Performance::algo)>(d.algorithm), &d.workspace), "planning a convolution");
    d.chosen = true;
  }

  const ConvolutionShape shape_;
  CudaImages& images_;
  Frame frame_;
  std::size_t framed_ = 0;  // floats of the padded copy; 0 = none is needed
  TensorDescriptor x_, y_;
  FilterDescriptor w_;
  Direction forward_, data_, weights_;
};

}  // namespace

CudaImages::CudaImages(const std::string& device, ComputeType type, cudaStream_t stream)
    : compute_type_(type), stream_(stream), cudnn_(make_cudnn(stream)), algorithms_(cudnn_library() + " " + device) {}

std::unique_ptr<ConvolutionPlan> CudaImages::plan_convolution(const ConvolutionShape& shape) {
  return std::make_unique<CudaConvolution>(shape, *this);
}

}  // namespace tutti::cuda
