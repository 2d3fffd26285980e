// SPDX-License-Identifier: Apache-2.0
// matmul.h -- GEMM by oneDNN. Which of its two routines a product takes depends on its shape alone, so that the bits
// are the same in every run; figures are in docs/notes/engine.md.
#pragma once

#include <memory>
#include <string>

#include "tutti/backend.h"

namespace tutti::cpu {

class Matmul {
 public:
  Matmul();
  ~Matmul();
  void run(const Gemm&, const float* a, const float* b, float* c);
  static std::string library();  // "oneDNN 2.6.3"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::cpu
