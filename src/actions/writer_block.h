// SPDX-License-Identifier: Apache-2.0
// writer_block.h -- the block writer = [ writerType = ... ] of the write action.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actions/action.h"
#include "train/htk_output.h"

namespace tutti::actions {

// Reads the block for these nodes. Adds mistakes to context.problems: an unknown writerType, a node without a block,
// lists whose lengths differ from each other or from the reader's.
std::map<std::string, HtkOutputOptions> read_writer_block(const ActionContext&, const std::vector<std::string>& nodes);

}  // namespace tutti::actions
