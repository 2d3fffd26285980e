// SPDX-License-Identifier: Apache-2.0
// changes.h -- what a user has set: the options of a block that differ from their defaults, for --check.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tutti/config.h"

namespace tutti::config {

// As dump_fields() of `now`, but only the lines that differ from `usual`. Empty when all are alike.
std::string dump_changes(std::string_view name, const std::function<void(Fields&)>& now,
                         const std::function<void(Fields&)>& usual, int indent = 0);

}  // namespace tutti::config
