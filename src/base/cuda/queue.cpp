// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/queue.h"

namespace tutti::cuda {
namespace {

thread_local cudaStream_t queue = nullptr;
thread_local const int* halt = nullptr;

}  // namespace

cudaStream_t current_queue() { return queue; }
const int* current_halt() { return halt; }
void set_current_queue(cudaStream_t stream, const int* halt_of_stream) { queue = stream, halt = halt_of_stream; }

}  // namespace tutti::cuda
