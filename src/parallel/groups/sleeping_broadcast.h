// SPDX-License-Identifier: Apache-2.0
// sleeping_broadcast.h -- a broadcast from the group leader for which the other ranks sleep instead of polling: the
// leader may wait for servers, and a server may need the core.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/communicator.h"

namespace tutti {

class SleepingBroadcast {
 public:
  using Words = std::array<std::int64_t, 2>;
  explicit SleepingBroadcast(Communicator& group);
  // The leader does not wait until the others get here: flush() does, and the next broadcast.
  void broadcast(Words&);
  void flush();

 private:
  Words words_{};
  std::vector<std::unique_ptr<Transfer>> transfers_;  // to the others, or from the leader
  const bool leads_;
};

}  // namespace tutti
