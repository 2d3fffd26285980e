// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/products.h"

#include "backend/cpu/openblas.h"
#include "base/instruction_set.h"

namespace tutti::cpu {

Products::Products(std::shared_ptr<const KernelChoices> choices)
    : choices_(std::move(choices)),
      onednn_(with_errors("starting its CPU engine", [] { return std::make_unique<Matmul>(); })),
      packs_by_shape_(widest_set() == InstructionSet::avx2) {
  if (has_library(ProductLibrary::packed)) packed_ = std::make_unique<PackedMatmul>(*packed_kernels());
}

ProductLibrary Products::by_shape(const Gemm& g) const {
  return packed_ && packs_by_shape_ && PackedMatmul::pays(g) ? ProductLibrary::packed : ProductLibrary::onednn;
}

ProductLibrary Products::chosen(const Gemm& g) const {
  if (!choices_ || choices_->empty() || !is_large(g)) return ProductLibrary::by_shape;
  const auto found = choices_->find(ProductKind::of(g));
  return found == choices_->end() ? ProductLibrary::by_shape : found->second;
}

void Products::run(const Gemm& g, const float* a, const float* b, float* c) { run(chosen(g), g, a, b, c); }

void Products::run(ProductLibrary library, const Gemm& g, const float* a, const float* b, float* c) {
  switch (library == ProductLibrary::by_shape ? by_shape(g) : library) {
    case ProductLibrary::by_shape:
    case ProductLibrary::onednn:
      return onednn_->run(g, a, b, c);
    case ProductLibrary::packed:
      return packed_->run(g, a, b, c);
    case ProductLibrary::openblas:
      return OpenBlas::load()->run(g, a, b, c);
  }
}

}  // namespace tutti::cpu
