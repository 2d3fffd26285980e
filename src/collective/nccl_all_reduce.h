// SPDX-License-Identifier: Apache-2.0
// nccl_all_reduce.h -- buckets of chunks in 32 bits that the library of the GPUs (NCCL) sums where they lie: no shards,
// no messages. Used by AllReduce in place of a ShardTransport.
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
  // All outlive it; the codec copies. `gradients_stay`: nobody writes to the place of a chunk between encode() and
  // decode(), so that sums may be made there.
  NcclAllReduce(DeviceSums&, Parameters&, const ShardPlan&, const Codec&, bool gradients_stay);

  void encode(std::size_t chunk, const Residuals&);
  void launch(std::size_t bucket);
  bool query(std::size_t bucket) { return sums_.query(event_[bucket]); }
  void follow(std::size_t bucket) { sums_.follow(event_[bucket]); }  // what the device does next comes behind the sums
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
      summed_;  // where gradients do not stay: the sums of one step stand beside the values of the next
  float* const values_;
  std::vector<std::vector<DeviceSums::Run>> runs_;  // by bucket
  std::vector<std::uint64_t> event_;                // likewise: its last sum
};

}  // namespace tutti
