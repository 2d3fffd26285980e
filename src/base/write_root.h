// SPDX-License-Identifier: Apache-2.0
// write_root.h -- --write-under DIR: the only directory below which this process may write. All that writes files which
// a config can name asks here.
#pragma once

#include <string>

namespace tutti {

// Before any file is written and any thread runs.
void set_write_root(const std::string& directory);
// Why this path may not be written: symbolic links, also to what does not exist, lead it out of the directory. "" if it
// may, or if there is no such directory.
std::string outside_write_root(const std::string& path);
// Throws a CodedError with that text.
void require_in_write_root(const std::string& path);

constexpr const char* kInWriteRoot = "name a file below that directory, or give --write-under another directory";

}  // namespace tutti
