// SPDX-License-Identifier: Apache-2.0
// exchange_stats.h -- seconds and bytes of exchanges between ranks.
#pragma once

#include <cstdint>

namespace tutti {

// Time and bytes that a rank spent on exchanges since the last call. A report adds them up per epoch.
struct ExchangeStats {
  double encode = 0, wait = 0, decode = 0;
  std::int64_t bytes_sent = 0;   // by this rank, including the headers of codecs
  std::int64_t values_sent = 0;  // number of gradient or weight values in those bytes
  std::int64_t exchanges = 0;
  bool groups = false;             // ranks work in groups
  std::int64_t bytes_between = 0;  // part of bytes_sent that went to other groups

  ExchangeStats& operator+=(const ExchangeStats& o) {
    groups = groups || o.groups, bytes_between += o.bytes_between;
    encode += o.encode, wait += o.wait, decode += o.decode;
    bytes_sent += o.bytes_sent, values_sent += o.values_sent, exchanges += o.exchanges;
    return *this;
  }
};

}  // namespace tutti
