// SPDX-License-Identifier: Apache-2.0
// shell.h -- arguments that the shell has split: without quotes it ends a command at ';' and an argument at a blank.
#pragma once

#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::config {

// Finds arguments with open brackets or quotes and reports how to write them. Ignores flags. Returns, for each word,
// whether it is such an argument or a part of one.
std::vector<bool> check_arguments(const std::vector<std::string>& words, const std::vector<bool>& is_flag, Problems&);

}  // namespace tutti::config
