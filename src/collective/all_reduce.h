// SPDX-License-Identifier: Apache-2.0
// all_reduce.h -- sums gradients over the ranks in any number of bits, chunk by chunk, while the caller continues:
//   1. every rank encodes its chunk with its residual and offers each shard to the rank that owns it;
//   2. the owner decodes all versions in rank order, adds them, encodes the sum with a second residual and publishes
//   it;
//   3. every rank, the owner included, decodes the same bytes, so the gradients are equal on all ranks.
// A ShardTransport carries the bytes. If NCCL sums (nccl_all_reduce.h), there are no shards. A single rank encodes and
// decodes alone. Sparse gradients are buckets of their own and are summed row by row in messages
// (row_sparse_all_reduce.h). Only complete() and flush() block.
#pragma once

#include <memory>
#include <vector>

#include "collective/row_sparse_all_reduce.h"
#include "collective/shard_plan.h"
#include "collective/transport.h"
#include "tutti/communicator.h"
#include "tutti/exchange_stats.h"

namespace tutti {

class NcclAllReduce;

struct AllReduceSettings {
  Transport transport = Transport::messages;  // the result of resolve_transport()
  DeviceSums* device_sums = nullptr;          // likewise; must outlive the exchange
  bool gradients_stay = true;                 // nobody writes to the memory of a chunk between encode() and decode()
  std::size_t bucket_values = 0;              // minimum number of values per bucket; 0 = automatic
};

class AllReduce {
 public:
  // Collective: plans buffers and messages. Parameters, communicator and codec must outlive the exchange.
  AllReduce(Communicator&, Parameters&, const Codec&, const AllReduceSettings& = {});
  ~AllReduce();

  void use(Residuals residuals) { residuals_ = residuals; }

  std::size_t buckets() const { return plan_.buckets.size(); }
  std::size_t bucket_of(std::size_t chunk) const { return plan_.bucket_of[chunk]; }
  bool first_of_bucket(std::size_t chunk) const { return plan_.buckets[bucket_of(chunk)].first_chunk == chunk; }
  bool last_of_bucket(std::size_t chunk) const { return plan_.buckets[bucket_of(chunk)].end_chunk == chunk + 1; }
  std::size_t first_chunk(std::size_t bucket) const { return plan_.buckets[bucket].first_chunk; }
  std::size_t end_chunk(std::size_t bucket) const { return plan_.buckets[bucket].end_chunk; }

  // Zeroes the part of an owner residual that this rank does not own.
  void keep_own_columns(float* owner_residual) const;

  // The life of a bucket: arm() posts receives, announce(), encode() each chunk, launch(), complete(), decode() each
  // chunk.
  void arm(std::size_t bucket);
  void announce(std::size_t bucket);  // sends the row lists of sparse gradients before their values are complete
  void encode(std::size_t chunk);
  void launch(std::size_t bucket);
  bool in_flight(std::size_t bucket) const { return buckets_[bucket].state != State::idle; }
  bool try_complete(
      std::size_t bucket);  // whether the sums of a launched bucket have arrived; makes progress on all buckets
  void complete(std::size_t bucket);  // waits until published(bucket)
  void decode(std::size_t chunk);     // into Parameters::gradients
  void advance();                     // sums the versions that have arrived, in launch order
  void flush();                       // waits until own messages have been sent, so that buffers can be reused

  ExchangeStats exchange_stats_and_reset();
  // Seconds spent in here since construction; the caller takes differences.
  double seconds_worked() const { return worked_; }
  double seconds_waited() const { return waited_; }

 private:
  // A device codec works asynchronously: its bytes are awaited after launch() and after summing.
  enum class State { idle, armed, encoding, launched, summing, summed };
  struct BucketState {
    State state = State::idle;
    std::unique_ptr<RowSparseAllReduce> sparse;  // does all the work of its bucket
    std::uint64_t event = 0;                     // event of the last encode on a device
  };

  bool by_library(std::size_t bucket) const { return sums_ && !buckets_[bucket].sparse; }
  // The encoded bytes are the values themselves, so a rank need not copy its own.
  bool in_place() const { return plain_ && ranks_ > 1 && !residuals_.local; }
  // Calls use(owner, shard, rows, its place in the parameters) for the shards of a chunk that travel encoded.
  template <class Use>
  void each_message(std::size_t chunk, const Use&) const;
  std::size_t largest_block() const;  // values summed at a time
  void synchronize() const { parameters_.gradients.memory().synchronize(); }
  void wait_for(std::size_t bucket);
  void count_sent(std::size_t bucket, int owner, int copies);  // a section
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
  std::unique_ptr<NcclAllReduce> sums_;  // replaces the transport
  std::unique_ptr<ShardTransport> transport_;
  std::vector<BucketState> buckets_;
  std::vector<std::size_t> sparse_buckets_;
  std::vector<std::size_t> launched_;                                // ring of buckets that wait for their sum
  std::size_t launched_head_ = 0, launched_count_ = 0, unsent_ = 0;  // unsent: the last ones in the ring
  FloatBuffer scratch_;
  Residuals residuals_;
  ExchangeStats stats_;
  double worked_ = 0, waited_ = 0;
};

// Counts an all-reduce of a library as if it used shards; the library may use another algorithm.
void count_library_sum(ExchangeStats&, std::size_t values, int ranks);

}  // namespace tutti
