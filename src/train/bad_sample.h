// SPDX-License-Identifier: Apache-2.0
// bad_sample.h -- which sample of a minibatch makes the criterion NaN.
#pragma once

#include <string>

#include "tutti/communicator.h"
#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti {

// "sample 17 of this rank's share, train.ctf:1234" for the first sequence whose data or criterion are not finite; "" if
// none is on its own (the weights hold NaN, or truncated sequences). Evaluates parts of the share again. Collective on
// the ranks that compute layers together, if any.
std::string find_bad_sample(Network&, Reader&, const Batch&, Communicator* layer_ranks);

}  // namespace tutti
