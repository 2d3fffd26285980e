// SPDX-License-Identifier: Apache-2.0
// shard.h -- the weights cut into shards, each at a handler of the rank that serves it: which columns belong to
// it, what workers send and get, how many pushes make an update, and what an update does (a ShardRule).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/parameter_server/request_loop.h"
#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti {

// Whole columns of one slice, at `offset` of the flat buffers and at `local` of the shard's own.
struct ServerShardRun {
  std::size_t slice = 0, rows = 0, first_column = 0, columns = 0;
  std::size_t offset = 0, local = 0;
  std::size_t size() const { return rows * columns; }
};

struct ServerShardPlan {
  int owner = 0;
  std::vector<ServerShardRun> runs;
  std::size_t values = 0, largest_run = 0;
  std::size_t bytes(const Codec&) const;  // of a message: head and encoded values
  // Between all weights and the shard's own memory.
  void gather(const float* flat, float* local) const;
  void scatter(const float* local, float* flat) const;
};

// The same on every rank. Shards go round `owners`; they have about as many values each, and few enough that one is
// worked on while the next travels. `whole_slices` keeps every slice in one shard.
std::vector<ServerShardPlan> plan_shards(const Parameters&, const std::vector<int>& owners, bool whole_slices);

// What stands before the values of a push.
struct PushHead {
  std::int64_t samples = 0, columns = 0;
  double learning_rate = 0, momentum_per_sample = 0;  // of updates at the server
  std::int64_t batch = 0;                             // pushes of one batch make one update, in the order of batches
  std::int32_t batch_size = 1;
  std::int8_t pushes = 1;    // 0: only asks for the weights, once updates before `batch` have been made
  std::int8_t fetches = 1;   // 0: the response is a head alone
  std::int8_t replaces = 0;  // the values are the new weights: one worker that sends 32 bits
  std::int8_t apart = 0;     // no batch: counts for the next update that the shard gathers itself
  std::int8_t late = 0;      // the worker computed with the weights of the fetch before the last one
};
// And before the values of an response.
struct ResponseHead {
  std::int64_t staleness = 0;  // pushes of others since this worker's last fetch
};
constexpr std::size_t kHeadBytes = 64;
static_assert(sizeof(PushHead) <= kHeadBytes && sizeof(ResponseHead) <= kHeadBytes);

// What became of one update.
struct UpdateTerms {
  std::int64_t columns = 0;  // of all its pushes
  double learning_rate = 0, momentum_per_sample = 0;
};

// What an update does to a shard. `shard.weights` are the common weights, `shard.gradients` the sum of the pushes,
// which the rule may use as scratch.
class ShardRule {
 public:
  virtual ~ShardRule() = default;
  virtual void bind(Parameters& shard) { (void)shard; }
  virtual void apply(Parameters& shard, const UpdateTerms&) = 0;
  // Each push counts by its part of the samples, where there are any (a mean), instead of fully (a sum).
  virtual bool means() const { return false; }
  // Responses carry what apply() left in `shard.gradients` instead of the weights. With 32 bits and batches of one
  // only.
  virtual bool responds_to_push() const { return false; }
};
std::unique_ptr<ShardRule> make_sum_rule();   // W -= sum
std::unique_ptr<ShardRule> make_mean_rule();  // W -= mean by samples

class ServerShard : public RequestHandler {
 public:
  // An update of pushes that come apart needs `gathers` of them.
  ServerShard(const ServerShardPlan&, const Parameters&, std::shared_ptr<const Codec>, std::unique_ptr<ShardRule>,
              int clients, int gathers);
  std::size_t handle(int client, std::span<std::byte> message) override;

  // The rest inside Server::exclusively() only, while no worker asks.
  void load(const float* flat);  // weights from the flat buffer; all workers have them, nothing is in flight
  void store(float* flat) const;
  void flush();  // makes the update that waits for more pushes
  const ServerShardPlan& plan() const { return plan_; }
  Parameters& parameters() { return p_; }
  ShardRule& rule() { return *rule_; }

 private:
  struct Slot {
    bool here = false, done = false;
    PushHead head;
    std::int64_t staleness = 0;
    const std::byte* values = nullptr;
    // How many pushes are in the weights that the worker fetched last, and before; its own count as if they were.
    std::int64_t seen = 0, seen_before = 0;
    std::int64_t gathered = 0;  // its own that wait for an update
    FloatBuffer known;          // those weights, where responses are encoded differences
  };

  void arrive(Slot&);
  bool gather(const PushHead&);
  void gather_apart(Slot&);
  void replace(const Slot&);
  void note_push(Slot&);
  void add(const Slot&, float factor, bool first);
  void update(const UpdateTerms&, std::int64_t pushes);
  void write_weights(Slot&, std::byte* out);

  const ServerShardPlan plan_;
  std::shared_ptr<const Codec> codec_;
  std::unique_ptr<ShardRule> rule_;
  const int gathers_;
  Parameters p_;
  FloatBuffer scratch_, residual_;
  std::vector<Slot> slots_;
  std::int64_t batches_ = 0;  // made
  std::int64_t pushes_ = 0;   // in the weights
  std::int64_t gathered_ = 0;
  UpdateTerms gathered_terms_;
};

}  // namespace tutti
