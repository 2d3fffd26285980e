// SPDX-License-Identifier: Apache-2.0
// backend.h -- tensor arithmetic, once per kind of device. Small because operators are enums: a new one does not
// compile until every backend has it (-Werror=switch). Pointers are device memory of the backend; all sizes are in
// floats.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tutti/image_backend.h"
#include "tutti/parameters.h"
#include "tutti/recurrent.h"

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
enum class SoftmaxOp { softmax, log_softmax, hardmax };
enum class LossOp {
  cross_entropy_with_softmax,
  classification_error,
  cross_entropy,
  square_error,
  logistic,
  weighted_logistic,
  sum,
  sum_abs
};

// The numbers of products (and convolutions). Operands are rounded to the type, sums are float32; values between them
// may be stored in it (ImageBackend::element). Weights, all other operations and reductions are float32 in each case.
enum class ComputeType { float32, tf32, bfloat16, float16 };

// Elementwise access to up to three operands and a result; axis 0 is the fastest, a stride of 0 repeats an operand.
struct Layout {
  static constexpr std::size_t max_rank = 9;
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> size{};
  std::array<std::array<std::size_t, max_rank>, 4> stride{};  // [0..2] operands, [3] result
  Element element = Element::float32;                         // of all; 16 bits only where nothing is repeated
};

// Values seen as outer x size x inner, worked on along the middle.
struct Extent {
  std::size_t outer = 1, size = 1, inner = 1;
  std::size_t count() const { return outer * size * inner; }
};

// Row-major C[m x n] = A[m x k] B[k x n]; a transposed operand is stored [k x m] or [n x k].
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::size_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false;  // C += instead of C =
  // Not 0: from Backend::new_version(); as long as it stays the same, so does B, which may be kept converted (weights
  // through a step).
  std::uint64_t b_version = 0;
  // Of what is stored; 16 bits are those of images(). Where anything has 16 bits, both operands are rounded to them.
  Element a_element = Element::float32, b_element = Element::float32, c_element = Element::float32;
  // B is what it was when it was last given without this: what has been made of it may be used again.
  bool same_b = false;
};

// Compressed columns: `begin` has columns + 1 offsets into values and indices.
struct SparseView {
  std::size_t columns = 0;
  const float* values = nullptr;
  const std::int32_t* indices = nullptr;
  const std::int64_t* begin = nullptr;
};

// A weight whose element (index, out) lies at index * index_stride + out * out_stride.
struct SparseWeight {
  std::size_t out = 0, index_stride = 0, out_stride = 1;
};

// Operands: labels (or the only operand), prediction, weight. The softmax runs along the middle of `extent`.
struct Loss {
  LossOp op = LossOp::sum;
  Extent extent;
  std::size_t top = 1;          // classification error: the label among the `top` largest is right
  std::size_t weight_size = 0;  // weighted logistic: elements of a sample's weight, 1 or all
};

// Which elements are dropped is a pure function of the seed, the number of the sample and the place of the element in
// it: both directions see the same mask, and so does every number of ranks. Seed and numbers change from step to step
// and are in backend memory, so a captured step that is replayed reads the values of the current step.
struct DropoutMask {
  const std::uint64_t* seed = nullptr;
  const std::int64_t* samples = nullptr;  // by column
  std::size_t elements = 1;               // of a sample
  float rate = 0;
  // Elements are numbered as in a plain image, wherever they lie: where `block` is not 0, that many channels of a pixel
  // lie side by side.
  std::size_t block = 0, channels = 0, pixels = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual ComputeType compute_type() const = 0;
  // A number that no value has had yet.
  std::uint64_t new_version() { return ++versions_; }
  virtual ImageBackend& images() = 0;

