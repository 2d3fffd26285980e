// SPDX-License-Identifier: Apache-2.0
// served_weights.h -- the weights at the servers of a group as its master sees them: it reads and moves them beside the
// pushes of the workers. Used by parallel/groups/master_weights.h.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/parameter_server/shard.h"

namespace tutti {

class ServedWeights {
 public:
  // `local`: by shard, its buffer if this rank serves it, else null. Rank 0 is the master. Adds a handler per shard, so
  // call before Server::open(), on every rank.
  ServedWeights(Server&, const std::vector<ServerShardPlan>&, const std::vector<FloatBuffer*>& local);

  // At the master only; both wait for the serving threads, not for workers.
  // Copies the weights as they are now. Each shard is copied at one moment, different shards at different ones.
  void read(float* flat);
  // Moves the weights by the difference of `flat` to what read() returned last. A value that nobody has changed since
  // then becomes exactly that of `flat`.
  void move(const float* flat);
  std::int64_t bytes_sent_and_reset() { return std::exchange(bytes_sent_, 0); }

 private:
  template <class Fill>
  void request_all(bool moves, const Fill& fill);

  Server& server_;
  const std::vector<ServerShardPlan>& plans_;
  std::vector<int> handlers_;  // by shard
  std::int64_t bytes_sent_ = 0;
};

}  // namespace tutti
