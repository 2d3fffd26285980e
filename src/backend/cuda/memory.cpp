// SPDX-License-Identifier: Apache-2.0
// Creating the backend, memory, the stream, and runs of calls captured as CUDA graphs.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/images.h"
#include "base/cuda/runtime.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

// Devices and their capabilities, one step after the other; an error names the step.
int usable(int device) {
  const auto step = [&](const char* name, cudaError_t status) {
    if (status != cudaSuccess)
      throw Error(fmt::format("starting GPU {}: {}: {}", device, name, cudaGetErrorString(status)));
  };
  int count = 0, concurrent = 0;
  step("driver", cudaGetDeviceCount(&count));
  if (device >= count)
    throw Error(
        fmt::format("starting GPU {}: device: there {} {}, numbered from 0", device, count == 1 ? "is" : "are", count));
  step("device", cudaSetDevice(device));
  step("device", cudaFree(nullptr));  // makes the context
  step("device", cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
  if (!concurrent)
    throw Error(fmt::format(
        "starting GPU {}: memory: host and device cannot look at the same memory at the same time, "
        "which weights and gradients need (attribute concurrentManagedAccess). fix: deviceId = cpu, or a GPU "
        "under Linux itself: Windows and its WSL, Jetson and some virtual GPUs do not have this",
        device));
  void* probe = nullptr;
  step("memory", cudaMalloc(&probe, std::size_t{1} << 20));
  step("memory", cudaFree(probe));
  return device;
}

std::string name_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "asking for the device's name");
  return properties.name;
}

float* allocate_managed(std::size_t count) {
  const std::size_t bytes = count * sizeof(float);
  void* const p = take_managed_memory(bytes);
  if (!p) return nullptr;
  clear_memory(p, bytes, current_queue());
  return static_cast<float*>(p);
}

// Expected, so not worth a message.
struct CannotBeNoted : Error {
  CannotBeNoted() : Error("a call that waits for the device cannot be captured") {}
};

using StreamGraph = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

class CudaGraph final : public CapturedGraph {
 public:
  // Captured graphs are never updated: the driver accepts an update but keeps the thread block clusters that the
  // previous product kernels had.
  CudaGraph(GraphExec exec, cudaStream_t stream)
      : stream_(stream), given_back_(times_given_back()), exec_(std::move(exec)) {}

  bool launch() override {
    if (given_back_ != times_given_back()) return false;
    check(cudaGraphLaunch(exec_.get(), stream_), "repeating calls");
    return true;
  }

 private:
  const cudaStream_t stream_;
  const std::uint64_t given_back_;
  GraphExec exec_;  // one that is running goes away when it has finished
};

}  // namespace

CudaDevice::CudaDevice(int device, ComputeType type)
    : device_(usable(device)),
      compute_type_(type),
      device_name_(name_of(device)),
      stream_(make_stream()),
      halt_(halting_.reserve<int>(1)) {}
CudaDevice::~CudaDevice() = default;

CudaBackend::CudaBackend(int device, ComputeType type)
    : CudaRecurrent(device, type), images_(std::make_unique<CudaImages>(device_name_, type, stream())) {
  try {
    fill(0, halting_.reserve<float>(1), 1);  // the first kernel of all; 0 has the bits of an int's
  } catch (const Error& e) {
    throw Error(
        fmt::format("starting GPU {}: kernels: {}. fix: where this build has none for such a GPU, one with its number "
                    "in -Dgpu_architectures, or deviceId = cpu",
                    device, e.what()));
  }
  make_current();
}

// Nothing is freed before the device has done its work.
CudaBackend::~CudaBackend() {
  cudaStreamSynchronize(stream());
  if (current_queue() == stream()) set_current_queue(nullptr, nullptr);
}

std::string CudaDevice::name() const {
  const char* products = compute_type_ == ComputeType::tf32       ? ", products in tf32"
                         : compute_type_ == ComputeType::bfloat16 ? ", products in bfloat16"
                         : compute_type_ == ComputeType::float16  ? ", products in float16"
                                                                  : "";
  return fmt::format("cuda:{} ({}, {}{})", device_, device_name_, matmul_library(), products);
}

