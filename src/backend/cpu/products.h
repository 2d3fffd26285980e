// SPDX-License-Identifier: Apache-2.0
// products.h -- float32 products, each by one of several libraries: the one that was chosen for its kind, or the one
// that its shape says.
#pragma once

#include <memory>

#include "backend/cpu/matmul.h"
#include "backend/cpu/packed_matmul.h"
#include "tutti/kernel_choices.h"

namespace tutti::cpu {

class Products {
 public:
  explicit Products(std::shared_ptr<const KernelChoices> = nullptr);
  void run(const Gemm&, const float* a, const float* b, float* c);
  void run(ProductLibrary, const Gemm&, const float* a, const float* b, float* c);
  // oneDNN or packed.
  ProductLibrary by_shape(const Gemm&) const;

 private:
  ProductLibrary chosen(const Gemm&) const;

  const std::shared_ptr<const KernelChoices> choices_;  // may be null
  std::unique_ptr<Matmul> onednn_;
  std::unique_ptr<PackedMatmul> packed_;  // null: this processor lacks AVX2
  const bool packs_by_shape_;             // false: oneDNN is faster here in general
};

}  // namespace tutti::cpu
