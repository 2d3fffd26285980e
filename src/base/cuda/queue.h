// SPDX-License-Identifier: Apache-2.0
// queue.h -- the stream in which the work of a thread is queued. A backend for a GPU sets it for the thread that makes
// it, and again when it is made current; optimizers and codecs of that thread work in the same order without being
// told.
#pragma once

#include <cuda_runtime_api.h>

namespace tutti::cuda {

cudaStream_t current_queue();
// On its device: while it is not 0, weights stay as they are. May be null.
const int* current_halt();
void set_current_queue(cudaStream_t, const int* halt);

}  // namespace tutti::cuda
