// SPDX-License-Identifier: Apache-2.0
// codec.h -- encodes values in 1 to 32 bits for an exchange. Encodes whole columns, as the quantiser of 1-bit SGD does
// (Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of Speech
// DNNs", Interspeech 2014, section 3.2; semantics section 12).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tutti/parameters.h"

namespace tutti {

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;  // "1 bit, zero threshold"
  virtual bool lossy() const = 0;        // lossy codecs keep a residual (error feedback)
  // Encoded size of `columns` columns of `rows` values. Columns are independent, so sizes add up.
  virtual std::size_t bytes(std::size_t rows, std::size_t columns) const = 0;
  // Encodes values + residual and stores the quantisation error in `residual`, which has the shape of `values`. It may
  // be null for codecs without loss and for those that encode each value on its own. A column that holds a NaN or an
  // infinity, or whose sums overflow, decodes to NaN in all rows (with floats and halves only that value).
  virtual void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
                      std::byte* out) const = 0;
  virtual void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const = 0;
  virtual void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const = 0;

  // A device codec enqueues its work and returns. The bytes are complete, and buffers may be reused, once an event
  // recorded after the call has been reached. Host codecs finish before they return.
  virtual std::uint64_t record_event() const { return 0; }
  virtual bool query(std::uint64_t event) const {
    (void)event;
    return true;
  }
  // The memory that encoded bytes must be in.
  virtual const FloatMemory& memory() const { return host_memory(); }
  // The same codec for values and bytes in host memory.
  virtual const Codec& on_host() const { return *this; }
};

// The number format of 16 bits.
enum class NumberFormat { levels, half, brain };

// The levels of 2, 4, 8 and 16 bits: fitted to each column, or those of CNTK, which span 4 RMS on either side. Both are
// equal in 1 bit.
enum class Quantizer { adaptive, original };

struct CodecOptions {
  int bits = 32;               // 1, 2, 4, 8, 16 (uniform levels), 32
  bool zero_threshold = true;  // with 1 bit: split at zero; otherwise at the mean of the column
  NumberFormat format =
      NumberFormat::levels;  // 16 bits: uniform levels, IEEE half precision or bfloat16, with residual
  Quantizer quantizer = Quantizer::adaptive;
};
std::unique_ptr<Codec> make_codec(const CodecOptions&);
// A codec for values in that memory. `device_messages`: the transport accepts bytes in device memory.
std::unique_ptr<Codec> make_codec(const CodecOptions&, const FloatMemory& values, bool device_messages);

// Encoded bytes, in memory that both the codec and the transport can access.
class MessageBytes {
 public:
  MessageBytes() = default;
  MessageBytes(std::size_t bytes, const Codec& codec) : MessageBytes(bytes, codec.memory()) {}
  MessageBytes(std::size_t bytes, const FloatMemory& memory)
      : floats_((bytes + sizeof(float) - 1) / sizeof(float), memory), bytes_(bytes) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(floats_.data()); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(floats_.data()); }
  std::span<std::byte> span() { return {data(), bytes_}; }

 private:
  FloatBuffer floats_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti
