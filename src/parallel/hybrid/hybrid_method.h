// SPDX-License-Identifier: Apache-2.0
// hybrid_method.h -- a parallel method for networks with layers that several ranks compute together: the gradients and
// weights that every rank holds are exchanged as the method of ParallelTrain says; those of shards are complete
// without an exchange, except among groups, where the ranks with the same shards exchange them.
#pragma once

#include "tutti/parallel_method.h"

namespace tutti {

// `common`: for the slices without a shard. `shards`: for the others.
ParallelMethod make_hybrid(ParallelMethod common, ParallelMethod shards);

}  // namespace tutti
