// SPDX-License-Identifier: Apache-2.0
// matmul.h -- GEMM by cuBLASLt, with bias and ReLU if the library supports them. The algorithm is chosen once per
// shape, so that a shape gives the same bits every time.
#pragma once

#include <memory>
#include <string>

#include "base/cuda/runtime.h"
#include "tutti/backend.h"

namespace tutti::cuda {

// What a product does to its result before it is written.
enum class Epilogue { none, bias, bias_relu, bias_relu_mask, relu_gradient, relu_gradient_sums };

struct EpilogueOperands {
  Epilogue what = Epilogue::none;
  const void* vector = nullptr;  // bias, or where the sums of columns go; of the result's type to the library
  const float* mask = nullptr;   // a bit for each element, as the library lays them out
};

class Matmul {
 public:
  Matmul(ComputeType, const std::string& device, cudaStream_t);
  ~Matmul();
  // Returns false, without changing the result, if the library has no such product for this shape.
  bool run(const Gemm&, const EpilogueOperands&, const float* a, const float* b, float* c);
  static std::string library();  // "cuBLASLt 13.0.1"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::cuda
