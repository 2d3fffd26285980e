// SPDX-License-Identifier: Apache-2.0
// shard.h -- the shards of the weights, each a handler at the rank that serves it: its columns, the messages between
// workers and server, the number of pushes per update, and the update itself (a ShardRule).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "parallel/parameter_server/request_loop.h"
#include "tutti/codec.h"
#include "tutti/exchange_stats.h"
#include "tutti/parameters.h"

namespace tutti {

// Whole columns of one slice, at `offset` in the flat buffers and at `local` in the shard's buffers.
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
  std::size_t local_size() const { return runs.back().local + runs.back().size(); }  // of the shard's buffers
  // Copies between all weights and the shard's buffers.
  void gather(const float* flat, float* local) const;
  void scatter(const float* local, float* flat) const;
};

// Divides the weights into shards of about equal size, assigned to `owners` in turn; the same on every rank. Shards are
// small enough that one is processed while the next is sent. `whole_slices` keeps every slice in one shard.
std::vector<ServerShardPlan> plan_shards(const Parameters&, const std::vector<int>& owners, bool whole_slices);

// Counts a message to another rank.
void count_message(ExchangeStats&, std::size_t bytes, std::size_t values);
// Every owner sends the values of its shards in `flat` to all ranks, in 32 bits. Collective.
void broadcast_shards(Communicator&, const std::vector<ServerShardPlan>&, std::span<float> flat, ExchangeStats&);

// The head of a push.
struct PushHead {
  std::int64_t samples = 0, columns = 0;
  double learning_rate = 0, momentum_per_sample = 0;  // of updates at the server
  std::int64_t batch = 0;  // the pushes of one batch form one update, in the order of batches
  std::int32_t batch_size = 1;
  std::int8_t pushes = 1;    // 0: only fetches the weights, after all updates before `batch`
  std::int8_t fetches = 1;   // 0: the response is a head without values
  std::int8_t replaces = 0;  // the values are the new weights: a single worker with 32 bits
  std::int8_t apart = 0;     // no batch: counts for the next update that the shard collects itself
  std::int8_t late = 0;      // the worker computed with the weights of the fetch before the last one
};
// The head of a response.
struct ResponseHead {
  std::int64_t staleness = 0;  // pushes of other workers since this worker's last fetch
};
constexpr std::size_t kHeadBytes = 64;
static_assert(sizeof(PushHead) <= kHeadBytes && sizeof(ResponseHead) <= kHeadBytes);

// The result of one update.
struct UpdateTerms {
  std::int64_t columns = 0;  // of all its pushes
  double learning_rate = 0, momentum_per_sample = 0;
};

// The update of a shard. `shard.weights` are the common weights; `shard.gradients` is the sum of the pushes, which the
// rule may use as scratch memory.
class ShardRule {
 public:
  virtual ~ShardRule() = default;
  virtual void bind(Parameters& shard) { (void)shard; }
  virtual void apply(Parameters& shard, const UpdateTerms&) = 0;
  // Whether pushes are weighted by their share of the samples (a mean) instead of added (a sum).
  virtual bool means() const { return false; }
};
std::unique_ptr<ShardRule> make_sum_rule();   // W -= sum
std::unique_ptr<ShardRule> make_mean_rule();  // W -= mean weighted by samples

class ServerShard : public RequestHandler {
 public:
  // An update of pushes without a batch needs `gathers` of them.
  ServerShard(const ServerShardPlan&, const Parameters&, std::shared_ptr<const Codec>, std::unique_ptr<ShardRule>,
              int clients, int gathers);
  std::size_t handle(int client, std::span<std::byte> message) override;

  // Call the following only inside Server::exclusively(), while no request is in flight.
  void load(const float* flat);  // loads weights that all workers have
  void store(float* flat) const;
  void flush();  // makes an update of the pushes collected so far
  ExchangeStats responses_to_others_and_reset() { return std::exchange(responses_, {}); }
  const ServerShardPlan& plan() const { return plan_; }
  Parameters& parameters() { return p_; }
  ShardRule& rule() { return *rule_; }

 private:
  struct Slot {
    bool here = false, done = false;
    PushHead head;
    std::int64_t staleness = 0;
    const std::byte* values = nullptr;
    // The number of pushes in the weights that the worker fetched last, and before that; its own count as included.
    std::int64_t seen = 0, seen_before = 0;
    std::int64_t gathered = 0;  // its own pushes that wait for an update
    FloatBuffer known;          // those weights, if responses are encoded differences
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
  std::int64_t batches_ = 0;  // updates made so far
  std::int64_t pushes_ = 0;   // pushes in the weights
  std::int64_t gathered_ = 0;
  UpdateTerms gathered_terms_;
  ExchangeStats responses_;  // to clients other than the owner
};

}  // namespace tutti
