// SPDX-License-Identifier: Apache-2.0
// kernel_choices.h -- kernelChoices of a training: which library computes each large product (docs/kernels.md).
#pragma once

#include <string>

#include "actions/action.h"
#include "train/training.h"

namespace tutti::actions {

constexpr const char* kTimedKernels = "auto";
constexpr const char* kKernelsByShape = "none";

// `wanted`: one of these, or a file to take choices from; that of rank 0 counts. Takes them from that file, else from
// the checkpoint that the training resumes from, else from the cache, and times what is in none of them: on the first
// rank of those with the same processor and libraries. `share`: samples of a rank. Call it when the network is planned.
// Collective.
void choose_kernels(const ActionContext&, std::string wanted, ComputeType, std::int64_t share, Training&);

}  // namespace tutti::actions
