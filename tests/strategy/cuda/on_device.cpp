// SPDX-License-Identifier: Apache-2.0
// Linked to a test of a strategy, puts its parameters into memory of a device: the stand-in of one, whose queue is late,
// so the strategy works through the codecs of the GPU part, loaded as a library.
#include <cstdlib>

#include "../training.h"

namespace tutti {
namespace {

const FloatMemory device{"stand-in", host_memory().allocate, host_memory().release, [] {}};

const bool chosen = [] {
  setenv("TUTTI_CUDA_LIBRARY", CUDA_LIBRARY, 1);
  training::parameter_memory = &device;
  return true;
}();

}  // namespace
}  // namespace tutti
