// SPDX-License-Identifier: Apache-2.0
// tensor_ops.h -- tensor arithmetic: copies, products, elementwise operations, sums. Operators are enums, so a new one
// does not compile until every backend implements it (-Werror=switch). Pointers are device pointers; all sizes are in
// floats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/image_ops.h"
#include "tutti/parameters.h"

namespace tutti {

enum class UnaryOp {
  copy,
  negate,
  reciprocal,
  sigmoid,
  tanh,
  relu,
  exp,
  log,
  sqrt,
  abs,
  floor,
  ceil,
  round,
  sin,
  cosine
};
// Two operands, then three: choose(c, a, b), clip(low, high, x), normalize(x, mean, scale) and its inverse.
enum class PointOp {
  plus,
  minus,
  times,
  log_plus,
  less,
  equal,
  greater,
  greater_equal,
  not_equal,
  less_equal,
  choose,
  clip,
  normalize,
  denormalize
};
enum class ReduceOp { sum, log_sum, mean, min, max };
// Elementwise access to up to three operands and a result. Axis 0 is the fastest; a stride of 0 repeats an operand.
struct Layout {
  static constexpr std::size_t max_rank = 9;
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> size{};
  std::array<std::array<std::size_t, max_rank>, 4> stride{};  // [0..2] operands, [3] result
  Element element = Element::float32;                         // of all operands; 16 bits only if nothing is repeated
};

// Row-major C[m x n] = A[m x k] B[k x n]; a transposed operand is stored [k x m] or [n x k].
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::size_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false;  // C += instead of C =
  // Not 0: from Backend::new_version(). While the version stays the same, B does not change and may be kept converted
  // (weights during a step).
  std::uint64_t b_version = 0;
  // Storage types; 16-bit types are those of images(). If any operand has 16 bits, both are rounded to them.
  Element a_element = Element::float32, b_element = Element::float32, c_element = Element::float32;
  // B has not changed since the last call without this flag; data derived from it are reused.
  bool same_b = false;
};

// Compressed columns: `begin` has columns + 1 offsets into values and indices.
struct SparseView {
  std::size_t columns = 0;
  const float* values = nullptr;
  const std::int32_t* indices = nullptr;
  const std::int64_t* begin = nullptr;
};

// A weight whose element (index, out) is at index * index_stride + out * out_stride.
struct SparseWeight {
  std::size_t out = 0, index_stride = 0, out_stride = 1;
};

// The dropped elements are a pure function of the seed, the number of the sample and the position of the element in it.
// So forward and backward see the same mask, for any number of ranks. Seed and sample numbers change from step to step
// and are in device memory, so a replayed step reads the current ones.
struct DropoutMask {
  const std::uint64_t* seed = nullptr;
  const std::int64_t* samples = nullptr;  // by column
  std::size_t elements = 1;               // of a sample
  float rate = 0;
  // Elements are numbered as in a plain image, whatever their layout. `block`: channels per block of a blocked image, 0
  // = plain.
  std::size_t block = 0, channels = 0, pixels = 0;
  // These are elements [first, first + elements) of samples of `whole` elements; 0: of whole samples.
  std::size_t first = 0, whole = 0;
};

// Values seen as outer x size x inner; operations run along the middle axis.
struct Extent {
  std::size_t outer = 1, size = 1, inner = 1;
  std::size_t count() const { return outer * size * inner; }
};

class TensorOps {
 public:
  virtual ~TensorOps() = default;
  // Returns a version number that was never used before.
  std::uint64_t new_version() { return ++versions_; }

  virtual void fill(float value, float* x, std::size_t count) = 0;
  // x *= factor. If `sum` (from make_sums) is not null, it gets the sum of the absolute results.
  virtual void scale(float factor, float* x, std::size_t count, double* sum) = 0;
  // Copies operand 0 to the result along the layout. With `accumulate` and a result stride of 0, it sums.
  virtual void copy(const Layout&, const float* x, float* y, bool accumulate) = 0;

