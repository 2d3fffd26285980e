// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr std::size_t staging_block = std::size_t{16} << 20, most_blocks = 64;
// Smaller copies finish before another stream could be told to wait for them.
constexpr std::size_t worth_a_journey = std::size_t{64} << 10;

std::atomic<std::uint64_t> given_back{0};

thread_local cudaStream_t queue = nullptr;
thread_local const int* halt = nullptr;

// A failed allocation must not affect later calls.
template <class Take>
void* taken(std::size_t bytes, const Take& take) {
  void* p = nullptr;
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total), "asking how much memory is free");
  if (bytes <= available && take(&p) == cudaSuccess) return p;
  cudaGetLastError();
  return nullptr;
}

}  // namespace

void fail(const char* what, const char* doing, const std::source_location& at) {
  throw Error(fmt::format("CUDA failed while {}: {} ({}:{})", doing, what, at.file_name(), at.line()));
}

Stream make_stream() {
  Stream s;
  check(cudaStreamCreateWithFlags(s.out(), cudaStreamNonBlocking), "making a stream");
  return s;
}

Event make_event() {
  Event e;
  check(cudaEventCreateWithFlags(e.out(), cudaEventDisableTiming), "making an event");
  return e;
}

std::uint64_t Events::add(cudaStream_t stream) {
  if (waiting_ == events_.size()) grow();
  check(cudaEventRecord(at(waiting_).get(), stream), doing_);
  ++waiting_;
  return passed_ + waiting_;
}

bool Events::query(std::uint64_t event) {
  while (waiting_ > 0 && passed_ < event) {
    const cudaError_t status = cudaEventQuery(at(0).get());
    if (status == cudaErrorNotReady) return false;
    check(status, doing_);
    first_ = (first_ + 1) % events_.size(), --waiting_, ++passed_;
  }
  return true;
}

void Events::synchronize(std::uint64_t event) {
  if (!query(event)) check(cudaEventSynchronize(at(static_cast<std::size_t>(event - passed_ - 1)).get()), doing_);
}

void Events::stream_wait(cudaStream_t stream, std::uint64_t event) {
  if (query(event)) return;
  check(cudaStreamWaitEvent(stream, at(static_cast<std::size_t>(event - passed_ - 1)).get(), 0), doing_);
}

void Events::grow() {
  std::rotate(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(first_), events_.end());
  first_ = 0;
  events_.push_back(make_event());
}

cudaStream_t current_queue() { return queue; }
const int* current_halt() { return halt; }
void set_current_queue(cudaStream_t stream, const int* halt_of_stream) { queue = stream, halt = halt_of_stream; }

void* take_device_memory(std::size_t bytes) {
  return taken(bytes, [&](void** p) { return cudaMalloc(p, bytes); });
}
void* take_managed_memory(std::size_t bytes) {
  return taken(bytes, [&](void** p) { return cudaMallocManaged(p, bytes, cudaMemAttachGlobal); });
}

void not_while_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "asking whether a stream is captured");
  if (status != cudaStreamCaptureStatusNone) throw Error("an algorithm must be chosen before a capture");
}

void clear_memory(void* p, std::size_t bytes, cudaStream_t stream) {
  check(cudaMemsetAsync(p, 0, bytes, stream), "clearing memory");
  check(cudaStreamSynchronize(stream), "clearing memory");
}

void out_of_memory(std::size_t bytes, const char* purpose) {
  std::size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  throw Error(
      fmt::format("out of memory on the GPU: {} bytes for {}, {} of {} are free", bytes, purpose, available, total));
}

std::uint64_t times_given_back() { return given_back; }
void count_giving_back() { ++given_back; }

Scratch::~Scratch() {
  if (!data_) return;
  cudaFree(data_);
  count_giving_back();
}

void* Scratch::bytes(std::size_t count) {
  if (count <= bytes_) return data_;
  if (data_) {
    // cudaFree waits for the device, so no memory in use is freed.
    check(cudaFree(data_), "giving back scratch memory");
    data_ = nullptr, bytes_ = 0;
    count_giving_back();
  }
  data_ = take_device_memory(count);
  if (!data_) out_of_memory(count, "results in between");
  bytes_ = count;
  return data_;
}

Staging::Staging() : copiers_(std::min<std::size_t>(cores_allowed(), 4)), journey_(make_stream()) {}
Staging::~Staging() {
  for (auto& block : blocks_) cudaEventSynchronize(block.free.get());
  cudaStreamSynchronize(journey_.get());
}

// The oldest block if it is free again, otherwise a new one.
void Staging::next_block(cudaStream_t stream) {
  if (!blocks_.empty()) {
    check(cudaEventRecord(blocks_[at_].free.get(), stream), "uploading");
    at_ = (at_ + 1) % blocks_.size();
    used_ = 0;
    const cudaError_t status = cudaEventQuery(blocks_[at_].free.get());
    if (status != cudaErrorNotReady) return check(status, "uploading");
    if (blocks_.size() == most_blocks) return check(cudaEventSynchronize(blocks_[at_].free.get()), "uploading");
  }
  Block fresh;
  check(cudaHostAlloc(fresh.pinned.out(), staging_block, cudaHostAllocDefault), "taking pinned memory");
  fresh.arrived = make_event(), fresh.free = make_event();
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at_), std::move(fresh));
}

void Staging::copy(char* to, const char* from, std::size_t bytes) {
  constexpr std::size_t part = std::size_t{1} << 20;
  const auto copy_part = [&](std::size_t n, std::size_t) {
    std::memcpy(to + n * part, from + n * part, std::min(part, bytes - n * part));
  };
  copiers_.run((bytes + part - 1) / part, std::ref(copy_part));
}

void Staging::upload(const void* host, void* device, std::size_t bytes, cudaStream_t stream) {
  const auto* from = static_cast<const char*>(host);
  auto* to = static_cast<char*>(device);
  const bool travels = bytes >= worth_a_journey;
  while (bytes > 0) {
    if (blocks_.empty() || used_ == staging_block) next_block(stream);
    Block& block = blocks_[at_];
    const std::size_t n = std::min(bytes, staging_block - used_);
    char* pinned = static_cast<char*>(block.pinned.get()) + used_;
    copy(pinned, from, n);
    if (travels) {
      char* landing = static_cast<char*>(block.landing.bytes(staging_block)) + used_;
      check(cudaMemcpyAsync(landing, pinned, n, cudaMemcpyHostToDevice, journey_.get()), "uploading");
      check(cudaEventRecord(block.arrived.get(), journey_.get()), "uploading");
      check(cudaStreamWaitEvent(stream, block.arrived.get(), 0), "uploading");
      check(cudaMemcpyAsync(to, landing, n, cudaMemcpyDeviceToDevice, stream), "uploading");
    } else {
      check(cudaMemcpyAsync(to, pinned, n, cudaMemcpyHostToDevice, stream), "uploading");
    }
    used_ = std::min(staging_block, (used_ + n + 63) / 64 * 64);
    from += n, to += n, bytes -= n;
  }
}

}  // namespace tutti::cuda
