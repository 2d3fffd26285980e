// SPDX-License-Identifier: Apache-2.0
// The stand-in of the CUDA runtime: memory is the host's, kernels run here. Every thread of a block is a fiber; a fiber
// runs until it waits at a barrier or for the other lanes of its warp. Threads that never wait share one fiber.
#include <cuda_runtime.h>

#include "fiber.h"
#include "queue.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

constinit thread_local cuda_double::Index threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_double {
namespace {

constexpr std::size_t kStack = std::size_t{256} << 10;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kMostShared = std::size_t{227} << 10;  // what a block may ask for on the newest devices

struct Warp {
  Exchange exchange, ready;
  unsigned arrived = 0, alive = 0, waiting = 0;
  std::uint64_t round = 0;
};

struct Block {
  const std::function<void()>* thread = nullptr;
  unsigned threads = 0, running = 0, next = 0, alive = 0, at_barrier = 0;
  std::uint64_t barrier_round = 0;
  std::vector<std::unique_ptr<Fiber>> fibers;  // kept for the next kernel
  std::vector<unsigned> thread_of;             // what a fiber runs now
  std::vector<Warp> warps;
  std::vector<unsigned char> shared;
  unsigned fiber = 0;
  std::exception_ptr failure;
};

thread_local Block* block = nullptr;

void become(unsigned thread) {
  block->thread_of[block->fiber] = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
}

Warp& my_warp() { return block->warps[block->thread_of[block->fiber] / 32]; }

void settle_warp(Warp& w) {
  if (w.waiting == 0 || w.waiting < w.alive) return;
  w.ready = w.exchange, w.exchange = {}, w.waiting = 0, ++w.round;
}

void settle_barrier() {
  if (block->at_barrier == 0 || block->at_barrier < block->alive) return;
  block->at_barrier = 0, ++block->barrier_round;
}

// Lets the others run until `done`. Everybody is asked again and again, in the order of the threads.
template <class Done>
void wait_until(const Done& done) {
  const unsigned fiber = block->fiber;
  while (!done()) {
    block->fibers[fiber]->leave();
    block->fiber = fiber;
    become(block->thread_of[fiber]);
  }
}

// A fiber takes the next thread that has not started, until there is none.
void fiber_main() {
  const unsigned fiber = block->fiber;
  while (block->next < block->threads) {
    const unsigned thread = block->next++;
    block->fiber = fiber;
    become(thread);
    try {
      (*block->thread)();
    } catch (...) {
      block->failure = std::current_exception();
    }
    block->fiber = fiber;
    --block->alive;
    Warp& w = block->warps[thread / 32];
    --w.alive;
    settle_warp(w), settle_barrier();
  }
  block->thread_of[fiber] = kMostThreads;
  block->fibers[fiber]->leave();
}

void run_block() {
  Block& b = *block;
  b.next = 0, b.alive = b.threads, b.at_barrier = 0, b.thread_of.clear();
  b.warps.assign((b.threads + 31) / 32, {});
  for (unsigned t = 0; t < b.threads; ++t) ++b.warps[t / 32].alive;
  while (b.alive > 0) {
    if (b.next < b.threads) {  // somebody waits, or nobody has started: one more fiber
      const auto fiber = static_cast<unsigned>(b.thread_of.size());
      b.thread_of.push_back(kMostThreads);
      if (b.fibers.size() == fiber) b.fibers.push_back(std::make_unique<Fiber>(kStack));
      b.fiber = fiber;
      b.fibers[fiber]->start(fiber_main);
      continue;
    }
    const unsigned before = b.alive;
    const std::uint64_t round = b.barrier_round;
    std::uint64_t rounds = 0, rounds_after = 0;
    for (const Warp& w : b.warps) rounds += w.round;
    for (unsigned fiber = 0; fiber < b.thread_of.size(); ++fiber)
      if (b.thread_of[fiber] < kMostThreads) b.fiber = fiber, b.fibers[fiber]->resume();
    for (const Warp& w : b.warps) rounds_after += w.round;
    if (b.alive == before && b.barrier_round == round && rounds == rounds_after && !b.failure && b.alive > 0) {
      bool stuck = true;
      for (const Warp& w : b.warps) stuck = stuck && w.waiting < w.alive + 1;
      if (stuck && ++b.running > 2) {
        std::fputs("cuda_double: the threads of a block wait for each other for ever\n", stderr);
        std::abort();
      }
    } else {
      b.running = 0;
    }
    if (b.failure) break;
  }
}

}  // namespace

unsigned char* shared_bytes() { return block->shared.data(); }
unsigned lane() { return block->thread_of[block->fiber] % 32; }

void block_barrier() {
  const std::uint64_t round = block->barrier_round;
  ++block->at_barrier;
  settle_barrier();
  wait_until([&] { return block->barrier_round != round; });
}

const Exchange& exchange(std::uint64_t mine) {
  Warp& w = my_warp();
  const std::uint64_t round = w.round;
  w.exchange.value[lane()] = mine, w.exchange.present |= 1u << lane();
  ++w.waiting;
  settle_warp(w);
  wait_until([&] { return w.round != round; });
  return w.ready;
}

void warp_barrier() { exchange(0); }

namespace {

bool fits(const cudaLaunchConfig_t& config) {
  const std::size_t threads = std::size_t{config.blockDim.x} * config.blockDim.y * config.blockDim.z;
  return threads > 0 && threads <= kMostThreads && config.dynamicSmemBytes <= kMostShared && config.gridDim.x > 0 &&
         config.gridDim.y > 0 && config.gridDim.z > 0 && config.gridDim.y <= 65535 && config.gridDim.z <= 65535;
}

void run(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  static thread_local Block own;
  block = &own;
  own.thread = &thread;
  own.threads = config.blockDim.x * config.blockDim.y * config.blockDim.z;
  own.shared.assign(config.dynamicSmemBytes + 16, 0xee);
  blockDim = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
  gridDim = {config.gridDim.x, config.gridDim.y, config.gridDim.z};
  for (unsigned z = 0; z < config.gridDim.z; ++z)
    for (unsigned y = 0; y < config.gridDim.y; ++y)
      for (unsigned x = 0; x < config.gridDim.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
        if (own.failure) std::rethrow_exception(std::exchange(own.failure, nullptr));
      }
}

}  // namespace

cudaError_t enqueue(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  if (!fits(config)) return cudaErrorInvalidConfiguration;
  enqueue(config.stream, [config, thread = std::move(thread)] { run(config, thread); });
  return cudaSuccess;
}

}  // namespace cuda_double

// ---- host calls -----------------------------------------------------------------------------------------------------

const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorGraphExecUpdateFailure:
      return "the graph update was not performed";
  }
  return "unknown error";
}
const char* cudaGetErrorName(cudaError_t e) { return e == cudaSuccess ? "cudaSuccess" : "cudaError"; }

using cuda_double::enqueue;

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (bytes > 0) enqueue(stream, [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) enqueue(stream, [=] { std::memset(p, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }
cudaError_t cudaMemset2DAsync(void* p, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) std::memset(static_cast<char*>(p) + row * pitch, value, width);
  });
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const char* const many = std::getenv("TUTTI_STAND_IN_DEVICES");
  *count = many ? std::atoi(many) : 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "stand-in:%d", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {"stand-in on the CPU", 0, 0, 1};
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
