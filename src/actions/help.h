// SPDX-License-Identifier: Apache-2.0
// help.h -- help texts: version, usage, and every option block by name.
#pragma once

#include <string>

#include "config/command_line.h"
#include "config/top_level.h"

namespace tutti::actions {

std::string usage_text();    // flags, words and the names of all blocks
std::string version_text();  // with what is built in
std::string compute_text();  // instruction set and library of the kernels
// Explains a name: a block with its options, a function or layer of a network language, or a key with its block. "list"
// lists all names. An unknown name throws, with suggestions.
std::string help_text(const std::string& topic);

}  // namespace tutti::actions
