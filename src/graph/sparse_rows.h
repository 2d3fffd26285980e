// SPDX-License-Identifier: Apache-2.0
// sparse_rows.h -- the rows of a weight that the sparse inputs of a minibatch use. Listed before the forward pass, so
// that a gradient exchange can send the lists while the network computes.
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
  // A sparse input that is multiplied with the weight of `slice`; each of its indices uses `rows` consecutive rows.
  struct Source {
    std::size_t slice = 0;
    std::string input;
    std::size_t rows = 1;
    std::size_t gathered = none;  // the tensor with the columns of all ranks; none: this rank's share
  };
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  void bind(std::vector<Source> sources, Parameters&);
  // Zeroes the gradients of all listed rows, in the backend's stream, then lists the rows of this share.
  void list(const std::vector<StreamInfo>&, const Batch&, Parameters&, Backend&);
  // The same for weights that this rank holds a part of; `inputs` by tensor. After the first part of a share nothing is
  // zeroed, and the rows of the other parts are added.
  void list_gathered(bool first_part, std::span<const SparseView> inputs, Parameters&, Backend&);

 private:
  template <class Add>
  void list(bool gathered, bool first_part, Parameters&, Backend&, const Add&);
  void add(std::span<const std::int32_t> indices, std::size_t rows);

  std::vector<Source> sources_;  // ordered by slice
  RowSet set_;
};

}  // namespace tutti::graph
