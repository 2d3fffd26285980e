// SPDX-License-Identifier: Apache-2.0
// images.h -- the image operations on a GPU.
#pragma once

#include "backend/cuda/cuda_backend.h"
#include "tutti/image_backend.h"

namespace tutti::cuda {

class CudaImages : public ImageBackend {
 public:
  explicit CudaImages(CudaBackend& backend) : backend_(backend) {}

  // Values lie as everywhere: plain. The networks' planner sees that no format fits.
  std::size_t channel_block() const override { return 0; }
  void reorder(const ImageExtent& from, Format to, const float* x, float* y, bool accumulate) override;

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

 private:
  CudaBackend& backend_;
};

}  // namespace tutti::cuda
