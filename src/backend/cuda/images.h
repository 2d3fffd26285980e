// SPDX-License-Identifier: Apache-2.0
// images.h -- image operations on a GPU: convolutions by cuDNN, own kernels for the rest.
#pragma once

#include <map>
#include <utility>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/arrange.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn.h"
#include "tutti/image_ops.h"

namespace tutti::cuda {

class CudaImages : public ImageOps {
 public:
  CudaImages(const std::string& device, ComputeType, cudaStream_t);

  // Tensor cores need the channels last; float32 kernels prefer plain images.
  std::size_t channel_block() const override { return compute_type_ == ComputeType::float32 ? 0 : all_channels; }
  Element element() const override;
  void reorder(const ImageExtent& from, const ImageExtent& to, const float* x, float* y, bool accumulate) override;

  std::unique_ptr<ConvolutionPlan> plan_convolution(const ConvolutionShape&) override;
  std::unique_ptr<PoolingPlan> plan_pooling(const PoolingShape&) override;
  void bias_relu_gradient(const ImageExtent&, const float* y, float* dy, float* dbias, bool accumulate) override;

  void normalize(const BatchNormalization&, const NormalizationParameters&, const float* x, const float* added,
                 float* y, float* work) override;
  void normalize_gradient(const BatchNormalization&, const NormalizationParameters&, const float* x, const float* y,
                          float* dy, const float* work, const NormalizationGradients&) override;
  void respond(const ResponseNormalization&, const float* x, float* y, float* work) override;
  void respond_gradient(const ResponseNormalization&, const float* x, const float* y, const float* dy,
                        const float* work, float* dx, bool accumulate) override;

  void unpool(const PoolingShape&, const float* values, const float* image, float* y) override;
  void unpool_gradient(const PoolingShape&, const float* image, const float* dy, float* dvalues,
                       bool accumulate) override;
  void pool_regions(const RegionPooling&, const float* image, const float* regions, float* y, float* work) override;
  void pool_regions_gradient(const RegionPooling&, const float* dy, const float* work, float* dimage,
                             bool accumulate) override;

  // Shared by the plans.
  cudaStream_t stream() const { return stream_; }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }
  ComputeType compute_type() const { return compute_type_; }
  Algorithms& algorithms() { return algorithms_; }
  // Free after a call, because the stream keeps the order. One buffer per operand of a convolution.
  Scratch& workspace() { return workspace_; }
  Scratch& operand(std::size_t number) { return operands_[number]; }
  // Memory for what is derived from a weight: valid until it is derived again, and shared by all plans.
  Scratch& made_of(const float* w, const WeightArrangement&);

 private:
  const ComputeType compute_type_;
  const cudaStream_t stream_;
  Cudnn cudnn_;
  Algorithms algorithms_;
  Scratch workspace_, operands_[3], sums_;
  std::map<std::pair<const float*, WeightArrangement>, Scratch> made_;
};

}  // namespace tutti::cuda
