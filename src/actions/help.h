// SPDX-License-Identifier: Apache-2.0
// help.h -- what the program tells about itself: its version and parts, and every option block by name.
#pragma once

#include <string>

#include "config/command_line.h"
#include "config/top_level.h"

namespace tutti::actions {

std::string version_text();  // with what is built in
std::string compute_text();  // instruction set and library of the kernels
// The options of a block, action, reader or optimizer; "list" or an unknown name names them all (the latter throws).
std::string help_text(const std::string& topic);

}  // namespace tutti::actions
