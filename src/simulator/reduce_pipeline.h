// SPDX-License-Identifier: Apache-2.0
// reduce_pipeline.h -- the time of the sums of src/collective/all_reduce.cpp: buckets leave as soon as they are
// encoded, owners add, sums return, and all of it overlaps with computing. All ranks do the same at the same time, so
// one rank is followed: the one that sends most.
#pragma once

#include <deque>
#include <vector>

#include "simulator/parts.h"

namespace tutti::simulator {

// What this rank moves for a bucket: bytes and messages of both phases, and the values that it owns.
struct BucketLoad {
  std::size_t first_chunk = 0, end_chunk = 0;
  double scatter_out = 0, scatter_in = 0, gather_out = 0, gather_in = 0;                // bytes
  double scatter_sent = 0, scatter_received = 0, gather_sent = 0, gather_received = 0;  // messages
  double own_values = 0;
};
struct ReduceLoad {
  std::vector<BucketLoad> buckets;
  double bytes_sent() const;
};
// Of the busiest rank, from the program's own plan of shards.
ReduceLoad reduce_load(const Parameters& layout, const std::string& coding, int ranks);

// Seconds of a core for the chunks of a step.
struct ChunkWork {
  std::vector<double> ready;          // computed until this chunk is announced, since the beginning of the step
  double seconds = 0;                 // computed in the whole step
  std::vector<double> before, after;  // encoding; decoding and updating
};

class ReducePipeline {
 public:
  ReducePipeline(const Parts&, const std::string& coding, const Cluster&);

  const ReduceLoad& load() const { return load_; }
  // Encoding and decoding of all chunks, to which the caller adds.
  ChunkWork coding_work() const;

  // Each advances the clock. Gradients: sums are used while the step computes.
  void step(const ChunkWork&);
  // The sums of a step are used in the next one.
  void late_step(const ChunkWork&);
  // Weights: all buckets leave, then all are used.
  void exchange(const ChunkWork&);
  // `seconds` of a core.
  void work(double seconds) { now_ += seconds * ranks_per_core_; }
  // Short messages to all other ranks and back, for which nobody waits.
  void short_messages();
  // A round of them that all wait for.
  void short_round();

  double now() const { return now_; }
  double waited() const { return waited_; }

 private:
  struct State {
    double arrives = 0, published = 0;
    bool summed = false;
  };
  double transfer(double out, double in);
  void launch(std::size_t bucket);
  bool sum_next();
  void advance();
  bool use_next(const ChunkWork&, std::size_t announced);
  void exchange_behind(const ChunkWork&, std::size_t announced);
  void finish(const ChunkWork&);
  void wait_until(double time);
  void compute_to(double seconds);
  double messages(double count, double bytes) const {
    return (count * parts_.message.per_message + bytes * parts_.message.per_byte) / 2;
  }

  const Parts& parts_;
  const Cluster cluster_;
  const double ranks_per_core_;
  const CodecCost cost_;
  const bool lossy_;
  const ReduceLoad load_;
  std::vector<State> states_;
  std::deque<std::size_t> launched_;
  std::size_t used_ = 0;       // buckets of this step
  bool late_pending_ = false;  // the sums of the last step are not used yet
  double now_ = 0, out_free_ = 0, in_free_ = 0, waited_ = 0, computed_ = 0;
};

}  // namespace tutti::simulator
