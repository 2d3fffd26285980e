// SPDX-License-Identifier: Apache-2.0
// cache_folder.h -- the folder for measurements that are kept between runs. Its files can be deleted at any time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tutti {

// The folder that TUTTI_CACHE names; without it XDG_CACHE_HOME/tutti or ~/.cache/tutti. Nullopt if TUTTI_CACHE is
// empty or nothing is set: nothing is kept then. It may not exist yet. --write-under does not restrict it, as no config
// names it.
std::optional<std::filesystem::path> cache_folder();

// Appends lines to a file of that folder, in one write, so that lines of several processes do not mix. Returns whether
// they are written.
bool append_to_cache(const std::filesystem::path&, const std::string& lines);

}  // namespace tutti
