// SPDX-License-Identifier: Apache-2.0
// Linked to a test of a strategy, puts its parameters into memory that is not the host's, so the strategy works through
// the codecs of the GPU part. The memory is one that both see, and the queue the default one, which is never late.
#include <gtest/gtest.h>

#include "../training.h"

namespace tutti {
namespace {

const FloatMemory on_device{"stand-in", host_memory().allocate, host_memory().release, [] {}};

const bool chosen = [] {
  training::parameter_memory = &on_device;
  return true;
}();

}  // namespace
}  // namespace tutti
