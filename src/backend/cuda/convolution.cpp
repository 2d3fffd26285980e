// SPDX-License-Identifier: Apache-2.0
// Convolution by cuDNN. Where there are several ways to lay out its operands, each direction takes the one that was the
// fastest when it was measured, with all that it takes to change layout and type.
#include <fmt/format.h>

#include <optional>

#include "backend/cuda/convolution_algorithm.h"
#include "backend/cuda/images.h"
#include "backend/cuda/stopwatch.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

// Images that lie with their channels last are made for tensor cores; going over plain ones is only worth a try.
std::vector<ConvolutionLayout> layouts_of(const ConvolutionShape& s, ComputeType type) {
  if (s.in == Format::plain && s.out == Format::plain) return {ConvolutionLayout::plain};
  if (type == ComputeType::bfloat16 || type == ComputeType::float16)
    return {ConvolutionLayout::last_in_16_bits, ConvolutionLayout::last, ConvolutionLayout::plain};
  return {ConvolutionLayout::last, ConvolutionLayout::plain};
}

class CudaConvolution : public ConvolutionPlan {
 public:
  CudaConvolution(const ConvolutionShape& s, CudaImages& images) : shape_(s), images_(images) {
    const ComputeType type = images.compute_type();
    const auto layouts = layouts_of(s, type);
    // Where tensor cores are used, the algorithm that is made for them will hardly be beaten by another one's plans.
    for (const ConvolutionLayout layout : layouts)
      ways_.push_back({layout, std::make_unique<ConvolutionAlgorithm>(
                                   s, layout, layout == layouts.front() || type == ComputeType::float32, images)});
  }

  void forward(const float* x, const float* w, const float* bias, float* y, bool accumulate,
               bool same_weights) override {
    ConvolutionAlgorithm& algorithm =
        chosen(forward_, "forward", &ConvolutionAlgorithm::can_forward, values(shape_.out_channels, shape_.window.out),
               [&](ConvolutionAlgorithm& possible, float* to) { possible.forward(x, w, bias, to, accumulate, false); });
    algorithm.forward(x, w, bias, y, accumulate, are_there(algorithm, same_weights));
  }
  void backward_data(const float* dy, const float* w, float* dx, bool accumulate, bool same_weights) override {
    ConvolutionAlgorithm& algorithm = chosen(
        data_, "data", &ConvolutionAlgorithm::can_backward_data, values(shape_.in_channels, shape_.window.in),
        [&](ConvolutionAlgorithm& possible, float* to) { possible.backward_data(dy, w, to, accumulate, false); });
    algorithm.backward_data(dy, w, dx, accumulate, are_there(algorithm, same_weights));
  }
  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) override {
    const std::size_t weights =
        ImageWindow::product(shape_.window.kernel) * (shape_.in_channels / shape_.groups) * shape_.out_channels;
    chosen(weights_, "weights", &ConvolutionAlgorithm::can_backward_weights, weights,
           [&](ConvolutionAlgorithm& algorithm, float* to) { algorithm.backward_weights(x, dy, to, accumulate); })
        .backward_weights(x, dy, dw, accumulate);
  }

 private:
  struct Candidate {
    ConvolutionLayout name;
    std::unique_ptr<ConvolutionAlgorithm> algorithm;
  };

  std::size_t values(std::size_t channels, const ImageWindow::Sizes& size) const {
    return shape_.columns * channels * ImageWindow::product(size);
  }

  // Whether the weights are as this algorithm wants them. That is the algorithm of the last call with others, so a pass
  // makes the same calls in every step, also when it is captured.
  bool are_there(ConvolutionAlgorithm& algorithm, bool same_weights) {
    if (!same_weights) made_for_ = &algorithm;
    return same_weights && made_for_ == &algorithm;
  }

  // The algorithm of a direction; run(algorithm, result) is measured with a result of its own.
  template <class Run>
  ConvolutionAlgorithm& chosen(ConvolutionAlgorithm*& algorithm, const char* direction,
                               bool (ConvolutionAlgorithm::*can)(), std::size_t result_count, const Run& run) {
    if (algorithm) return *algorithm;
    Algorithms& algorithms = images_.algorithms();
    const std::string shape = key(direction), own = Algorithms::own_name(shape, shape_.columns);
    for (const std::string& name : {algorithms.name_of(shape, shape_.columns), own}) {
      const auto choice = algorithms.at(name, [&] { return measured(can, result_count, run); });
      for (Candidate& c : ways_)
        if (static_cast<int>(c.name) == choice.algorithm && ((*c.algorithm).*can)())
          return *(algorithm = c.algorithm.get());
    }
    throw Error("cuDNN has no algorithm for this convolution that gives the same bits every time");
  }

  template <class Run>
  Algorithms::Choice measured(bool (ConvolutionAlgorithm::*can)(), std::size_t result_count, const Run& run) {
    std::vector<Candidate*> possible;
    for (Candidate& c : ways_)
      if (((*c.algorithm).*can)()) possible.push_back(&c);
    Algorithms::Choice best{no_algorithm, 0};
    if (possible.size() == 1) best.algorithm = static_cast<int>(possible.front()->name);
    if (possible.size() < 2) return best;
    Scratch scratch;
    Stopwatch watch(images_.stream());
    auto* result = scratch.reserve<float>(result_count);
    std::optional<float> least;
    for (Candidate* c : possible) {
      const auto taken = watch.time([&] {
        run(*c->algorithm, result);
        return true;
      });
      if (!least || *taken < *least) least = taken, best.algorithm = static_cast<int>(c->name);
    }
    return best;
  }

  std::string key(const char* direction) const {
    const ImageWindow& w = shape_.window;
    std::string key = fmt::format("way:{}:{}:{}x{}/{}:{}{}{}{}:{}{}{}", direction,
                                  static_cast<int>(images_.compute_type()), shape_.in_channels, shape_.out_channels,
                                  shape_.groups, static_cast<int>(shape_.in), static_cast<int>(shape_.out),
                                  static_cast<int>(shape_.in_element), static_cast<int>(shape_.out_element),
                                  shape_.bias ? 'b' : '-', shape_.relu ? 'r' : '-', shape_.winograd ? "" : ":direct");
    for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis)
      key += fmt::format(":{},{},{},{},{}", w.in[axis], w.out[axis], w.kernel[axis], w.stride[axis], w.pad[axis]);
    return key;
  }

  static constexpr int no_algorithm = -1;
  const ConvolutionShape shape_;
  CudaImages& images_;
  std::vector<Candidate> ways_;
  ConvolutionAlgorithm *forward_ = nullptr, *data_ = nullptr, *weights_ = nullptr;
  ConvolutionAlgorithm* made_for_ = nullptr;
};

}  // namespace

CudaImages::CudaImages(const std::string& device, ComputeType type, cudaStream_t stream)
    : compute_type_(type), stream_(stream), cudnn_(make_cudnn(stream)), algorithms_(cudnn_library() + " " + device) {}

Element CudaImages::element() const {
  switch (compute_type_) {
    case ComputeType::float32:
    case ComputeType::tf32:
      return Element::float32;
    case ComputeType::bfloat16:
      return Element::bfloat16;
    case ComputeType::float16:
      return Element::float16;
  }
  return Element::float32;
}

std::unique_ptr<ConvolutionPlan> CudaImages::plan_convolution(const ConvolutionShape& shape) {
  return std::make_unique<CudaConvolution>(shape, *this);
}

}  // namespace tutti::cuda
