// SPDX-License-Identifier: Apache-2.0
// nccl_all_reduce.h -- sums buckets of chunks in 32 bits with NCCL, in place, without shards or messages. AllReduce
// uses it instead of a ShardTransport.
#pragma once

#include <cassert>
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
  NcclAllReduce(DeviceSums& sums, Parameters& parameters, const ShardPlan& plan, const Codec& codec,
                bool gradients_stay)
      : sums_(sums),
        parameters_(parameters),
        codec_(codec),
        copies_(gradients_stay ? FloatBuffer() : FloatBuffer(parameters.size(), parameters.gradients)),
        summed_(copies_.size(), parameters.gradients),
        values_(gradients_stay ? parameters.gradients.data() : copies_.data()),
        runs_(plan.buckets.size()),
        event_(plan.buckets.size()) {
    assert(!codec.lossy());
    for (std::size_t g = 0; g < runs_.size(); ++g)
      if (!plan.buckets[g].sparse) plan_runs(plan.buckets[g], runs_[g]);
  }

  // Owner residuals are disjoint, so every rank adds all of its own.
  void encode(std::size_t chunk, const Residuals& residuals) {
    assert(!residuals.mask);
    const Place p = place(chunk);
    float* const values = values_ + p.offset;
    const auto add = [&](const float* from, float* residual) {
      codec_.encode(p.rows, p.columns, from, residual, reinterpret_cast<std::byte*>(values));
    };
    if (copies_.size() > 0 || residuals.local)
      add(parameters_.gradients.data() + p.offset, residuals.local ? residuals.local + p.offset : nullptr);
    if (residuals.owner) add(values, residuals.owner + p.offset);
  }
  void launch(std::size_t bucket) { event_[bucket] = sums_.sum(runs_[bucket]); }
  bool query(std::size_t bucket) { return sums_.query(event_[bucket]); }
  void follow(std::size_t bucket) { sums_.follow(event_[bucket]); }  // later device work waits for the sums
  void decode(std::size_t chunk) {
    if (copies_.size() == 0) return;
    const Place p = place(chunk);
    codec_.decode(p.rows, p.columns, reinterpret_cast<const std::byte*>(summed_.data() + p.offset),
                  parameters_.gradients.data() + p.offset);
  }

 private:
  struct Place {
    std::size_t offset, rows, columns;
  };
  Place place(std::size_t chunk) const {
    const GradientChunk& p = parameters_.chunks[chunk];
    return {parameters_.offset(p), parameters_.slices[p.slice].rows, p.columns};
  }

  // Merges neighbouring runs.
  void plan_runs(const Bucket& bucket, std::vector<DeviceSums::Run>& runs) {
    float* const sums = copies_.size() > 0 ? summed_.data() : values_;
    for (std::size_t chunk = bucket.first_chunk; chunk < bucket.end_chunk; ++chunk) {
      const Place p = place(chunk);
      const std::size_t count = p.rows * p.columns;
      if (!runs.empty() && runs.back().values + runs.back().count == values_ + p.offset)
        runs.back().count += count;
      else
        runs.push_back({values_ + p.offset, sums + p.offset, count});
    }
  }

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
