// SPDX-License-Identifier: Apache-2.0
// parameters.h -- all trained weights in one flat buffer, their gradients in a parallel one, and named slices of both.
// Exchanges, codecs, optimizers and checkpoints see slices, never nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/placement.h"
#include "tutti/shape.h"

namespace tutti {

// Allocator of buffers: zeroed floats, 64-byte aligned, that the host may read and write. The device of a backend can
// also access the buffers that its own allocator returns.
struct FloatMemory {
  const char* name;
  float* (*allocate)(std::size_t count);  // null when out of memory
  void (*release)(float*);
  void (*synchronize)();  // waits for device work that this thread has queued on the memory; call before the host reads
};
const FloatMemory& host_memory();
inline bool is_host(const FloatMemory& m) { return &m == &host_memory(); }

// 64-byte aligned float storage, zero-initialised, never resized in the step loop.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(std::size_t count, const FloatMemory& memory = host_memory());
  // Creates a buffer from the same allocator as another one, for state that belongs to weights.
  FloatBuffer(std::size_t count, const FloatBuffer& like) : FloatBuffer(count, like.memory()) {}
  const FloatMemory& memory() const { return data_.get_deleter().memory ? *data_.get_deleter().memory : host_memory(); }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), size_}; }
  std::span<const float> span() const { return {data_.get(), size_}; }
  // A range of another buffer, which must outlive the view.
  static FloatBuffer view(FloatBuffer& of, std::size_t first, std::size_t count) {
    FloatBuffer v;
    v.data_ = {of.data() + first, Free(of.memory(), false)};
    v.size_ = count;
    return v;
  }

 private:
  struct Free {
    Free() : memory(nullptr) {}
    explicit Free(const FloatMemory& m, bool releases = true) : memory(&m), releases(releases) {}
    const FloatMemory* memory;
    bool releases = true;
    void operator()(float* p) const {
      if (releases) memory->release(p);
    }
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

// One trained parameter. As a matrix, its rows are the first axis and its columns all others; columns are contiguous. A
// tensor with short first axes, such as a convolution's kernel, joins them into rows until there are 64, without the
// last axis: then a column is (part of) a filter.
struct Slice {
  std::string name;
  Shape shape;
  std::size_t offset = 0;  // into weights and gradients, a multiple of 16 floats
  std::size_t rows = 0, columns = 0;
  double learning_rate_multiplier = 1;
  double regularization_multiplier = 1;  // 0 excludes the parameter from L1, L2 and weight decay
  bool vector = false;                   // a single axis (biases, scales): not scaled by LAMB and LARS
  // The gradient comes only from sparse inputs: it is zero except for the rows in Parameters::sparse_rows, and other
  // rows are neither decayed nor updated, as in CNTK. A sparse row is a column, or a row of a weight that only
  // TransposeTimes uses. Such a slice is one chunk.
  bool sparse_gradient = false;
  bool sparse_by_row = false;
  // Under model parallelism: this rank holds only this part, `shape`, of the parameter, and its gradient is complete
  // without an exchange.
  std::optional<ParameterShard> shard = std::nullopt;
  // At a parameter server, which holds runs of columns: the element at o is that at o + shift of the whole model.
  std::size_t shift = 0;
  std::size_t size() const { return rows * columns; }
  std::size_t sparse_row_count() const { return sparse_by_row ? rows : columns; }
  std::size_t sparse_row_size() const { return sparse_by_row ? columns : rows; }
};

// A run of whole columns of one slice: the unit in which gradients become ready, are exchanged and are applied.
struct GradientChunk {
  std::size_t slice = 0;
  std::size_t first_column = 0, columns = 0;
};

// Slices are in the order in which their gradients become ready (last layer first), those with a shard behind all
// others. The padding between slices is zero
// in every buffer. The chunks of a slice, and the order of their announcement, are equal on all ranks and in all steps.
struct Parameters {
  FloatBuffer weights;
  FloatBuffer gradients;  // sums over samples, not means
  std::vector<Slice> slices;
  std::vector<GradientChunk> chunks;  // in the order of announcement
  // By slice: the rows of a sparse gradient that may differ from zero, ascending; empty for dense slices. The network
  // writes the local lists before it announces the first chunk of a step, and zeroes the listed rows at the start of
  // the next step. An exchange that writes a sparse gradient must therefore list the rows it has written.
  std::vector<std::vector<std::uint32_t>> sparse_rows;
  // Sums over the ranks that hold the other parts of the slices with a shard, for norms and means of whole parameters.
  std::function<void(std::span<double>)> sum_over_shards;

  std::size_t size() const { return weights.size(); }
  std::size_t offset(const GradientChunk& p) const {
    return slices[p.slice].offset + p.first_column * slices[p.slice].rows;
  }
  std::size_t count(const GradientChunk& p) const { return p.columns * slices[p.slice].rows; }
};

// Zeroes the listed rows of a sparse gradient.
void clear_sparse_rows(const Slice&, std::span<const std::uint32_t> rows, FloatBuffer& gradients);

// The metrics of a step, exchanged with the gradients as doubles and 64-bit counts.
struct StepMetrics {
  std::int64_t samples = 0;  // real samples
  std::int64_t columns = 0;  // samples including packing gaps: the N of momentum, clipping and regularisation
  double criterion = 0;      // summed over samples
  double criterion_count = 0;
  struct Evaluation {
    double sum = 0, count = 0;
  };
  std::vector<Evaluation> evaluations;

  StepMetrics& operator+=(const StepMetrics& o) {
    samples += o.samples, columns += o.columns, criterion += o.criterion, criterion_count += o.criterion_count;
    if (evaluations.size() < o.evaluations.size()) evaluations.resize(o.evaluations.size());
    for (std::size_t i = 0; i < o.evaluations.size(); ++i)
      evaluations[i].sum += o.evaluations[i].sum, evaluations[i].count += o.evaluations[i].count;
    return *this;
  }
};

// Receives chunks that are ready: local gradients from the network, or reduced gradients from an exchange.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void chunk_ready(std::size_t chunk) = 0;  // index into Parameters::chunks
  // Several chunks that became ready together.
  virtual void chunks_ready(std::span<const std::size_t> chunks) {
    for (const std::size_t chunk : chunks) chunk_ready(chunk);
  }
  // Whether the receiver enqueues its work on the device. If not, the device has finished a chunk before it is
  // announced, and the host may read it.
  virtual bool follows_device() const { return false; }
};

}  // namespace tutti
