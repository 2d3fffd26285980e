// SPDX-License-Identifier: Apache-2.0
// host.h -- the name of this host, and files written in one go.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace tutti {

std::string host_name();

// Creates or replaces the file and calls `write`. Throws an Error if the file cannot be opened or written completely.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace tutti
