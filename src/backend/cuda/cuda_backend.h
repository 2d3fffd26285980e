// SPDX-License-Identifier: Apache-2.0
// cuda_backend.h -- the GPU backend, one layer per family: products by cuBLASLt, images by cuDNN, own kernels for the
// rest. The twin of cpu_backend.h. All work of a backend is in one stream, in the order of the calls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/cuda/runtime.h"
#include "tutti/backend.h"
#include "tutti/graph_capture.h"

namespace tutti::cuda {

class Matmul;      // matmul.cpp
class Recurrence;  // recurrence.cpp

std::string matmul_library();  // "cuBLASLt 13.0.1"

// Groups entries that add to the same place, on the host, so that one thread sums each place in the order of the
// entries. Needs no atomics, and all runs give the same bits.
struct Groups {
  std::vector<std::int32_t> place;  // of each group, ascending
  std::vector<std::int64_t> begin;  // of each group in `entries`, plus the end
  std::vector<std::int32_t> entries;

  // Entries with a negative place are skipped.
  void assign(std::span<const std::int32_t> places) {
    sorted_.clear(), place.clear(), begin.clear(), entries.clear();
    for (std::size_t i = 0; i < places.size(); ++i)
      if (places[i] >= 0) sorted_.push_back(static_cast<std::uint64_t>(places[i]) << 32 | i);
    std::sort(sorted_.begin(), sorted_.end());
    for (const std::uint64_t both : sorted_) {
      const auto to = static_cast<std::int32_t>(both >> 32);
      if (place.empty() || place.back() != to) {
        place.push_back(to);
        begin.push_back(static_cast<std::int64_t>(entries.size()));
      }
      entries.push_back(static_cast<std::int32_t>(both & 0xffffffffu));
    }
    begin.push_back(static_cast<std::int64_t>(entries.size()));
  }

 private:
  std::vector<std::uint64_t> sorted_;  // kept to reuse its memory
};

class CudaDevice : public Backend, public GraphCapture {
 public:
  // Throws an Error that names the step that failed: driver, device or memory.
  CudaDevice(int device, ComputeType);
  ~CudaDevice() override;

  std::string name() const override;
  ComputeType compute_type() const override { return compute_type_; }

  bool is_host() const override { return false; }
  void synchronize() override;
  std::uint64_t record_event() override;
  void synchronize(std::uint64_t event) override;
  void make_current() override { set_current_queue(stream(), halt_); }
  const FloatMemory& shared_memory() const override;
  std::shared_ptr<double[]> make_sums(std::size_t count) override;
  void keep_sums(const double* sums, std::size_t count, std::size_t decisive, double* kept) override;
  void let_weights_change() override;

  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override;
  std::string obstacle() const override { return obstacle_; }

  float* allocate(std::size_t count) override;
  void release(float*) override;
  void upload(const float* host, float* device, std::size_t count) override;
  void download(const float* device, float* host, std::size_t count) override;

  // For other work on the same device, such as codecs and optimizers.
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_.get(); }
  Staging& staging() { return staging_; }
  Scratch& scratch() { return scratch_; }
  // For calls that cannot be captured: ends a capture in progress.
  void not_while_capturing() const;

 protected:
  // Host arrays of one call, contiguous in device scratch memory.
  template <class T>
  const T* uploaded(const T* host, std::size_t count, Scratch& workspace);

  const int device_;
  const ComputeType compute_type_;
  std::string device_name_;
  Stream stream_;
  Events events_{"computing"};
  bool capturing_ = false;
  std::string obstacle_;  // why the last capture failed
  Staging staging_;
  Scratch halting_;
  int* const halt_;  // see runtime.h; in halting_
  Scratch scratch_;  // intermediate results: free after a call, because the stream keeps the order
};

class CudaTensors : public CudaDevice {
 public:
  CudaTensors(int device, ComputeType);
  ~CudaTensors() override;

