// SPDX-License-Identifier: Apache-2.0
// pending_pushes.h -- requests (request_loop.h) whose messages a codec writes, perhaps still on a device. Each request
// is sent when its message is complete, and the rank continues meanwhile. Host codecs complete at once.
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
  // Both must outlive it.
  PendingPushes(Server& server, const Codec& codec) : server_(server), codec_(codec) {}

  // Everything enqueued on the codec so far completes Server::message(handler).
  void request(int handler, std::size_t response_bytes);
  void poll() override;                          // sends complete messages in order
  std::span<const std::byte> wait(int handler);  // as Server::wait(), and keeps sending the others

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
  std::size_t first_ = 0;  // index of the first one not sent yet
};

}  // namespace tutti
