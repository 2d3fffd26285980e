// SPDX-License-Identifier: Apache-2.0
// makers.h -- the kernel constructors of this folder, for the table.
#pragma once

#include <memory>

#include "graph/kernel.h"

namespace tutti::graph {

std::unique_ptr<Kernel> make_map(UnaryOp, Instruction);
std::unique_ptr<Kernel> make_combine(PointOp, Instruction);
std::unique_ptr<Kernel> make_bias_activation(Instruction);
std::unique_ptr<Kernel> make_dropout(Instruction);
std::unique_ptr<Kernel> make_times(bool transposed, Instruction);
std::unique_ptr<Kernel> make_reduce(Instruction);
std::unique_ptr<Kernel> make_softmax(SoftmaxOp, Instruction);
std::unique_ptr<Kernel> make_loss(LossOp, Instruction);
std::unique_ptr<Kernel> make_ranking(bool first_only, Instruction);
std::unique_ptr<Kernel> make_class_loss(Instruction);
std::unique_ptr<Kernel> make_slice(Instruction);
std::unique_ptr<Kernel> make_row_stack(Instruction);
std::unique_ptr<Kernel> make_transpose(Instruction);
std::unique_ptr<Kernel> make_convolution(Instruction);
std::unique_ptr<Kernel> make_local_convolution(Instruction);
std::unique_ptr<Kernel> make_pooling(Instruction);
std::unique_ptr<Kernel> make_unpooling(Instruction);
std::unique_ptr<Kernel> make_reorder(Instruction);
std::unique_ptr<Kernel> make_region_pooling(Instruction);
std::unique_ptr<Kernel> make_batch_normalization(Instruction);
std::unique_ptr<Kernel> make_response_normalization(Instruction);
std::unique_ptr<Kernel> make_lstm(Instruction);
std::unique_ptr<Kernel> make_gru(Instruction);
std::unique_ptr<Kernel> make_delay(bool past, Instruction);
std::unique_ptr<Kernel> make_time_reverse(Instruction);
std::unique_ptr<Kernel> make_shift_samples(Instruction);
std::unique_ptr<Kernel> make_slice_time(Instruction);
std::unique_ptr<Kernel> make_reconcile(Instruction);
std::unique_ptr<Kernel> make_broadcast(Instruction);
std::unique_ptr<Kernel> make_gather(Instruction);
std::unique_ptr<Kernel> make_scatter(Instruction);
std::unique_ptr<Kernel> make_zero_sequence(Instruction);
std::unique_ptr<Kernel> make_where(Instruction);
std::unique_ptr<Kernel> make_packed_index(Instruction);

// The activation after a product, from the attribute of that name; copy if there is none.
UnaryOp activation(const Node& node);

// The middle axis of `o` along `axis` (counted from 0), or the whole sample for none.
Extent extent_along(const Run& run, const Operand& o, int axis);

}  // namespace tutti::graph
