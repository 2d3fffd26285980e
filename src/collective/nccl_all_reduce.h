// SPDX-License-Identifier: Apache-2.0
// nccl_all_reduce.h -- sums buckets of chunks in 32 bits with NCCL, in place, without shards or messages. AllReduce
// uses it instead of a ShardTransport.
#pragma once

#include <vector>

#include "collective/row_sparse_all_reduce.h"
#include "collective/shard_plan.h"
#include "comm/device_sums.h"
#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti {

class NcclAllReduce {
 public:
  // All arguments must outlive it. The codec copies. `gradients_stay`: nobody writes to the memory of a chunk between
  // encode() and decode(), so it can hold the sum.
  NcclAllReduce(DeviceSums&, Parameters&, const ShardPlan&, const Codec&, bool gradients_stay);

  void encode(std::size_t chunk, const Residuals&);
  void launch(std::size_t bucket);
  bool query(std::size_t bucket) { return sums_.query(event_[bucket]); }
  void follow(std::size_t bucket) { sums_.follow(event_[bucket]); }  // later device work waits for the sums
  void decode(std::size_t chunk);

 private:
  struct Place {
    std::size_t offset, rows, columns;
  };
  Place place(std::size_t chunk) const;
  void plan_runs(const Bucket&, std::vector<DeviceSums::Run>&);

  DeviceSums& sums_;
  Parameters& parameters_;
  const Codec& codec_;
  FloatBuffer copies_,
      summed_;  // if gradients do not stay: the sums of a step, beside the values of the next one
  float* const values_;
  std::vector<std::vector<DeviceSums::Run>> runs_;  // by bucket
  std::vector<std::uint64_t> event_;                // by bucket: its last sum
};

}  // namespace tutti
