// SPDX-License-Identifier: Apache-2.0
// inter_group_columns.h -- the path of gradients between groups: the columns of every chunk are divided over the
// first ranks of a group, the inter_group_ranks. Each exchanges its own columns with its peers in the other groups and
// tells its group the sums. Columns stay whole, so the numbers do not depend on how many inter_group_ranks there are.
// Where gradients are a device's, it copies them in its queue, and the bytes are those of a codec; sparse gradients are
// carried by the host.
#pragma once

#include <memory>
#include <vector>

#include "collective/row_sparse_broadcast.h"
#include "collective/shard_plan.h"
#include "parallel/local_sgd/weight_kernels.h"
#include "tutti/codec.h"
#include "tutti/communicator.h"
#include "tutti/parameters.h"

namespace tutti {

class InterGroupColumns {
 public:
  // Every rank of the group makes one; `whole` outlives it. Tags from 0 on are used.
  InterGroupColumns(Communicator& group, Parameters& whole, int inter_group_ranks);

  bool is_inter_group_rank() const { return me_ < inter_group_ranks_; }
  // What this rank carries: as many chunks as the whole has, in the same order, some perhaps without columns.
  Parameters& mine() { return mine_; }
  // A value per weight of the whole, at the places of mine().
  void gather(const float* whole, float* mine) const;
  // Chunks from which on all lists of sparse gradients are known; 0 = there are none.
  std::size_t lists_known_at() const { return lists_known_at_; }

  void load_lists();             // of the sparse rows of the group
  void load(std::size_t chunk);  // the group's sum from the whole
  void advance();                // messages leave when they are complete

  // A run of chunks travels together: arm, send each of its chunks (inter_group_ranks), complete, store.
  std::size_t runs() const { return plan_.buckets.size(); }
  std::size_t first_chunk(std::size_t run) const { return plan_.buckets[run].first_chunk; }
  std::size_t end_chunk(std::size_t run) const { return plan_.buckets[run].end_chunk; }
  void arm();
  void send(std::size_t chunk);  // its sum over the groups stands in mine()
  bool try_complete(std::size_t run);
  void complete(std::size_t run);
  void store(std::size_t run);     // all columns into the whole
  void flush();                    // own messages have left
  std::int64_t bytes_and_reset();  // of messages within the group: floats, and numbers of rows

 private:
  struct Run {
    MessageBytes bytes;  // a section per owner
    std::vector<std::unique_ptr<Transfer>> sends, receives;
    std::unique_ptr<RowSparseBroadcast> sparse;
    std::uint64_t encoded = 0;  // event of the codec behind the own section
    std::uint64_t stored = 0;   // and behind the last use of the others'
  };
  int sparse_owner(std::size_t slice) const { return static_cast<int>(slice) % inter_group_ranks_; }
  void lay_out();
  void plan_messages(std::size_t run);
  bool in_flight(std::size_t run);
  float* place(Parameters&, std::size_t chunk) const;
  void synchronize() const { whole_.gradients.memory().synchronize(); }
  void copy(const float* from, float* to, std::size_t count) const { kernels_.run(weights::Copy{from, to}, count); }
  std::size_t section(std::size_t run, int owner) const {
    return plan_.buckets[run].section_begin[static_cast<std::size_t>(owner)];
  }

  Communicator& comm_;
  Parameters& whole_;
  const int me_, inter_group_ranks_;
  std::unique_ptr<Codec> floats_;
  const WeightKernels& kernels_;
  ShardPlan plan_;
  Parameters mine_;
  std::size_t lists_known_at_ = 0;
  std::vector<Run> run_;
  // So many of them, in their order, may receive (from arm() until all are stored), are encoded, and have been sent.
  bool armed_ = false;
  std::size_t listening_ = 0, written_ = 0, sent_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace tutti
