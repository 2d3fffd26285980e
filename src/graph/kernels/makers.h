// SPDX-License-Identifier: Apache-2.0
// makers.h -- how the kernels of this folder are made, by operation, and what they share.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "graph/kernel.h"

namespace tutti::graph {

using Makers = std::map<std::string, std::unique_ptr<Kernel> (*)(Instruction)>;

// A kernel of class K, whose constructor takes these settings and the instruction.
template <class K, auto... settings>
std::unique_ptr<Kernel> make(Instruction i) {
  return std::make_unique<K>(settings..., std::move(i));
}

// Every file adds its operations. Those without a kernel are lowered to others in lower.cpp.
void list_delays(Makers&);
void list_elementwise(Makers&);
void list_images(Makers&);
void list_local_convolution(Makers&);
void list_normalization(Makers&);
void list_products(Makers&);
void list_ranking(Makers&);
void list_largest_of_ranks(Makers&);
void list_ranks(Makers&);
void list_recurrent(Makers&);
void list_reductions(Makers&);
void list_sequences(Makers&);
void list_shape(Makers&);

// What a backend is told of an operation on images, for the columns that its result has now.
template <class T>
T with_columns(T op, std::size_t columns) {
  if constexpr (requires { op.extent; })
    op.extent.columns = columns;
  else
    op.columns = columns;
  return op;
}

// The activation after a product, from the attribute of that name; copy if there is none.
UnaryOp activation(const Node& node);

// The middle axis of `o` along `axis` (counted from 0), or the whole sample for none.
Extent extent_along(const Run& run, const Operand& o, int axis);

}  // namespace tutti::graph
