// SPDX-License-Identifier: Apache-2.0
// exchange_stats.h -- seconds and bytes of exchanges between ranks.
#pragma once

#include <cstdint>

namespace tutti {

// What a rank has spent on exchanges since it was last asked; a report adds it up per epoch.
struct ExchangeStats {
  double encode = 0, wait = 0, decode = 0;
  std::int64_t bytes_sent = 0;   // by this rank, as counted on the wire (headers of codecs included)
  std::int64_t values_sent = 0;  // gradient or weight values those bytes stand for
  std::int64_t exchanges = 0;
  bool groups = false;             // ranks work in groups
  std::int64_t bytes_between = 0;  // of bytes_sent: to other groups

  ExchangeStats& operator+=(const ExchangeStats& o) {
    groups = groups || o.groups, bytes_between += o.bytes_between;
    encode += o.encode, wait += o.wait, decode += o.decode;
    bytes_sent += o.bytes_sent, values_sent += o.values_sent, exchanges += o.exchanges;
    return *this;
  }
};

}  // namespace tutti
