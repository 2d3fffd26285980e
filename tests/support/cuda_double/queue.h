// SPDX-License-Identifier: Apache-2.0
// queue.h -- the streams of the stand-in. Work lies in its stream until somebody waits for it; then it is done by
// whoever waits. The default stream does its work at once, and waits for no other one.
#pragma once

#include <functional>

#include "cuda_runtime.h"

namespace cuda_double {

void enqueue(cudaStream_t, std::function<void()> work);
// For work that needs what another stream does first: that stream goes on until `done`.
void drive(cudaStream_t, const std::function<bool()>& done);

}  // namespace cuda_double
