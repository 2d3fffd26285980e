// SPDX-License-Identifier: Apache-2.0
// cuda_codec.h -- codecs in GPU memory. Calls enqueue work in the stream and return; bytes, values and residuals are
// complete when the stream is. They equal those of the host codecs bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tutti/codec.h"

namespace tutti::cuda {

// `device_messages`: bytes are in device memory; otherwise in pinned host memory that the kernels access directly.
std::unique_ptr<Codec> make_codec(const CodecOptions&, cudaStream_t, bool device_messages = false);

}  // namespace tutti::cuda
