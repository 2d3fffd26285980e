// SPDX-License-Identifier: Apache-2.0
// make_codec.h -- creates a codec over given kernels, for tests and benchmarks that compare instruction sets.
#pragma once

#include "codec/kernels.h"
#include "tutti/codec.h"

namespace tutti {

namespace codec {
Format format_of(const CodecOptions&);  // of the levels of 1, 2, 4, 8 and 16 bits
}

std::unique_ptr<Codec> make_codec(const CodecOptions&, const codec::Kernels&);

}  // namespace tutti