  void fill(float value, float* x, std::size_t count) override;
  void scale(float factor, float* x, std::size_t count, double* sum) override;
  void copy(const Layout&, const float* x, float* y, bool accumulate) override;
  void gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) override;
  void scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) override;
  void replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                       float* y) override;

  void gemm(const Gemm&, const float* a, const float* b, float* c) override;
  bool fuses_products() const override { return true; }
  void gemm_bias(const Gemm&, UnaryOp, const float* a, const float* b, const float* bias, float* c,
                 float* mask) override;
  void gemm_relu_gradient(const Gemm&, const float* a, const float* b, const float* y, const float* mask, float* c,
                          float* sums) override;
  void sparse_times(const SparseView& x, const SparseWeight&, const float* w, float* y) override;
  void sparse_times_gradient(const SparseView& x, const SparseWeight&, const float* dy, float* dw) override;
  void densify(const SparseView& x, std::size_t dim, float* y) override;
  void clear_sparse_rows(const Slice&, std::span<const std::uint32_t> lines, FloatBuffer& gradients) override;

  void map(UnaryOp, const float* x, float* y, std::size_t count, Element) override;
  void map_gradient(UnaryOp, const float* x, const float* y, const float* dy, float* dx, std::size_t count,
                    bool accumulate, Element) override;
  void combine(PointOp, const Layout&, std::span<const float* const> in, float* y) override;
  void combine_gradient(PointOp, std::size_t k, const Layout&, std::span<const float* const> in, const float* dy,
                        float* dx, bool accumulate) override;
  void bias_activation(UnaryOp, std::size_t rows, std::size_t n, const float* bias, float* y, Element) override;
  void bias_activation_gradient(UnaryOp, std::size_t rows, std::size_t n, const float* y, float* dy, float* dbias,
                                bool accumulate, Element) override;
  void dropout(const DropoutMask&, const float* x, float* y, std::size_t count, bool accumulate, Element) override;

  void reduce(ReduceOp, const Extent&, const float* x, float* y) override;
  void reduce_gradient(ReduceOp, const Extent&, const float* x, const float* y, const float* dy, float* dx,
                       bool accumulate) override;

 private:
  Scratch lists_[5];  // host arrays of a call
  Groups groups_;
  std::vector<std::int32_t> columns_;
  std::unique_ptr<Matmul> matmul_;
  // Layers that the library has prepared, with their row counts: a captured graph of one size repeats them without
  // preparation, and the library may not support another size.
  std::set<std::pair<const float*, std::size_t>> masks_;
};

class CudaRecurrent : public CudaTensors {
 public:
  CudaRecurrent(int device, ComputeType);
  ~CudaRecurrent() override;

  void lstm_step(const LstmRows&) override;
  void lstm_step_gradient(const LstmRowsGradient&) override;
  void gru_step(const GruRows&) override;
  void gru_step_gradient(const GruRowsGradient&) override;
  void gru_reset(const GruRows&) override;
  void gru_reset_gradient(const GruRowsGradient&) override;
  bool fuses_recurrent_inputs() const override { return true; }
  std::size_t recurrent_layer_workspace(const RecurrentLayer&) override;
  void describe_recurrent_layer(const RecurrentLayer&) override;
  void recurrent_layer(const RecurrentLayer&) override;
  void recurrent_layer_gradient(const RecurrentLayer&, const RecurrentLayerGradient&) override;

 private:
  Recurrence& recurrence();
  std::unique_ptr<Recurrence> recurrence_;
};

class CudaBackend final : public CudaRecurrent {
 public:
  CudaBackend(int device, ComputeType);
  ~CudaBackend() override;

  ImageOps& images() override;

  void softmax(SoftmaxOp, const Extent&, const float* x, float* y) override;
  void softmax_gradient(SoftmaxOp, const Extent&, const float* y, const float* dy, float* dx, bool accumulate) override;

  void loss(const Loss&, std::span<const float* const> in, float* work, double* sum, float* y) override;
  void loss_gradient(const Loss&, std::size_t k, std::span<const float* const> in, const float* work, const float* dy,
                     float* dx, bool accumulate) override;
  void class_loss(const ClassLoss&, float* work, double* sum, float* y) override;
  void class_loss_gradient(const ClassLoss&, ClassLoss::Operand, const float* work, const float* dy, float* dx,
                           bool accumulate) override;

 private:
  std::unique_ptr<ImageOps> images_;
};

template <class T>
const T* CudaDevice::uploaded(const T* host, std::size_t count, Scratch& workspace) {
  not_while_capturing();
  T* device = workspace.reserve<T>(count);
  staging_.upload(host, device, count * sizeof(T), stream());
  return device;
}

}  // namespace tutti::cuda