  // A device works behind the host's back: calls return once the work is in its queue, which keeps the order.
  // synchronize() waits for everything; record_event() marks a place in the stream, synchronize(event) waits until the
  // device has reached it. Backends whose memory is the host's do everything at once.
  virtual bool is_host() const { return true; }
  virtual void synchronize() {}
  virtual std::uint64_t record_event() { return 0; }
  virtual void synchronize(std::uint64_t event) { static_cast<void>(event); }
  // From now on what works beside a backend on this thread (optimizers, codecs, strategies) puts its work into this
  // one's stream. The backend that was made last is current until then.
  virtual void make_current() {}
  // For buffers that host and device both see: weights, gradients, what optimizers and strategies keep. The host may
  // look at what the device has written after synchronize().
  virtual const FloatMemory& shared_memory() const { return host_memory(); }
  // Workspace for sums that loss() writes; the host may look at them after synchronize().
  virtual std::shared_ptr<double[]> make_sums(std::size_t count) {
    return std::shared_ptr<double[]>(new double[count]());
  }
  // `kept` (of make_sums) gets the first `count` of what stands in `sums` when the device comes to it. If number
  // `decisive` is not a number, optimizers that this backend is current for leave the weights as they are from then on,
  // until the queue comes to let_weights_change().
  virtual void keep_sums(const double* sums, std::size_t count, std::size_t decisive, double* kept) {
    static_cast<void>(decisive);
    std::copy_n(sums, count, kept);
  }
  virtual void let_weights_change() {}

  // Memory, 64-byte aligned. Of the device: the host sees it through upload and download only. What was given to upload
  // may be reused at once; download waits.
  virtual float* allocate(std::size_t count) = 0;
  virtual void release(float*) = 0;
  virtual void upload(const float* host, float* device, std::size_t count) = 0;
  virtual void download(const float* device, float* host, std::size_t count) = 0;
  virtual void fill(float value, float* x, std::size_t count) = 0;
  // x *= factor; `sum` (of make_sums; may be null) gets the sum of the sizes of what stands there then.
  virtual void scale(float factor, float* x, std::size_t count, double* sum) = 0;
  // Operand 0 to the result, along the layout. With `accumulate` and a result stride of 0 it sums.
  virtual void copy(const Layout&, const float* x, float* y, bool accumulate) = 0;

