// SPDX-License-Identifier: Apache-2.0
// Linked to a test of a method, puts its parameters into memory of a GPU, so the method works through the codecs of
// the GPU part. Every rank is a thread with a backend, and so a queue, of its own.
#include "../../support/on_gpu.h"
#include "../training.h"

namespace tutti {
namespace {

const FloatMemory& memory() {
  static thread_local const std::unique_ptr<Backend> device = make_backend("cuda:0");
  return device->shared_memory();
}

const FloatMemory on_device{"of this thread's device", [](std::size_t n) { return memory().allocate(n); },
                            [](float* p) { memory().release(p); }, [] { memory().synchronize(); }};

class Chosen : public testing::Environment {
  void SetUp() override {
    if (!skipped_without_gpu()) training::parameter_memory = &on_device;
  }
};

const testing::Environment* const chosen = testing::AddGlobalTestEnvironment(new Chosen);

}  // namespace
}  // namespace tutti
