// SPDX-License-Identifier: Apache-2.0
// codec.h -- in how many bits values travel. Works on whole columns, as the quantiser of 1-bit SGD does (Seide et al.,
// "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of Speech DNNs",
// Interspeech 2014, section 3.2; semantics section 12).
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
  // Bytes of `columns` columns of `rows` values; columns are independent, so this is additive over columns.
  virtual std::size_t bytes(std::size_t rows, std::size_t columns) const = 0;
  // Encodes values + residual and leaves what was lost in residual. `residual` has the shape of `values`
  // (may be null for codecs that lose nothing or work value by value). A column that holds a NaN or an infinity, or
  // whose sums overflow, comes back as NaN throughout (in floats and halves the value alone): trouble shows.
  virtual void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
                      std::byte* out) const = 0;
  virtual void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const = 0;
  virtual void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const = 0;

  // A codec of a device queues its work and returns. Bytes are complete, and buffers may be used for something else,
  // once the device has passed the event recorded behind the call. The codecs of the host are always done.
  virtual std::uint64_t record_event() const { return 0; }
  virtual bool query(std::uint64_t event) const {
    (void)event;
    return true;
  }
  // Where encoded bytes have to lie.
  virtual const FloatMemory& memory() const { return host_memory(); }
  // The same codec for values and bytes that the host works on.
  virtual const Codec& on_host() const { return *this; }
};

// What 16 bits mean.
enum class NumberFormat { levels, half, brain };

// Where the levels of 2, 4, 8 and 16 bits lie: fitted to each column, or CNTK's, which reach 4 RMS either way. The two
// agree in 1 bit.
enum class Quantizer { adaptive, original };

struct CodecOptions {
  int bits = 32;               // 1, 2, 4, 8, 16 (uniform levels), 32
  bool zero_threshold = true;  // 1 bit: the sign decides; otherwise the column mean
  NumberFormat format =
      NumberFormat::levels;  // 16 bits: uniform levels, IEEE half precision or bfloat16, with residual
  Quantizer quantizer = Quantizer::adaptive;
};
std::unique_ptr<Codec> make_codec(const CodecOptions&);
// For values in that memory. `device_messages`: the transport takes bytes in memory of a device as they are.
std::unique_ptr<Codec> make_codec(const CodecOptions&, const FloatMemory& values, bool device_messages);

// Encoded bytes, in memory that the codec and the transport both see.
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
