// SPDX-License-Identifier: Apache-2.0
// images.h -- image operations on the CPU: convolution and pooling by oneDNN, normalisation by the vector loops of
// kernels.h.
#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "tutti/image_ops.h"

namespace tutti::cpu {

class CpuImages : public ImageOps {
 public:
  explicit CpuImages(const Kernels& kernels, ComputeType type = ComputeType::float32)
      : kernels_(kernels), images_(kernels.images), compute_type_(type) {}

  std::size_t channel_block() const override { return images_.block; }
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

 private:
  const Kernels& kernels_;
  const ImageKernels& images_;
  const ComputeType compute_type_;
  OneDnn dnnl_;
};

}  // namespace tutti::cpu
