// SPDX-License-Identifier: Apache-2.0
// cuda_codec.h -- the codecs over memory of a GPU. Calls queue work on the stream and return; bytes, values and
// residuals are complete when the stream is. They are those of the host's codecs, bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tutti/codec.h"

namespace tutti::cuda {

// `device_messages`: bytes lie in memory of the device, else in pinned memory of the host that the kernels write to and
// read from directly.
std::unique_ptr<Codec> make_codec(const CodecOptions&, cudaStream_t, bool device_messages = false);

}  // namespace tutti::cuda
