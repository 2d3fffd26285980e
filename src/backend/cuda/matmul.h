// SPDX-License-Identifier: Apache-2.0
// matmul.h -- GEMM by cuBLASLt. The algorithm is chosen once per shape, so that a shape gives the same bits every time.
#pragma once

#include <memory>
#include <string>

#include "base/cuda/runtime.h"
#include "tutti/backend.h"

namespace tutti::cuda {

class Matmul {
 public:
  Matmul(ComputeType, cudaStream_t);
  ~Matmul();
  void run(const Gemm&, const float* a, const float* b, float* c);
  static std::string library();  // "cuBLASLt 13.0"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::cuda
