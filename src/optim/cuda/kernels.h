// SPDX-License-Identifier: Apache-2.0
// kernels.h -- the update rules in GPU memory, in the stream of the calling thread (base/cuda/runtime.h). Elements get
// the bits of the host's loops; sums have an order of their own, always the same. Nothing waits for the device.
#pragma once

#include "optim/kernels.h"

namespace tutti::optim::cuda {

const Kernels& kernels();

}  // namespace tutti::optim::cuda
