// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/queue.h"

namespace tutti::cuda {
namespace {

thread_local cudaStream_t queue = nullptr;

}  // namespace

cudaStream_t current_queue() { return queue; }
void set_current_queue(cudaStream_t stream) { queue = stream; }

}  // namespace tutti::cuda
