// SPDX-License-Identifier: Apache-2.0
// openblas.h -- products by OpenBLAS where the system has it (libopenblas.so.0). It is loaded when a product is timed
// or computed with it, so the program starts and runs without it.
#pragma once

#include <mutex>
#include <string>

#include "tutti/tensor_ops.h"

namespace tutti::cpu {

class OpenBlas {
 public:
  // Null if the system has none.
  static OpenBlas* load();
  const std::string& version() const { return version_; }  // "0.3.21 for SkylakeX"
  // Divides the columns among the OpenMP threads; a serial build computes one call at a time, on one thread.
  void run(const Gemm&, const float* a, const float* b, float* c);

 private:
  using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                         int lda, const float* b, int ldb, float beta, float* c, int ldc);
  explicit OpenBlas(void* library);

  Sgemm sgemm_ = nullptr;
  std::string version_;
  // Debian's serial build shares its buffers among all callers: one at a time.
  bool serial_ = false;
  std::mutex one_caller_;
};

}  // namespace tutti::cpu
