// SPDX-License-Identifier: Apache-2.0
// agreement.h -- whether every rank of a communicator can continue, for conditions that a single rank may fail.
#pragma once

#include "tutti/communicator.h"

namespace tutti {

// True on every rank when `mine` is true on every rank. Collective.
bool all_agree(Communicator&, bool mine);

}  // namespace tutti
