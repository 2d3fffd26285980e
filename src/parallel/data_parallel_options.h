// SPDX-License-Identifier: Apache-2.0
// data_parallel_options.h -- the block DataParallelSGD of ParallelTrain.
#pragma once

#include <algorithm>
#include <string>

#include "parallel/exchange_bits.h"
#include "parallel/method_context.h"
#include "tutti/codec.h"
#include "tutti/config.h"

namespace tutti {

// 64 bits belong to precision = "double", which computes in float32.
inline int travelling_bits(std::int64_t bits) { return static_cast<int>(std::min<std::int64_t>(bits, 32)); }

// "16 bits" for levels, "float16" for numbers.
std::string name_of_bits(std::int64_t bits, NumberFormat);

struct DataParallelOptions {
  static constexpr const char* name = "DataParallelSGD";
  static constexpr const char* help = "gradients are exchanged after every minibatch";
  config::Schedule<std::int64_t> gradient_bits = 32;
  bool zero_threshold = true;
  bool buffered_async = false;
  bool reset_residuals = false;
  // For methods that exchange gradients under another name.
  const char* method = "DataParallelSGD";
  bool announces = true;  // the number of bits
  NumberFormat sixteen_bits = NumberFormat::levels;
  Quantizer quantizer = Quantizer::adaptive;
  bool double_precision = false;  // set by the owner of the block before reading: precision = "double" allows 64 bits

  void describe(config::Fields& f);
  MethodTraits traits() const;
  ParallelMethod make(const MethodContext&) const;

 private:
  void describe_exchange_bits(config::Fields& f);
};

}  // namespace tutti
