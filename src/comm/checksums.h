// SPDX-License-Identifier: Apache-2.0
// checksums.h -- a communicator whose messages carry a checksum, which the receiver verifies. TCP's own has 16 bits and
// ends at the network cards: memory of hosts and cards between them is not covered.
#pragma once

#include <memory>

#include "tutti/communicator.h"

namespace tutti {

enum class ChecksummedMessages { none, between_hosts, all };

// `comm` must outlive it. Shared memory, barriers and the sums of the MPI library are as those of `comm`. A wrong
// checksum throws CodedError(kMessageDamaged). Collective.
std::unique_ptr<Communicator> make_checksummed(Communicator& comm, ChecksummedMessages);

// For tests: flips a bit of the next message that this process receives with a checksum.
void damage_next_message();

}  // namespace tutti
