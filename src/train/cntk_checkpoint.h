// SPDX-License-Identifier: Apache-2.0
// cntk_checkpoint.h -- runs that go on from a checkpoint of CNTK: the state of the run, and that of the optimizer in
// the terms of ours.
#pragma once

#include "train/checkpoint.h"

namespace tutti {

// Whether the point's state is CNTK's. Collective; rank 0 looks.
bool has_cntk_state(const ResumePoint&, Communicator&);
// As load_state(). The optimizer must have the rule of the run that wrote the checkpoint. Collective.
CheckpointState load_cntk_state(const ResumePoint&, const Visit& optimizer, Communicator&);

}  // namespace tutti