ImageOps& CudaBackend::images() { return *images_; }

void CudaDevice::synchronize() {
  not_while_capturing();
  check(cudaStreamSynchronize(stream()), "computing");
}
std::uint64_t CudaDevice::record_event() {
  not_while_capturing();
  return events_.add(stream());
}
void CudaDevice::synchronize(std::uint64_t event) {
  not_while_capturing();
  events_.synchronize(event);
}

const FloatMemory& CudaDevice::shared_memory() const {
  static constexpr FloatMemory memory{"managed", allocate_managed, [](float* p) { cudaFree(p); },
                                      [] { check(cudaStreamSynchronize(current_queue()), "computing"); }};
  return memory;
}

// Pinned memory that the device writes to directly. What is queued may still do so when the sums are given up.
std::shared_ptr<double[]> CudaDevice::make_sums(std::size_t count) {
  void* p = nullptr;
  check(cudaHostAlloc(&p, std::max<std::size_t>(count, 1) * sizeof(double), cudaHostAllocMapped),
        "taking memory for results");
  auto* sums = static_cast<double*>(p);
  std::fill_n(sums, count, 0.0);
  return {sums, [queue = stream()](double* old) { cudaStreamSynchronize(queue), cudaFreeHost(old); }};
}

void CudaDevice::let_weights_change() {
  not_while_capturing();
  check(cudaMemsetAsync(halt_, 0, sizeof(int), stream()), "clearing memory");
}

float* CudaDevice::allocate(std::size_t count) {
  not_while_capturing();
  const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(float);
  void* const p = take_device_memory(bytes);
  if (!p) out_of_memory(bytes, "the values of the network");
  check(cudaMemsetAsync(p, 0, bytes, stream()), "clearing memory");
  return static_cast<float*>(p);
}

// Waits for the device, so nothing that is in flight loses its memory.
void CudaDevice::release(float* p) {
  cudaFree(p);
  count_giving_back();
}

void CudaDevice::upload(const float* host, float* device, std::size_t count) {
  not_while_capturing();
  if (count) staging_.upload(host, device, count * sizeof(float), stream());
}

void CudaDevice::download(const float* device, float* host, std::size_t count) {
  not_while_capturing();
  if (count)
    check(cudaMemcpyAsync(host, device, count * sizeof(float), cudaMemcpyDeviceToHost, stream()), "downloading");
  synchronize();
}

void CudaDevice::not_while_capturing() const {
  if (capturing_) throw CannotBeNoted();
}

// Errors during a capture occur again, and are reported, when the calls are made.
std::unique_ptr<CapturedGraph> CudaDevice::capture(const std::function<void()>& work) {
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "capturing calls");
  capturing_ = true;
  bool whole = true;
  obstacle_.clear();
  try {
    work();
  } catch (const CannotBeNoted&) {
    whole = false;
  } catch (const Error& e) {
    whole = false;
    obstacle_ = e.what();
  }
  capturing_ = false;
  StreamGraph graph;
  GraphExec exec;
  cudaError_t status = cudaStreamEndCapture(stream(), graph.out());
  if (whole && status == cudaSuccess) status = cudaGraphInstantiate(exec.out(), graph.get(), 0);  // needs memory
  if (!whole || status != cudaSuccess) {
    if (whole) obstacle_ = cudaGetErrorString(status);
    cudaGetLastError();
    return nullptr;
  }
  return std::make_unique<CudaGraph>(std::move(exec), stream());
}

}  // namespace tutti::cuda

// The symbols that the program looks up in the library (backend/make_backend.cpp, base/cuda_library.cpp).
extern "C" tutti::Backend* tutti_cuda_make_backend(int device, tutti::ComputeType type) {
  return new tutti::cuda::CudaBackend(device, type);
}

extern "C" int tutti_cuda_device_count(std::string& problem) {
  int count = 0;
  if (const auto status = cudaGetDeviceCount(&count); status != cudaSuccess)
    problem = fmt::format("driver: {}", cudaGetErrorString(status));
  else if (count == 0)
    problem = "driver: it found no GPU";
  return count;
}
