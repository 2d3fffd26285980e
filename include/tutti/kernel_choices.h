// SPDX-License-Identifier: Apache-2.0
// kernel_choices.h -- which library computes a large matrix product on the CPU. The fastest one depends on processor,
// library versions and shape; the others differ from it in the last bits. So a choice is made once, by timing, and kept
// (docs/kernels.md).
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/tensor_ops.h"

namespace tutti {

// by_shape: the rule of the backend, which looks at nothing but the shape. packed: our own kernels for AVX2.
enum class ProductLibrary { by_shape, onednn, packed, openblas };
constexpr ProductLibrary all_product_libraries[] = {ProductLibrary::by_shape, ProductLibrary::onednn,
                                                    ProductLibrary::packed, ProductLibrary::openblas};
std::string_view name_of(ProductLibrary);

// The products that share a choice. Ranks have shares of a minibatch that differ by a sample, so `samples` is the next
// power of two: of m, or of k with a transposed left operand (the gradient of a weight, which is computed in chunks of
// any m).
struct ProductKind {
  bool transpose_a = false, transpose_b = false;
  std::size_t samples = 0, n = 0, k = 0;  // k = 0 with a transposed left operand
  static ProductKind of(const Gemm&);
  // One word, "NT:256:2048:784", and back; nullopt if the text is no kind.
  std::string text() const;
  static std::optional<ProductKind> parse(std::string_view);
  auto operator<=>(const ProductKind&) const = default;
};
using KernelChoices = std::map<ProductKind, ProductLibrary>;

// Large enough that the choice matters: at least 50 million operations (a multiply-add is two).
bool is_large(const Gemm&);

// Processor, instruction set, the versions of the libraries and the number of threads: choices are for these. On one
// line.
std::string product_libraries(int threads);
bool has_library(ProductLibrary);

// A product of a network, and how often it is computed with the same right operand in a step.
struct RepeatedProduct {
  Gemm product;
  std::size_t times = 1;
};
// For each kind the fastest library if it is at least 5 % faster than by_shape, else by_shape; with as many threads as
// OpenMP would use. Takes some tenths of a second at most.
KernelChoices time_products(std::span<const RepeatedProduct>);

}  // namespace tutti
