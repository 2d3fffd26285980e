// SPDX-License-Identifier: Apache-2.0
// replica_check.h -- weights that should be equal on all ranks are compared, by a hash, now and then.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/parameters.h"

namespace tutti {

struct Training;

// By parameter: the ranks whose values differ from those of most, and the first of most. Without a majority `right` is
// -1, and `wrong` holds all ranks.
struct ReplicaDifference {
  std::size_t slice = 0;
  std::vector<int> wrong;
  int right = -1;
};
// Hashes the weights and compares them over the ranks. The statistics of a rank's data are not among them. Collective.
std::vector<ReplicaDifference> compare_replicas(const Parameters&, Communicator&);

// After a step: compares the weights if verifyReplicas says so, where they are equal between steps or the last exchange
// left common ones. `before`: the minibatches of the epoch before the step; with a work queue a step passes several.
// Throws CodedError(kReplicasDiffer), or takes the weights of most ranks (onDivergence). Collective.
void verify_replicas(Training&, std::int64_t before);
// The same for the own weights of the ranks of a group that make every update together. Collective over the group.
void verify_group_weights(Training&);
// The same for the common weights that are shown, before they are saved.
void verify_common_weights(Training&);
// Every rank takes the optimizer's state of rank `from`, where all of them should have the same. Collective.
void copy_optimizer(Training&, int from);

}  // namespace tutti
