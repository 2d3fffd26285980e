// SPDX-License-Identifier: Apache-2.0
// pending_pushes.h -- requests to handlers (request_loop.h) that a codec writes. A device may still be at them when
// they are asked: each leaves when it is complete, and meanwhile the rank goes on. The codecs of the host are always
// done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/parameter_server/request_loop.h"
#include "tutti/codec.h"
#include "tutti/weight_exchange.h"

namespace tutti {

class PendingPushes final : public Pollable {
 public:
  // Both outlive it.
  PendingPushes(Server& server, const Codec& codec) : server_(server), codec_(codec) {}

  // What the codec has been given so far completes Server::message(handler).
  void request(int handler, std::size_t response_bytes);
  void poll() override;                          // what is complete leaves, in the order of asking
  std::span<const std::byte> wait(int handler);  // as Server::wait(), while the others leave

 private:
  struct Push {
    int handler = 0;
    std::size_t response_bytes = 0;
    std::uint64_t event = 0;  // of the codec
  };
  bool left(int handler) const;

  Server& server_;
  const Codec& codec_;
  std::vector<Push> pending_;
  std::size_t first_ = 0;  // of them that has not left
};

}  // namespace tutti
