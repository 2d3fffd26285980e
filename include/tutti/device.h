// SPDX-License-Identifier: Apache-2.0
// device.h -- the device of a backend: memory, stream and events. Pointers are device pointers; all sizes are in
// floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tutti/parameters.h"

namespace tutti {

// The number type of products and convolutions. Operands are rounded to it and sums are float32; values between
// products may be stored in it (ImageOps::element). Weights, reductions and all other operations are always float32.
enum class ComputeType { float32, tf32, bfloat16, float16 };

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual ComputeType compute_type() const = 0;

  // A device runs asynchronously: calls enqueue work in a stream, which keeps their order. synchronize() waits for all
  // of it. record_event() marks a place in the stream, and synchronize(event) waits until the device has reached it.
  // Devices that share the host's memory complete every call at once.
  virtual bool is_host() const { return true; }
  virtual void synchronize() {}
  virtual std::uint64_t record_event() { return 0; }
  virtual void synchronize(std::uint64_t event) { static_cast<void>(event); }
  // Makes this device current on the calling thread: optimizers, codecs and exchanges then enqueue their work in its
  // stream. Initially the device created last is current.
  virtual void make_current() {}
  // Allocates buffers that host and device both access: weights, gradients, and the state of optimizers and exchanges.
  // The host may read what the device wrote after synchronize().
  virtual const FloatMemory& shared_memory() const { return host_memory(); }
  // Allocates the sums that loss() writes. The host may read them after synchronize().
  virtual std::shared_ptr<double[]> make_sums(std::size_t count) {
    return std::shared_ptr<double[]>(new double[count]());
  }
  // Copies the first `count` of `sums` to `kept` (from make_sums) in stream order. If the value `decisive` is NaN,
  // optimizers for which this device is current stop changing the weights until the stream reaches
  // let_weights_change().
  virtual void keep_sums(const double* sums, std::size_t count, std::size_t decisive, double* kept) {
    static_cast<void>(decisive);
    std::copy_n(sums, count, kept);
  }
  virtual void let_weights_change() {}

  // Allocates device memory, 64-byte aligned. The host accesses it only through upload() and download(). The source of
  // upload() may be reused at once; download() waits.
  virtual float* allocate(std::size_t count) = 0;
  virtual void release(float*) = 0;
  virtual void upload(const float* host, float* device, std::size_t count) = 0;
  virtual void download(const float* device, float* host, std::size_t count) = 0;
};

// Device memory that grows on demand and does not keep its contents when it grows.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& o) noexcept
      : device_(o.device_), data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept {
    std::swap(device_, o.device_), std::swap(data_, o.data_), std::swap(size_, o.size_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_) device_->release(data_);
  }
  float* reserve(Device& device, std::size_t count) {
    if (count <= size_) return data_;
    if (data_) device_->release(std::exchange(data_, nullptr));
    size_ = 0;
    device_ = &device;
    data_ = device.allocate(count);
    size_ = count;
    return data_;
  }
  float* data() const { return data_; }

 private:
  Device* device_ = nullptr;
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tutti
