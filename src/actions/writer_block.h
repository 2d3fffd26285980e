// SPDX-License-Identifier: Apache-2.0
// writer_block.h -- the block writer = [ writerType = ... ] of the write action.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actions/action.h"
#include "train/htk_output.h"

namespace tutti::actions {

// Reads the block for these nodes. Mistakes land in context.problems: another writerType, a node without a block, lists
// that do not fit each other or the reader's.
std::map<std::string, HtkOutputOptions> read_writer_block(const ActionContext&, const std::vector<std::string>& nodes);

}  // namespace tutti::actions
