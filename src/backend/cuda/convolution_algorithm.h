// SPDX-License-Identifier: Apache-2.0
// convolution_algorithm.h -- one layout to compute a convolution by cuDNN: the layout and the type of what it sees.
// Where these are not those of the images, operands go through scratch memory.
#pragma once

#include <functional>
#include <vector>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/arrange.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/planned_convolution.h"

namespace tutti::cuda {

class CudaImages;

// Operands as plain images, with channels last, and with channels last in the 16 bits of the compute type.
enum class ConvolutionLayout { plain, last, last_in_16_bits };

class ConvolutionAlgorithm {
 public:
  // With `plans` those of cuDNN's graphs are tried as well, which takes a while.
  ConvolutionAlgorithm(const ConvolutionShape&, ConvolutionLayout, bool plans, CudaImages&);

  // Whether cuDNN can go this layout with the same bits every time; measures its algorithms at the first call.
  bool can_forward();
  bool can_backward_data();
  bool can_backward_weights();

  // With `same_weights` what the last call without it has made of them is there.
  void forward(const float* x, const float* w, const float* bias, float* y, bool accumulate, bool same_weights);
  void backward_data(const float* dy, const float* w, float* dx, bool accumulate, bool same_weights);
  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate);

 private:
  struct Direction {
    ConvolutionDescriptor convolution;
    bool chosen = false, possible = false;
    int algorithm = 0;
    std::size_t workspace = 0;
    PlannedConvolution planned[2];  // over what the result holds, or to it
  };
  // Scratch memory of an operand.
  enum Operand { of_x, of_w, of_y };

  void describe();
  void describe_graph(const std::vector<int>& pads, const std::vector<int>& strides);
  PlannedConvolution::Work work(const char* direction, ConvolutionGraph::Operand result,
                                const ConvolutionPlans::Pointers&, bool adds) const;
  std::string key(const char* direction) const;
  template <class Performance, class Find, class Workspace>
  bool choose(Direction& d, const char* name, const std::vector<int>& of_winograd, const Find& find,
              const Workspace& workspace);
  bool fused_forward(const void* x, const void* w, const void* bias, void* y);

  const void* image(const Arrangement& a, const float* values, Operand operand);
  const void* weight(const WeightArrangement& a, const float* values, bool same);
  void* result(std::size_t bytes, bool stands, float* values, Operand operand);
  void* workspace(const Direction& d) const;

  const ConvolutionShape shape_;
  const ConvolutionLayout layout_;
  const bool plans_;
  CudaImages& images_;
  Arrangement x_, y_;
  WeightArrangement w_, bias_;
  TensorDescriptor x_descriptor_, y_descriptor_, bias_descriptor_;
  FilterDescriptor w_descriptor_;
  ConvolutionGraph graph_;  // of the convolution alone, but for its result
  ActivationDescriptor relu_;
  Direction forward_, data_, weights_;
  bool fuses_ = false;  // bias and ReLU within the convolution
};

}  // namespace tutti::cuda
