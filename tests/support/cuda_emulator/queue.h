// SPDX-License-Identifier: Apache-2.0
// queue.h -- the streams of the emulator. Work lies in its stream until somebody waits for it; then it is done by
// whoever waits. The default stream does its work at once. A stream whose capture is broken takes no more work.
#pragma once

#include <cstddef>
#include <functional>

#include "cuda_runtime.h"

namespace cuda_emulator {

cudaError_t enqueue(cudaStream_t, std::function<void()> work);
// Whether it belongs to the device that this thread uses; only into such streams kernels may be put.
bool is_of_this_device(cudaStream_t);
// Whether these bytes lie in one block of device memory.
bool on_device(const void* p, std::size_t bytes);
// Whether they are the host's own: a graph would copy from there each time, whatever stands there by then.
bool is_pageable(const void* p, std::size_t bytes);
// For work that needs what another stream, or another rank, does first: it begins once `ready` says so. Whoever waits
// for the stream asks again and again.
void enqueue_when(cudaStream_t, std::function<bool()> ready, std::function<void()> work);
// Within `ready`: another stream goes on until `done`, as far as it can. Whether it is.
bool drive(cudaStream_t, const std::function<bool()>& done);

}  // namespace cuda_emulator
