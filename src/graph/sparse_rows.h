// SPDX-License-Identifier: Apache-2.0
// sparse_rows.h -- which rows of a weight a minibatch's sparse inputs touch. Listed before the forward pass, so that a
// gradient exchange can tell the other ranks while the network computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/row_set.h"
#include "tutti/backend.h"
#include "tutti/parameters.h"
#include "tutti/reader.h"

namespace tutti::graph {

class SparseRows {
 public:
  // A sparse input that the weight of `slice` is multiplied with; each of its indices touches `rows` rows in a row.
  struct Source {
    std::size_t slice = 0;
    std::string input;
    std::size_t rows = 1;
  };
  void bind(std::vector<Source> sources, Parameters&);
  // Zeroes the gradients of all rows that are listed, in the backend's queue, then lists those of this share.
  void list(const std::vector<StreamInfo>&, const Batch&, Parameters&, Backend&);

 private:
  void add(const StreamData&, std::size_t rows);

  std::vector<Source> sources_;  // ordered by slice
  RowSet set_;
};

}  // namespace tutti::graph
