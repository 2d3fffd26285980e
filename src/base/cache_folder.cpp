// SPDX-License-Identifier: Apache-2.0
#include "base/cache_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

namespace tutti {

std::optional<std::filesystem::path> cache_folder() {
  if (const char* named = std::getenv("TUTTI_CACHE")) {
    if (*named == 0) return std::nullopt;
    return named;
  }
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); caches && *caches)
    return std::filesystem::path(caches) / "tutti";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "tutti";
  return std::nullopt;
}

bool append_to_cache(const std::filesystem::path& path, const std::string& lines) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const bool written = write(file, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
  close(file);
  return written;
}

}  // namespace tutti