  // Columns of `width` floats by number: y[c] = x[from[c]], zeros if the number is negative. The gradient: dx[from[c]]
  // += dy[c].
  virtual void gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) = 0;
  virtual void scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) = 0;
  // As gather_columns, with numbers in device memory; a negative number leaves y unchanged.
  virtual void replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                               float* y) = 0;

  // Products.
  virtual void gemm(const Gemm&, const float* a, const float* b, float* c) = 0;
  // Whether products can fuse bias and ReLU.
  virtual bool fuses_products() const { return false; }
  // C = op(A B + bias) with ldc = n; op is copy or relu. `mask` (mask_floats(n) per row; may be null) records where C
  // is positive, for gemm_relu_gradient.
  virtual void gemm_bias(const Gemm& g, UnaryOp op, const float* a, const float* b, const float* bias, float* c,
                         float* mask) {
    static_cast<void>(mask);
    gemm(g, a, b, c);
    bias_activation(op, g.m, g.n, bias, c, g.c_element);
  }
  // C = A B where y, the result that came with `mask`, is positive, else 0. `sums` (may be null) gets the sum of C over
  // rows.
  virtual void gemm_relu_gradient(const Gemm& g, const float* a, const float* b, const float* y, const float* mask,
                                  float* c, float* sums) {
    static_cast<void>(mask);
    gemm(g, a, b, c);
    bias_activation_gradient(UnaryOp::relu, g.m, g.n, y, c, sums, false, g.c_element);
  }
  static constexpr std::size_t mask_floats(std::size_t n) { return (n + 127) / 128 * 4; }
  // y[column][out] = sum of value * w(index, out). The gradient adds to dw.
  virtual void sparse_times(const SparseView& x, const SparseWeight&, const float* w, float* y) = 0;
  virtual void sparse_times_gradient(const SparseView& x, const SparseWeight&, const float* dy, float* dw) = 0;
  virtual void densify(const SparseView& x, std::size_t dim, float* y) = 0;
  // Zeroes rows of a sparse gradient in shared_memory().
  virtual void clear_sparse_rows(const Slice& s, std::span<const std::uint32_t> lines, FloatBuffer& gradients) {
    tutti::clear_sparse_rows(s, lines, gradients);
  }

  // Elementwise. x may be y, and dx may be dy. 16-bit types are those of images().
  virtual void map(UnaryOp, const float* x, float* y, std::size_t count, Element = Element::float32) = 0;
  virtual void map_gradient(UnaryOp, const float* x, const float* y, const float* dy, float* dx, std::size_t count,
                            bool accumulate, Element = Element::float32) = 0;
  virtual void combine(PointOp, const Layout&, std::span<const float* const> in, float* y) = 0;
  // Gradient with respect to operand `k`, in the layout of dx. Repeated operands get the sum.
  virtual void combine_gradient(PointOp, std::size_t k, const Layout&, std::span<const float* const> in,
                                const float* dy, float* dx, bool accumulate) = 0;
  // y = op(y + bias) row by row. The gradient turns dy into the gradient before op and sums it over rows into dbias
  // (may be null).
  virtual void bias_activation(UnaryOp, std::size_t rows, std::size_t n, const float* bias, float* y,
                               Element = Element::float32) = 0;
  virtual void bias_activation_gradient(UnaryOp, std::size_t rows, std::size_t n, const float* y, float* dy,
                                        float* dbias, bool accumulate, Element = Element::float32) = 0;
  // y = x * mask / (1 - rate), or adds that to y. Used in both directions.
  virtual void dropout(const DropoutMask&, const float* x, float* y, std::size_t count, bool accumulate,
                       Element = Element::float32) = 0;

  // Along the middle axis.
  virtual void reduce(ReduceOp, const Extent&, const float* x, float* y) = 0;
  virtual void reduce_gradient(ReduceOp, const Extent&, const float* x, const float* y, const float* dy, float* dx,
                               bool accumulate) = 0;

 private:
  std::uint64_t versions_ = 0;
};

}  // namespace tutti
