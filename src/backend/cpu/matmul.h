// SPDX-License-Identifier: Apache-2.0
// matmul.h -- GEMM by oneDNN. Its two routines are chosen by shape alone, so that all runs give the same bits; figures
// are in docs/notes/engine.md.
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
