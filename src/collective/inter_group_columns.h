// SPDX-License-Identifier: Apache-2.0
// inter_group_columns.h -- hierarchical all-reduce: the part of the gradients that a rank exchanges between groups. The
// columns of every chunk are divided among the first ranks of a group, the inter_group_ranks. Each exchanges its
// columns with its peers in other groups and broadcasts the sums in its group. Columns are never split, so results do
// not depend on the number of inter_group_ranks. Gradients on a device are copied in its stream, and the bytes sent are
// those of a codec; sparse gradients go through the host.
#pragma once

#include <memory>
#include <vector>

#include "collective/row_sparse_broadcast.h"
#include "collective/shard_plan.h"
#include "tutti/codec.h"
#include "tutti/communicator.h"
#include "tutti/parameters.h"

namespace tutti {

class InterGroupColumns {
 public:
  // Collective in the group. `whole` must outlive it. Uses tags from 0 on.
  InterGroupColumns(Communicator& group, Parameters& whole, int inter_group_ranks);

  bool is_inter_group_rank() const { return me_ < inter_group_ranks_; }
  // The part of this rank: the same chunks in the same order as the whole, some perhaps without columns.
  Parameters& mine() { return mine_; }
  // One value per weight of the whole, at the positions of mine().
  void gather(const float* whole, float* mine) const;
  // Index of the chunk from which on all lists of sparse gradients are known; 0 = there are none.
  std::size_t lists_known_at() const { return lists_known_at_; }

  void load_lists();             // the sparse rows of the group
  void load(std::size_t chunk);  // copies the group's sum from the whole
  void advance();                // messages leave when they are complete

  // A run of chunks is exchanged together: arm(), send() for each of its chunks (inter_group_ranks only), complete(),
  // store().
  std::size_t runs() const { return plan_.buckets.size(); }
  std::size_t first_chunk(std::size_t run) const { return plan_.buckets[run].first_chunk; }
  std::size_t end_chunk(std::size_t run) const { return plan_.buckets[run].end_chunk; }
  void arm();
  void send(std::size_t chunk);  // its sum over the groups is in mine()
  bool try_complete(std::size_t run);
  void complete(std::size_t run);
  void store(std::size_t run);     // copies all columns to the whole
  void flush();                    // waits until own messages have been sent
  std::int64_t bytes_and_reset();  // of messages inside the group: floats and row counts

 private:
  struct Run {
    MessageBytes bytes;  // a section per owner
    std::vector<std::unique_ptr<Transfer>> sends, receives;
    std::unique_ptr<RowSparseBroadcast> sparse;
    std::uint64_t encoded = 0;  // codec event after encoding this rank's section
    std::uint64_t stored = 0;   // codec event after the last use of the others' sections
  };
  int sparse_owner(std::size_t slice) const { return static_cast<int>(slice) % inter_group_ranks_; }
  void lay_out();
  void plan_messages(std::size_t run);
  bool in_flight(std::size_t run);
  float* place(Parameters&, std::size_t chunk) const;
  void synchronize() const { whole_.gradients.memory().synchronize(); }
  // In the stream of the codec: 32 bits are the floats themselves.
  void copy(const float* from, float* to, std::size_t rows, std::size_t columns) const {
    floats_->encode(rows, columns, from, nullptr, reinterpret_cast<std::byte*>(to));
  }
  std::size_t section(std::size_t run, int owner) const {
    return plan_.buckets[run].section_begin[static_cast<std::size_t>(owner)];
  }

  Communicator& comm_;
  Parameters& whole_;
  const int me_, inter_group_ranks_;
  std::unique_ptr<Codec> floats_;
  ShardPlan plan_;
  Parameters mine_;
  std::size_t lists_known_at_ = 0;
  std::vector<Run> run_;
  // Number of runs, in order, that may receive (between arm() and store()), are encoded, and have been sent.
  bool armed_ = false;
  std::size_t listening_ = 0, written_ = 0, sent_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace tutti
