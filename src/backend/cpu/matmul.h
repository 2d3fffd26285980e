// SPDX-License-Identifier: Apache-2.0
// matmul.h -- GEMM by oneDNN. Its two routines are chosen by shape alone; figures are in docs/notes/engine.md.
#pragma once

#include <map>
#include <tuple>

#include "backend/cpu/onednn.h"
#include "tutti/tensor_ops.h"

namespace tutti::cpu {

class Matmul {
 public:
  void run(const Gemm&, const float* a, const float* b, float* c);

 private:
  using Key = std::tuple<bool, bool, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;
  OneDnn dnnl_;
  std::map<Key, Prepared> planned_;
};

}  // namespace tutti::cpu
