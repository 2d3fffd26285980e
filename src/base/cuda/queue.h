// SPDX-License-Identifier: Apache-2.0
// queue.h -- the current stream of a thread. A GPU backend sets it on the thread that creates it, and again in
// make_current(); optimizers and codecs of that thread use the same stream implicitly.
#pragma once

#include <cuda_runtime_api.h>

namespace tutti::cuda {

cudaStream_t current_queue();
// In device memory: while it is not 0, weights are not changed. May be null.
const int* current_halt();
void set_current_queue(cudaStream_t, const int* halt);

}  // namespace tutti::cuda
