// SPDX-License-Identifier: Apache-2.0
// all_reduce.h -- sums gradients over the ranks in any number of bits, chunk by chunk, while the caller goes on:
//   1. every rank encodes its whole chunk with its residual and offers each shard to the rank that owns it;
//   2. the owner decodes all versions in rank order, adds them, encodes the sum with its second residual, publishes it;
//   3. everybody decodes the same bytes, the owner too: the same gradients everywhere.
// A ShardTransport carries the bytes; where the library of the GPUs sums (nccl_all_reduce.h), there are no shards. One
// rank alone encodes and decodes. Sparse gradients go the same way line by line, in messages (row_sparse_all_reduce.h),
// as buckets of their own. Nothing here blocks except complete() and flush().
#pragma once

#include <memory>
#include <vector>

#include "collective/nccl_all_reduce.h"
#include "collective/row_sparse_all_reduce.h"
#include "collective/shard_plan.h"
#include "collective/transport.h"
#include "tutti/communicator.h"
#include "tutti/exchange_stats.h"

namespace tutti {

struct AllReduceSettings {
  Transport transport = Transport::messages;  // as resolve_transport() has it
  DeviceSums* device_sums = nullptr;          // likewise; outlives the exchange
  bool gradients_stay = true;                 // nobody writes to the place of a chunk between encode() and decode()
  std::size_t bucket_values = 0;  // at least so many values per bucket, where there are as many; 0 = as is best
};

class AllReduce {
 public:
  // Collective: buffers and messages are planned here. Parameters, communicator and codec outlive the exchange.
  AllReduce(Communicator&, Parameters&, const Codec&, const AllReduceSettings& = {});
  ~AllReduce();

  void use(Residuals residuals) { residuals_ = residuals; }

  std::size_t buckets() const { return plan_.buckets.size(); }
  std::size_t bucket_of(std::size_t chunk) const { return plan_.bucket_of[chunk]; }
  bool first_of_bucket(std::size_t chunk) const { return plan_.buckets[bucket_of(chunk)].first_chunk == chunk; }
  bool last_of_bucket(std::size_t chunk) const { return plan_.buckets[bucket_of(chunk)].end_chunk == chunk + 1; }
  std::size_t first_chunk(std::size_t bucket) const { return plan_.buckets[bucket].first_chunk; }
  std::size_t end_chunk(std::size_t bucket) const { return plan_.buckets[bucket].end_chunk; }

  // Zeroes in a buffer of owners' residuals what this rank does not own.
  void keep_own_columns(float* owner_residual) const;

  // The life of a bucket: arm (messages may come in), announce, encode each chunk, launch, complete, decode each chunk.
  void arm(std::size_t bucket);
  void announce(std::size_t bucket);  // what is to be known of sparse gradients before they are complete
  void encode(std::size_t chunk);
  void launch(std::size_t bucket);
  bool in_flight(std::size_t bucket) const { return buckets_[bucket].state != State::idle; }
  bool try_complete(
      std::size_t bucket);  // the sums over all ranks of a launched bucket are here; drives everything on the way
  void complete(std::size_t bucket);  // waits for them
  void decode(std::size_t chunk);     // into Parameters::gradients
  void advance();                     // sums what has come in, in the order of launches
  void flush();                       // own messages have left: buffers may be filled again

  ExchangeStats exchange_stats_and_reset();
  // Seconds spent in here since the exchange was made; the caller takes differences.
  double seconds_worked() const { return worked_; }
  double seconds_waited() const { return waited_; }

 private:
  // A codec of a device goes on by itself: after launching its bytes are awaited, and after summing.
  enum class State { idle, armed, encoding, launched, summing, summed };
  struct BucketState {
    State state = State::idle;
    std::unique_ptr<RowSparseAllReduce> sparse;  // does all the work of its bucket
    std::uint64_t event = 0;                     // of the codec: what was encoded last
  };

  bool by_library(std::size_t bucket) const { return sums_ && !buckets_[bucket].sparse; }
  // Bytes that are the values: a rank need not write down for itself what stands in its gradients.
  bool in_place() const { return plain_ && ranks_ > 1 && !residuals_.local; }
  std::size_t largest_block() const;  // values that are summed at a time
  void synchronize() const { parameters_.gradients.memory().synchronize(); }
  void launch_library(std::size_t bucket);
  void send_when_encoded();
  bool sum_when_here(std::size_t bucket);
  void sum(std::size_t bucket);
  void sum_shard(std::size_t chunk, std::size_t bucket);

  Communicator& comm_;
  Parameters& parameters_;
  const Codec& codec_;
  const int me_, ranks_;
  const bool plain_;  // the codec copies, and gradients stay where they are
  ShardPlan plan_;
  std::unique_ptr<NcclAllReduce> sums_;  // in place of the transport
  std::unique_ptr<ShardTransport> transport_;
  std::vector<BucketState> buckets_;
  std::vector<std::size_t> sparse_buckets_;
  std::vector<std::size_t> launched_;                                // ring of buckets that wait for their sum
  std::size_t launched_head_ = 0, launched_count_ = 0, unsent_ = 0;  // unsent: the last ones of the ring
  FloatBuffer scratch_;
  Residuals residuals_;
  ExchangeStats stats_;
  double worked_ = 0, waited_ = 0;
};

// Counts a library's all-reduce of so many values as one in shards; the library may do something else.
void count_library_sum(ExchangeStats&, std::size_t values, int ranks);

}  // namespace tutti
