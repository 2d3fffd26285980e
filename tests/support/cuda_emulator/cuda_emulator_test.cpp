// SPDX-License-Identifier: Apache-2.0
// the emulator of the CUDA runtime keeps the promises that kernels rely on.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "device.h"
#include "order.h"
#include "queue.h"

namespace {

template <class... P, class... A>
cudaError_t start(void (*kernel)(P...), dim3 grid, dim3 threads, A... arguments) {
  cudaLaunchConfig_t config;
  config.gridDim = grid, config.blockDim = threads;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void number(int* out) {
  const unsigned i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
  out[i] += static_cast<int>(i) + 1;
}

TEST(CudaDouble, EveryThreadRunsOnce) {
  std::vector<int> out(3 * 2 * 65);
  EXPECT_EQ(start(number, dim3(3, 2), dim3(65), out.data()), cudaSuccess);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<int>(i) + 1);
}

// Each thread reads what its neighbour wrote before the barrier, many times.
__global__ void rotate(int* out, int rounds) {
  __shared__ int values[300];
  const unsigned n = blockDim.x, t = threadIdx.x;
  values[t] = static_cast<int>(t);
  __syncthreads();
  for (int i = 0; i < rounds; ++i) {
    const int next = values[(t + 1) % n];
    __syncthreads();
    values[t] = next;
    __syncthreads();
  }
  out[blockIdx.x * n + t] = values[t];
}

TEST(CudaDouble, BarriersHoldTheBlock) {
  for (const unsigned n : {1u, 31u, 32u, 33u, 256u, 300u}) {
    std::vector<int> out(2 * n);
    EXPECT_EQ(start(rotate, dim3(2), dim3(n), out.data(), 7), cudaSuccess);
    for (unsigned i = 0; i < 2 * n; ++i) EXPECT_EQ(out[i], static_cast<int>((i % n + 7) % n));
  }
}

}  // namespace

namespace tutti::cuda {
extern __shared__ uint4 asked_for[];  // as kernels do it
}

namespace {

__global__ void fill_shared(int* out, unsigned count) {
  auto* const values = reinterpret_cast<int*>(tutti::cuda::asked_for);
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) values[i] = static_cast<int>(i);
  __syncthreads();
  if (threadIdx.x == 0) *out = values[count - 1];
}

TEST(CudaDouble, LaunchesAskForSharedMemory) {
  int out = 0;
  const auto fill = [&](std::size_t bytes, std::size_t written) {
    cudaLaunchConfig_t config;
    config.blockDim = dim3(64), config.dynamicSmemBytes = bytes;
    return cudaLaunchKernelEx(&config, fill_shared, &out, static_cast<unsigned>(written / sizeof(int)));
  };
  constexpr std::size_t usual = 48 << 10, more = 100 << 10;
  EXPECT_EQ(fill(usual, usual), cudaSuccess);
  EXPECT_EQ(out, static_cast<int>(usual / sizeof(int)) - 1);
  EXPECT_EQ(fill(usual + 4, usual), cudaErrorInvalidValue);
  EXPECT_DEATH(fill(1000, 1004), "wrote beyond");
  const auto* const kernel = reinterpret_cast<const void*>(fill_shared);
  int most = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, more), cudaSuccess);
  EXPECT_EQ(fill(more, more), cudaSuccess);
  EXPECT_EQ(out, static_cast<int>(more / sizeof(int)) - 1);
  EXPECT_EQ(fill(more + 4, more), cudaErrorInvalidValue);
}

// Threads beyond `active` leave at once: barriers count who is still there.
__global__ void early_leavers(int* out, unsigned active) {
  if (threadIdx.x >= active) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST(CudaDouble, ThreadsMayLeaveEarly) {
  std::vector<int> out(96);
  EXPECT_EQ(start(early_leavers, dim3(1), dim3(96), out.data(), 40u), cudaSuccess);
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0), 40);
}

__global__ void warp_words(float* sums, unsigned* fifths) {
  float v = static_cast<float>(threadIdx.x);
  for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);
  sums[threadIdx.x] = v;
  fifths[threadIdx.x] = __shfl_sync(0xffffffffu, threadIdx.x, 5);
}

void expect_warp_words() {
  std::vector<float> sums(64);
  std::vector<unsigned> fifths(64);
  EXPECT_EQ(start(warp_words, dim3(1), dim3(64), sums.data(), fifths.data()), cudaSuccess);
  for (unsigned i = 0; i < 64; ++i) {
    EXPECT_EQ(sums[i], i < 32 ? 496.0f : 1520.0f);
    EXPECT_EQ(fifths[i], i < 32 ? 5u : 37u);
  }
}

TEST(CudaDouble, LanesExchange) { expect_warp_words(); }

