// SPDX-License-Identifier: Apache-2.0
#include "base/write_root.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/exit_codes.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as in Linux

fs::path& root() {
  static fs::path path;
  return path;
}

// Where the links lead; "" if that cannot be told. A link to a file that does not exist counts, as opening it for
// writing makes that file.
fs::path resolved(const fs::path& path) {
  std::error_code failed, ignored;
  fs::path at = fs::absolute(path, failed);
  if (!failed) at = fs::weakly_canonical(at, failed);
  for (int links = 0; !failed && fs::is_symlink(fs::symlink_status(at, ignored)); ++links) {
    if (links == kMostLinks) return {};
    const fs::path to = fs::read_symlink(at, failed);
    if (!failed) at = fs::weakly_canonical(at.parent_path() / to, failed);
  }
  return failed ? fs::path() : at;
}

}  // namespace

void set_write_root(const std::string& directory) { root() = fs::canonical(directory); }

std::string outside_write_root(const std::string& path) {
  if (root().empty()) return {};
  const fs::path whole = resolved(path);
  if (std::mismatch(root().begin(), root().end(), whole.begin(), whole.end()).first == root().end()) return {};
  const std::string real = whole.string(), leads = real == path || real.empty() ? "" : fmt::format(" ({})", real);
  return fmt::format("'{}'{} is outside of '{}', and --write-under allows no other place", path, leads,
                     root().string());
}

void require_in_write_root(const std::string& path) {
  if (const std::string why = outside_write_root(path); !why.empty())
    throw CodedError(kWrongConfiguration, fmt::format("{}\nfix: {}", why, kInWriteRoot));
}

}  // namespace tutti