  // Columns of `width` floats by number: y[c] = x[from[c]], zeros where the number is negative; and back:
  // dx[from[c]] += dy[c].
  virtual void gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) = 0;
  virtual void scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) = 0;
  // As gather_columns, by numbers that lie in memory of the backend; where they are negative y stays as it was.
  virtual void replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                               float* y) = 0;

  // Products.
  virtual void gemm(const Gemm&, const float* a, const float* b, float* c) = 0;
  // Whether products take bias and ReLU along, so that these need no pass of their own.
  virtual bool fuses_products() const { return false; }
  // C = op(A B + bias) with ldc = n; op is copy or relu. `mask` (of mask_floats(n) a row; may be null) keeps for
  // gemm_relu_gradient where C is above 0.
  virtual void gemm_bias(const Gemm& g, UnaryOp op, const float* a, const float* b, const float* bias, float* c,
                         float* mask) {
    static_cast<void>(mask);
    gemm(g, a, b, c);
    bias_activation(op, g.m, g.n, bias, c, g.c_element);
  }
  // C = A B where y, which came with `mask`, is above 0, and 0 elsewhere; `sums` (may be null) gets its sum over rows.
  virtual void gemm_relu_gradient(const Gemm& g, const float* a, const float* b, const float* y, const float* mask,
                                  float* c, float* sums) {
    static_cast<void>(mask);
    gemm(g, a, b, c);
    bias_activation_gradient(UnaryOp::relu, g.m, g.n, y, c, sums, false, g.c_element);
  }
  static constexpr std::size_t mask_floats(std::size_t n) { return (n + 127) / 128 * 4; }
  // y[column][out] = sum of value * w(index, out); the gradient adds into dw.
  virtual void sparse_times(const SparseView& x, const SparseWeight&, const float* w, float* y) = 0;
  virtual void sparse_times_gradient(const SparseView& x, const SparseWeight&, const float* dy, float* dw) = 0;
  virtual void densify(const SparseView& x, std::size_t dim, float* y) = 0;
  // Zeroes rows of a sparse gradient, which lies in shared_memory().
  virtual void clear_sparse_rows(const Slice& s, std::span<const std::uint32_t> lines, FloatBuffer& gradients) {
    tutti::clear_sparse_rows(s, lines, gradients);
  }

  // Elementwise. x may be y, and dx may be dy. Types but float32 are those of images().
  virtual void map(UnaryOp, const float* x, float* y, std::size_t count, Element = Element::float32) = 0;
  virtual void map_gradient(UnaryOp, const float* x, const float* y, const float* dy, float* dx, std::size_t count,
                            bool accumulate, Element = Element::float32) = 0;
  virtual void combine(PointOp, const Layout&, std::span<const float* const> in, float* y) = 0;
  // With respect to operand `k`, whose layout dx has; repeated operands get the sum.
  virtual void combine_gradient(PointOp, std::size_t k, const Layout&, std::span<const float* const> in,
                                const float* dy, float* dx, bool accumulate) = 0;
  // y = op(y + bias) row by row, and back: dy becomes the gradient before op, dbias its sum over rows (may be null).
  virtual void bias_activation(UnaryOp, std::size_t rows, std::size_t n, const float* bias, float* y,
                               Element = Element::float32) = 0;
  virtual void bias_activation_gradient(UnaryOp, std::size_t rows, std::size_t n, const float* y, float* dy,
                                        float* dbias, bool accumulate, Element = Element::float32) = 0;
  // y = x * mask / (1 - rate), or added to y; used in both directions.
  virtual void dropout(const DropoutMask&, const float* x, float* y, std::size_t count, bool accumulate,
                       Element = Element::float32) = 0;

  // Recurrent cells, and layers of them.
  virtual void lstm_step(const LstmRows&) = 0;
  virtual void lstm_step_gradient(const LstmRowsGradient&) = 0;
  virtual void gru_step(const GruRows&) = 0;
  virtual void gru_step_gradient(const GruRowsGradient&) = 0;
  // With gru_reset_before: ahead of the step, and behind the gradient of the step.
  virtual void gru_reset(const GruRows&) = 0;
  virtual void gru_reset_gradient(const GruRowsGradient&) = 0;
  // Whether layers are worth more when they make W x + b themselves.
  virtual bool fuses_recurrent_inputs() const { return false; }
  // Of the pointers it counts only which are null.
  virtual std::size_t recurrent_layer_workspace(const RecurrentLayer&) = 0;
  // Before recurrent_layer(), which may be repeated from a captured graph as long as the layer is the same: what it
  // needs of the host.
  virtual void describe_recurrent_layer(const RecurrentLayer&) {}
  virtual void recurrent_layer(const RecurrentLayer&) = 0;
  virtual void recurrent_layer_gradient(const RecurrentLayer&, const RecurrentLayerGradient&) = 0;

  // Along an axis.
  virtual void reduce(ReduceOp, const Extent&, const float* x, float* y) = 0;
  virtual void reduce_gradient(ReduceOp, const Extent&, const float* x, const float* y, const float* dy, float* dx,
                               bool accumulate) = 0;
  virtual void softmax(SoftmaxOp, const Extent&, const float* x, float* y) = 0;
  virtual void softmax_gradient(SoftmaxOp, const Extent&, const float* y, const float* dy, float* dx,
                                bool accumulate) = 0;

  // Criteria: the sum over everything, in double to `sum` (of make_sums) and in float to `y`. `work` has extent.count()
  // floats and lives until the gradient.
  virtual void loss(const Loss&, std::span<const float* const> in, float* work, double* sum, float* y) = 0;
  virtual void loss_gradient(const Loss&, std::size_t k, std::span<const float* const> in, const float* work,
                             const float* dy, float* dx, bool accumulate) = 0;

 private:
  std::uint64_t versions_ = 0;
};

// Memory of a backend for the device that grows when asked, without keeping what it held.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& o) noexcept
      : backend_(o.backend_), data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept {
    std::swap(backend_, o.backend_), std::swap(data_, o.data_), std::swap(size_, o.size_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_) backend_->release(data_);
  }
  float* reserve(Backend& backend, std::size_t count) {
    if (count <= size_) return data_;
    if (data_) backend_->release(std::exchange(data_, nullptr));
    size_ = 0;
    backend_ = &backend;
    data_ = backend.allocate(count);
    size_ = count;
    return data_;
  }
  float* data() const { return data_; }

 private:
  Backend* backend_ = nullptr;
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

// Whether the device can do it: every one has float32.
bool supports(const std::string& device, ComputeType);
// "cpu", or "cuda:0" for the first GPU; throws Error for a device that is not there, or a type that it does not compute
// in.
std::unique_ptr<Backend> make_backend(const std::string& device, ComputeType = ComputeType::float32);

}  // namespace tutti
