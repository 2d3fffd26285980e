// SPDX-License-Identifier: Apache-2.0
// row_sparse_all_reduce.h -- sums one sparse gradient over the ranks. The ranks tell each other which rows they
// sparse_rows (while the network still computes); then the values of those rows take the way of all_reduce.h: encoded
// to the owner of each row, summed there in rank order, encoded to all. Everybody knows all lists, so everybody knows
// the length of every message. With 32 bits the sums have the bits of the dense exchange, and no more values travel
// than there; residuals of rows that a rank does not list wait at that rank.
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

// What quantisation has not delivered yet, in the layout of the gradients; null buffers where nothing is ever lost.
struct Residuals {
  float* local = nullptr;  // of this rank's gradients
  float* owner = nullptr;  // of the sums, at the rows this rank owns
  // Where it is 0, dense gradients are 0 by agreement, and quantisation leaves no residual; may be null.
  const float* mask = nullptr;
};

class RowSparseAllReduce {
 public:
  // Uses the tags `tag` and `tag + 1`. Bytes are counted in `stats`.
  RowSparseAllReduce(Communicator&, Parameters&, const Codec&, std::size_t slice, int tag, ExchangeStats& stats);

  // In this order; decode() may also come after the next encode() and before the next launch().
  void arm();                       // the others' lists may come in
  void announce(const Residuals&);  // this rank's list stands in Parameters::sparse_rows
  void encode(const Residuals&);
  void launch();
  bool advance(const Residuals&);  // drives everything on the way; whether this rank's part has been summed
  bool finished();                 // the sums of all parts are here
  void decode();                   // into Parameters::gradients and Parameters::sparse_rows
  void flush();                    // own messages have left

  void keep_own_rows(float* owner_residual) const;  // zeroes those of other owners

 private:
  // Rows of one block belong to one rank: a list need not be known to find an owner, and runs of rows stay together.
  static constexpr std::uint32_t kBlock = 16;
  // A list starts with its length, its form and as many rows as the first message has capacity for.
  static constexpr std::size_t kFirstRows = 254;
  enum class Form : std::uint32_t { list, bitmap, all };

  // What one rank says; index me_ for this rank's own.
  struct Peer {
    std::vector<std::uint32_t> head, rest;  // messages
    std::unique_ptr<Transfer> head_transfer, rest_transfer, values, sums;
    bool rest_started = false;
    std::vector<std::uint32_t> list;  // what the messages say
    std::vector<std::uint32_t> mine;  // the part of it that this rank owns
    std::size_t next = 0;             // in `mine`, while summing
    std::size_t section = 0;          // byte offset of the part that this peer owns
    std::size_t section_rows = 0;
  };
  // Encoded rows; pages that are never written take no memory.
  using Bytes = std::unique_ptr<std::byte[]>;

  int owner(std::uint32_t row) const { return static_cast<int>(row / kBlock) % ranks_; }
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

  // Rows as contiguous values: columns lie so already, rows are copied.
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
  std::vector<std::unique_ptr<Transfer>> send_heads_, send_rests_, send_values_, send_sums_;  // by rank, null for me
  Bytes own_;     // this rank's version, a section per owner
  Bytes others_;  // the other ranks' versions of this rank's section, a slot per rank
  Bytes sums_;    // encoded sums, a section per owner
  RowSet set_;
  std::vector<std::uint32_t> union_, union_mine_;
  std::vector<std::size_t> encoded_;  // by owner, rows of this rank
  std::vector<std::size_t> count_;    // by owner, scratch
  FloatBuffer values_workspace_, residual_workspace_, sum_workspace_;
  enum class Stage { idle, armed, launched, merged, summed } stage_ = Stage::idle;
};

}  // namespace tutti
