// SPDX-License-Identifier: Apache-2.0
// device.h -- where a backend computes: memory, the stream of work, events. Pointers are memory of the device; all
// sizes are in floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tutti/parameters.h"

namespace tutti {

// The numbers of products (and convolutions). Operands are rounded to the type, sums are float32; values between them
// may be stored in it (ImageOps::element). Weights, all other operations and reductions are float32 in each case.
enum class ComputeType { float32, tf32, bfloat16, float16 };

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual ComputeType compute_type() const = 0;

  // A device works behind the host's back: calls return once the work is in its queue, which keeps the order.
  // synchronize() waits for everything; record_event() marks a place in the stream, synchronize(event) waits until the
  // device has reached it. Devices whose memory is the host's do everything at once.
  virtual bool is_host() const { return true; }
  virtual void synchronize() {}
  virtual std::uint64_t record_event() { return 0; }
  virtual void synchronize(std::uint64_t event) { static_cast<void>(event); }
  // From now on what works beside the device on this thread (optimizers, codecs, exchanges) puts its work into this
  // one's stream. The device that was made last is current until then.
  virtual void make_current() {}
  // For buffers that host and device both see: weights, gradients, what optimizers and exchanges keep. The host may
  // look at what the device has written after synchronize().
  virtual const FloatMemory& shared_memory() const { return host_memory(); }
  // Workspace for sums that loss() writes; the host may look at them after synchronize().
  virtual std::shared_ptr<double[]> make_sums(std::size_t count) {
    return std::shared_ptr<double[]>(new double[count]());
  }
  // `kept` (of make_sums) gets the first `count` of what stands in `sums` when the device comes to it. If number
  // `decisive` is not a number, optimizers that this device is current for leave the weights as they are from then on,
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
};

// Memory of a device that grows when asked, without keeping what it held.
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
