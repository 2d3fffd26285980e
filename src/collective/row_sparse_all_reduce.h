// SPDX-License-Identifier: Apache-2.0
// row_sparse_all_reduce.h -- sums one row-sparse gradient over the ranks. Ranks first exchange the lists of their rows,
// while the network still computes. Then the values of those rows are exchanged as in all_reduce.h: encoded for the
// owner of each row, summed there in rank order, encoded for all. All ranks know all lists and so the length of every
// message. In 32 bits the sums are bit for bit those of the dense exchange. Residuals of rows that a rank does not list
// wait at that rank.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/row_set.h"
#include "tutti/codec.h"
#include "tutti/communicator.h"
#include "tutti/exchange_stats.h"
#include "tutti/parameters.h"

namespace tutti {

// Quantisation errors not delivered yet, in the layout of the gradients; null buffers if the codec is lossless.
struct Residuals {
  float* local = nullptr;  // of this rank's gradients
  float* owner = nullptr;  // of the sums, in the rows that this rank owns
  // Where it is 0, dense gradients are 0 on all ranks and quantisation leaves no residual; may be null.
  const float* mask = nullptr;
};

class RowSparseAllReduce {
 public:
  // Uses tags `tag` and `tag + 1`. Counts bytes in `stats`.
  RowSparseAllReduce(Communicator&, Parameters&, const Codec&, std::size_t slice, int tag, ExchangeStats& stats);

  // Call in this order. decode() may also come after the next encode() and before the next launch().
  void arm();                       // posts receives for the lists of the others
  void announce(const Residuals&);  // this rank's list is in Parameters::sparse_rows
  void encode(const Residuals&);
  void launch();
  bool advance(const Residuals&);  // makes progress; returns whether this rank's part has been summed
  bool finished();                 // the sums of all parts have arrived
  void decode();                   // into Parameters::gradients and Parameters::sparse_rows
  void flush();                    // own messages have been sent

  void keep_own_rows(float* owner_residual) const;  // zeroes the rows of other owners

 private:
  // All rows of a block belong to one rank, so the owner of a row does not depend on the lists and runs stay together.
  static constexpr std::uint32_t kBlock = 16;
  // A list starts with its length, its encoding and as many rows as fit into the first message.
  static constexpr std::size_t kFirstRows = 254;
  enum class Form : std::uint32_t { list, bitmap, all };

  // The data of one rank; index me_ is this rank, which has no transfers.
  struct Peer {
    std::vector<std::uint32_t> head, rest;                                 // messages
    std::unique_ptr<Transfer> head_transfer, rest_transfer, values, sums;  // received
    std::unique_ptr<Transfer> send_head, send_rest, send_values, send_sums;
    bool rest_started = false;
    std::vector<std::uint32_t> list;  // what the messages say
    std::vector<std::uint32_t> mine;  // the part of it that this rank owns
    std::size_t next = 0;             // in `mine`, while summing
    std::size_t section = 0;          // byte offset of the part that this peer owns
    std::size_t section_rows = 0;
    std::size_t encoded = 0;  // rows of this rank that the peer owns
    std::size_t count = 0;    // of the union, rows that the peer owns; scratch
  };
  // Encoded rows. Pages that are never written use no memory.
  using Bytes = std::unique_ptr<std::byte[]>;

  int owner(std::uint32_t row) const { return static_cast<int>(row / kBlock) % ranks_; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Peer& own() { return peer(me_); }
  // Calls use(peer) for the other ranks. Rank r starts with r + 1, so that not all send to the same rank at once.
  template <class Use>
  void each_other(const Use& use) {
    for (int step = 1; step < ranks_; ++step) use(peer((me_ + step) % ranks_));
  }
  void count_sent(std::size_t rows) {
    stats_.bytes_sent += static_cast<std::int64_t>(rows * row_bytes_);
    stats_.values_sent += static_cast<std::int64_t>(rows * row_size_);
  }
  std::size_t head_words() const;
  static std::size_t rest_words(Form, std::size_t count, std::size_t rows);
  void plan_messages(int tag);
  void write_list();
  void read_list(Peer&) const;
  bool lists_are_here();
  void merge();
  void sum(const Residuals&);
  bool present(Peer&, std::uint32_t row, std::uint32_t n, bool& partly) const;
  void sum_run(std::uint32_t row, std::uint32_t n, const Residuals&, std::byte* to);
  std::uint32_t run_at(const std::vector<std::uint32_t>& list, std::size_t at) const;

  // Rows as contiguous values. Columns are contiguous already; rows are copied.
  const float* gather(const float* base, std::uint32_t row, std::uint32_t n, FloatBuffer& workspace) const;
  void scatter(const float* values, std::uint32_t row, std::uint32_t n, float* base) const;
  void encode_run(std::uint32_t row, std::uint32_t n, const float* values, float* residuals, std::byte* out);

  Communicator& comm_;
  Parameters& parameters_;
  const Codec& codec_;
  const std::size_t slice_, offset_, rows_, row_size_, row_bytes_;
  const int me_, ranks_;
  ExchangeStats& stats_;

  std::vector<Peer> peers_;
  Bytes own_;     // this rank's version, a section per owner
  Bytes others_;  // the other ranks' versions of this rank's section, a slot per rank
  Bytes sums_;    // encoded sums, a section per owner
  RowSet set_;
  std::vector<std::uint32_t> union_, union_mine_;
  FloatBuffer values_workspace_, residual_workspace_, sum_workspace_;
  enum class Stage { idle, armed, launched, merged, summed } stage_ = Stage::idle;
};

}  // namespace tutti
