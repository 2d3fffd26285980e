// SPDX-License-Identifier: Apache-2.0
// row_sparse_broadcast.h -- broadcasts the rows of one sparse gradient from the rank of a group that exchanged them.
#pragma once

#include <memory>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/parameters.h"

namespace tutti {

class RowSparseBroadcast {
 public:
  // Uses `tag` and `tag + 1`.
  RowSparseBroadcast(Communicator& group, Parameters& whole, std::size_t slice, int root, int tag);

  void arm();
  // Sends the rows that `from` lists for the slice, which must have the same shape there.
  void send(const Parameters& from);
  bool try_complete();
  void complete();
  void store();  // writes what was received to the whole
  void flush();
  std::int64_t bytes_and_reset();

 private:
  std::size_t bytes_for(std::size_t rows) const;
  void receive_rows();

  Communicator& comm_;
  Parameters& whole_;
  const std::size_t slice_, rows_, row_size_;
  const int root_;
  std::int64_t count_ = 0;                // number of rows in the message
  std::unique_ptr<std::byte[]> message_;  // their indices, then their values; unwritten pages use no memory
  std::vector<std::unique_ptr<Transfer>> heads_, bodies_;
  bool armed_ = false, here_ = false;
  std::int64_t bytes_ = 0;
};

}  // namespace tutti
