// SPDX-License-Identifier: Apache-2.0
// help.h -- what the program tells about itself: its version and parts, and every option block by name.
#pragma once

#include <string>

#include "config/command_line.h"
#include "config/top_level.h"

namespace tutti::actions {

std::string usage_text();    // flags, words and the names of all blocks
std::string version_text();  // with what is built in
std::string compute_text();  // instruction set and library of the kernels
// What a name means: a block with its options, a function or layer of a network language, a single key and the block it
// stands in. "list" names them all; an unknown name throws, with near ones.
std::string help_text(const std::string& topic);

}  // namespace tutti::actions
