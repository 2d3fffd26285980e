// SPDX-License-Identifier: Apache-2.0
// on_gpu.h -- for tests that need a GPU: they run on one where there is one, and else say why they do not. The same
// programs run over the emulator of the CUDA libraries, which is a GPU to them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/cuda_library.h"
#include "cuda_emulator/calls.h"
#include "tutti/backend.h"
#include "tutti/error.h"

namespace tutti {

// The test counts as skipped where there is none; it has to return then. Over the emulator it has failed: that one is
// always there.
inline bool skipped_without_gpu() {
  const CudaDevices devices = cuda_devices();
  if (devices.count > 0) return false;
  if (std::getenv("TUTTI_TEST_OVER_EMULATOR"))
    ADD_FAILURE() << "no emulator: " << devices.problem;
  else
    [&] { GTEST_SKIP() << "no GPU: " << devices.problem; }();
  return true;
}

// What the emulator has been told so far; a GPU does not count.
inline std::optional<CudaDoubleCalls> counted_calls() {
  try {
    return cuda_function<decltype(cuda_emulator_calls)>("cuda_emulator_calls")();
  } catch (const Error&) {
    return {};
  }
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!skipped_without_gpu()) gpu = make_backend("cuda:0");
  }
  std::unique_ptr<Backend> gpu;
};

}  // namespace tutti