// A stream stands still before what is not ready, and goes on when another thread has made it so.
TEST(CudaDouble, StreamsWaitForOthers) {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t done = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), cudaSuccess);
  std::atomic<bool> asked = false, ready = false;
  std::vector<int> order;
  cuda_emulator::enqueue_when(
      first,
      [&] {
        asked = true;
        return ready.load();
      },
      [&] { order.push_back(1); });
  cudaEventRecord(done, first);
  cudaStreamWaitEvent(second, done, 0);
  cuda_emulator::enqueue(second, [&] { order.push_back(2); });
  EXPECT_EQ(cudaEventQuery(done), cudaErrorNotReady);
  std::thread other([&] {
    while (!asked) std::this_thread::yield();
    ready = true;
  });
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  other.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  cudaEventDestroy(done), cudaStreamDestroy(first), cudaStreamDestroy(second);
}

// Kernels and marks go into streams of the device that the thread uses.
TEST(CudaDouble, StreamsBelongToADevice) {
  setenv("TUTTI_CUDA_EMULATOR_DEVICES", "2", 1);
  cudaStream_t stream = nullptr;
  cudaEvent_t mark = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), cudaSuccess);
  int out = 0;
  const auto launched = [&] {
    cudaLaunchConfig_t config;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, number, &out);
  };
  EXPECT_EQ(launched(), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(launched(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(mark, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(mark, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMemsetAsync(&out, 0, sizeof out, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  cudaEventDestroy(mark), cudaStreamDestroy(stream);
  unsetenv("TUTTI_CUDA_EMULATOR_DEVICES");
}

TEST(CudaDouble, NothingGoesIntoABrokenCapture) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  int out = 0;
  EXPECT_EQ(cudaMemsetAsync(&out, 0, sizeof out, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaMemsetAsync(&out, 0, sizeof out, stream), cudaErrorStreamCaptureInvalidated);
  cudaLaunchConfig_t config;
  config.stream = stream;
  EXPECT_EQ(cudaLaunchKernelEx(&config, number, &out), cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  cudaStreamDestroy(stream);
}

TEST(CudaDouble, WrongGridsAreRefused) {
  int out = 0;
  EXPECT_EQ(start(number, dim3(0), dim3(1), &out), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(number, dim3(1), dim3(2000), &out), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(number, dim3(1, 70000), dim3(1), &out), cudaErrorInvalidConfiguration);
}

// ---- orders

constexpr std::uint64_t orders = 8;

// Within it this thread's work goes in the order of that number.
class InOrder {
 public:
  explicit InOrder(std::optional<std::uint64_t> number) : before_(cuda_emulator::Order::of_thread()) {
    cuda_emulator::Order::of_thread() = cuda_emulator::Order(number);
  }
  ~InOrder() { cuda_emulator::Order::of_thread() = before_; }
  InOrder(const InOrder&) = delete;

 private:
  cuda_emulator::Order before_;
};

__global__ void note(unsigned* at, unsigned* count) {
  at[(*count)++] = blockIdx.z * 1000 + blockIdx.y * 100 + blockIdx.x * 10 + threadIdx.x;
}

std::vector<unsigned> turns(std::optional<std::uint64_t> order) {
  const InOrder within(order);
  unsigned count = 0;
  std::vector<unsigned> at(3 * 2 * 2 * 4);
  EXPECT_EQ(start(note, dim3(3, 2, 2), dim3(4), at.data(), &count), cudaSuccess);
  return at;
}

TEST(CudaDouble, BlocksAndThreadsGoInTheOrderOfANumber) {
  const std::vector<unsigned> plain = turns(std::nullopt);
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
  std::set<std::vector<unsigned>> seen;
  for (std::uint64_t order = 0; order < orders; ++order) {
    std::vector<unsigned> at = turns(order);
    EXPECT_EQ(at, turns(order));
    EXPECT_TRUE(seen.insert(at).second);
    std::sort(at.begin(), at.end());
    EXPECT_EQ(at, plain);
  }
}

// Each thread reads what the one before it wrote. In the order of the threads nobody misses the barrier.
__global__ void without_barrier(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = threadIdx.x == 0 ? 0 : values[threadIdx.x - 1];
  __syncthreads();
  values[threadIdx.x] = -1;
}

TEST(CudaDouble, MissingBarriersShow) {
  const auto result = [](std::optional<std::uint64_t> order) {
    const InOrder within(order);
    std::vector<int> out(64);
    EXPECT_EQ(start(without_barrier, dim3(1), dim3(64), out.data()), cudaSuccess);
    return out;
  };
  const std::vector<int> right = result(std::nullopt);
  for (int i = 1; i < 64; ++i) EXPECT_EQ(right[static_cast<std::size_t>(i)], i - 1);
  for (std::uint64_t order = 0; order < orders; ++order) EXPECT_NE(result(order), right);
}

// Barriers and warps keep their promises in every order.
TEST(CudaDouble, OrdersKeepWhatIsPromised) {
  for (std::uint64_t order = 0; order < orders; ++order) {
    const InOrder within(order);
    std::vector<int> out(300);
    EXPECT_EQ(start(rotate, dim3(1), dim3(300), out.data(), 7), cudaSuccess);
    for (unsigned i = 0; i < 300; ++i) EXPECT_EQ(out[i], static_cast<int>((i + 7) % 300));
    expect_warp_words();
  }
}

// The host writes over what a copy may still read: some streams have copied by then, others have not.
TEST(CudaDouble, SomeStreamsRunAhead) {
  std::set<int> seen;
  for (std::uint64_t order = 0; order < 4 * orders; ++order) {
    const InOrder within(order);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    int from = 1, to = 0;
    cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyDefault, stream);
    from = 2;
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    seen.insert(to);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  EXPECT_EQ(seen, (std::set<int>{1, 2}));
}

// ---- memory

TEST(CudaDouble, FreshMemoryIsNotZeroAndNobodyElses) {
  constexpr std::size_t size = (std::size_t{2} << 20) + 300;
  const auto full_of = [](const unsigned char* p, unsigned char byte) {
    return std::all_of(p, p + size, [byte](unsigned char b) { return b == byte; });
  };
  std::set<unsigned char> seen;
  for (std::uint64_t order = 0; order <= orders; ++order) {
    const InOrder within(order == 0 ? std::nullopt : std::optional(order));
    void *p = nullptr, *q = nullptr;
    ASSERT_EQ(cudaMallocManaged(&p, size), cudaSuccess);
    auto* const bytes = static_cast<unsigned char*>(p);
    const unsigned char fresh = bytes[0];
    EXPECT_NE(fresh, 0);
    EXPECT_TRUE(full_of(bytes, fresh));
    seen.insert(fresh);
    std::fill_n(bytes, size, 0);
    const InOrder usual(std::nullopt);
    ASSERT_EQ(cudaMallocManaged(&q, size), cudaSuccess);
    EXPECT_TRUE(full_of(static_cast<unsigned char*>(q), 0xee));
    EXPECT_TRUE(full_of(bytes, 0));
    EXPECT_EQ(cudaFree(p), cudaSuccess);
    EXPECT_EQ(cudaFree(q), cudaSuccess);
  }
  EXPECT_GT(seen.size(), 1u);
}

class DeviceMemoryDeathTest : public testing::Test {
 protected:
  DeviceMemoryDeathTest() {
    EXPECT_EQ(cudaMalloc(&p_, 1000), cudaSuccess);
    bytes = static_cast<volatile char*>(p_);
  }
  ~DeviceMemoryDeathTest() override { EXPECT_EQ(cudaFree(p_), cudaSuccess); }
  void expect_closed() const {
    EXPECT_DEATH(bytes[0] = 1, "");
    EXPECT_DEATH(static_cast<void>(bytes[999]), "");
  }
  const bool keys = cuda_emulator::device().key >= 0;
  volatile char* bytes = nullptr;

 private:
  void* p_ = nullptr;
};

TEST_F(DeviceMemoryDeathTest, IsClosedToTheHost) {
  expect_closed();
  for (const bool drawn : {false, true}) {
    if (drawn && !keys) continue;
    const InOrder within(drawn ? std::optional<std::uint64_t>(1) : std::nullopt);
    EXPECT_EQ(cudaMemset(const_cast<char*>(bytes), 3, 1000), cudaSuccess);
    expect_closed();
    char last = 0;
    EXPECT_EQ(cudaMemcpy(&last, const_cast<char*>(bytes) + 999, 1, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(last, 3);
    expect_closed();
  }
}

// While one thread works for the device another one touches its memory: that is seen where the CPU has keys.
TEST_F(DeviceMemoryDeathTest, IsOpenToWhoWorksForTheDevice) {
  const auto touch = [&] {
    std::atomic<bool> works = false;
    std::thread other([&] {
      while (!works) std::this_thread::yield();
      bytes[0] = 1;
    });
    cuda_emulator::enqueue(nullptr, [&] {
      works = true;
      other.join();
      bytes[0] = 2;
    });
  };
  if (keys)
    EXPECT_DEATH(touch(), "");
  else
    touch();
  expect_closed();
}

// ---- what is refused

TEST(CudaDouble, WhatIsGoneIsRefused) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event, event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);

  void *pinned = nullptr, *memory = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 100, cudaHostAllocDefault), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
}

__global__ void wrong_mask(unsigned of_half) { __shfl_sync(threadIdx.x < 16 ? of_half : 0xffffffffu, 1, 0); }

TEST(CudaDoubleDeathTest, LanesMeetByOneMask) {
  EXPECT_DEATH(start(wrong_mask, dim3(1), dim3(32), 0xffff0000u), "not in the mask");
  EXPECT_DEATH(start(wrong_mask, dim3(1), dim3(32), 0x0001ffffu), "different masks");
}

TEST(CudaDoubleDeathTest, NobodyWritesBehindABlock) {
  void* p = nullptr;
  ASSERT_EQ(cudaMallocManaged(&p, 1000), cudaSuccess);
  auto* bytes = static_cast<volatile char*>(p);
  EXPECT_DEATH(bytes[1024] = 1, "");
  EXPECT_EQ(cudaFree(p), cudaSuccess);
}

}  // namespace
