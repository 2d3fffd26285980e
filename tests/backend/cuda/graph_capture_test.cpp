// SPDX-License-Identifier: Apache-2.0
// What calls do within a captured graph that the device has given up: a library refuses them there, and may well do
// them outside of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "../../support/cuda_emulator/calls.h"
#include "backend/cuda/cuda_backend.h"

namespace tutti::cuda {
namespace {

class BrokenRecordings : public testing::Test {
 protected:
  void SetUp() override { setenv("TUTTI_CACHE", "", 1); }

  static std::uint64_t chunks(const std::function<void()>& call) {
    const std::uint64_t before = cuda_emulator_calls().single;
    call();
    return cuda_emulator_calls().single - before;
  }
  // The same chunks of work before and after a captured graph that is broken when it comes to the call.
  void expect_the_same_behind(const std::function<void()>& call) {
    call();
    const std::uint64_t before = chunks(call);
    EXPECT_EQ(backend_.capture([&] {
      EXPECT_EQ(cudaStreamSynchronize(backend_.stream()), cudaErrorStreamCaptureUnsupported);
      call();
    }),
              nullptr);
    EXPECT_NE(backend_.obstacle(), "");
    EXPECT_EQ(chunks(call), before);
    backend_.synchronize();
  }

  CudaBackend backend_{0, ComputeType::float32};
};

TEST_F(BrokenRecordings, ProductsKeepWhatTheyTakeAlong) {
  float* const memory = backend_.allocate(4 * 64);
  const Gemm g{.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8};
  expect_the_same_behind(
      [&] { backend_.gemm_bias(g, UnaryOp::relu, memory, memory + 64, memory + 128, memory + 192, nullptr); });
  backend_.release(memory);
}

// By the older calls: windows in steps of two have no plan.
TEST_F(BrokenRecordings, ConvolutionsKeepWhatTheyTakeAlong) {
  ConvolutionShape s;
  s.window = {2, {6, 6, 1}, {3, 3, 1}, {3, 3, 1}, {2, 2, 1}, {1, 1, 0}};
  s.columns = 2, s.in_channels = 4, s.out_channels = 8, s.bias = s.relu = true;
  const auto plan = backend_.images().plan_convolution(s);
  float* const memory = backend_.allocate(1024);
  expect_the_same_behind([&] { plan->forward(memory, memory + 512, memory + 816, memory + 824, false); });
  backend_.release(memory);
}

// By design: the capture is not possible, and nobody has to hear of it.
TEST_F(BrokenRecordings, WhatWaitsForTheDeviceIsNoObstacle) {
  float* const memory = backend_.allocate(16);
  float host[16];
  EXPECT_EQ(backend_.capture([&] { backend_.download(memory, host, 16); }), nullptr);
  EXPECT_EQ(backend_.obstacle(), "");
  backend_.release(memory);
}

// The calls can be made one by one.
TEST_F(BrokenRecordings, WithoutMemoryForAGraphThereIsNone) {
  float* const memory = backend_.allocate(16);
  setenv("TUTTI_CUDA_EMULATOR_GRAPHS", "0", 1);
  EXPECT_EQ(backend_.capture([&] { backend_.fill(1, memory, 16); }), nullptr);
  EXPECT_EQ(backend_.obstacle(), "out of memory");
  unsetenv("TUTTI_CUDA_EMULATOR_GRAPHS");
  EXPECT_NE(backend_.capture([&] { backend_.fill(1, memory, 16); }), nullptr);
  backend_.release(memory);
}

}  // namespace
}  // namespace tutti::cuda
