// SPDX-License-Identifier: Apache-2.0
// placed_training.h -- ModelParallel and shardOptimizer of a training: which ranks hold what (docs/methods/hybrid.md).
#pragma once

#include "actions/action.h"
#include "train/training.h"

namespace tutti::actions {

// The ranks that compute divided layers together: all, or those of a group. Refuses what cannot be divided. Where
// placements are chosen, measures the link, and products of this type. Collective.
void make_layer_ranks(const ActionContext&, ComputeType, Training&);
// Where each dense layer of the graph lies, for a network that is made next.
void place_layers(const ActionContext&, Training&, const graph::Graph&, NetworkOptions&);
// The method of the block for what every rank holds; what it holds alone needs no exchange, except among groups.
ParallelMethod make_placed_method(const ParallelTrainOptions&, Training&, Communicator& world);
// Whether parts of layers or of the optimizer belong to a rank, so that no rank can train on its own.
bool needs_all_ranks(const Training&);
// For a warm start of such ranks: DataParallelSGD in 32 bits, in every group and between them.
ParallelTrainOptions summing_in_step(ParallelTrainOptions);
// Part of the name of the exchange's state, which is not that of another placement. With layer_ranks.
std::string divided_layers(const Training&);
void check_shard_optimizer(const ActionContext&, Training&);
std::unique_ptr<Optimizer> make_placed_optimizer(Training&);

}  // namespace tutti::actions
