// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace tutti {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::uint64_t>;

// Finds "name value" or "name: value kB".
Bytes value_in(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::string_view rest = std::string_view(line).substr(name.size());
    if (!rest.starts_with(' ') && !rest.starts_with(':')) continue;
    const bool kilobytes = line.ends_with(" kB");
    return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * (kilobytes ? 1024 : 1);
  }
  return {};
}

// Nothing for "max", too.
Bytes number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t n = 0;
  return file >> n ? Bytes(n) : Bytes();
}

std::uint64_t above(std::uint64_t most, std::uint64_t used) { return most - std::min(most, used); }

struct Version {
  const char *controller, *mount, *limit, *usage, *inactive, *active, *swap_limit, *swap_usage;
};
constexpr Version versions[] = {
    {"", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file", "memory.swap.max",
     "memory.swap.current"},
    {"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
     "total_active_file", "", ""},
};

// Page cache is freed on demand.
Bytes left_in_group(const fs::path& group, const Version& v, std::uint64_t swap) {
  const Bytes limit = number_in(group / v.limit), usage = number_in(group / v.usage);
  if (!limit || !usage) return {};
  const std::uint64_t files =
      value_in(group / "memory.stat", v.inactive).value_or(0) + value_in(group / "memory.stat", v.active).value_or(0);
  if (const Bytes most = *v.swap_limit ? number_in(group / v.swap_limit) : Bytes())
    swap = std::min(swap, above(*most, number_in(group / v.swap_usage).value_or(0)));
  return above(*limit, above(*usage, files)) + swap;
}

// A line of /proc/self/cgroup is "number:controllers:path". In a container the path may be that of the host, of which
// only the end is visible: then the mounted directory itself is the container's group.
Bytes left_in_groups(const fs::path& root, std::uint64_t swap) {
  Bytes least;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    for (const Version& v : versions) {
      if (controllers.find(fmt::format(",{},", v.controller)) == std::string::npos) continue;
      fs::path within = fs::path(line.substr(second + 1)).relative_path();
      for (bool more = true; more; within = within.parent_path()) {
        more = !within.empty();
        if (const Bytes left = left_in_group(root / v.mount / within, v, swap))
          least = std::min(*left, least.value_or(*left));
      }
    }
  }
  return least;
}

// The rest below ulimit -v. The first number of statm is the number of mapped pages.
Bytes left_in_address_space(const fs::path& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const Bytes pages = number_in(root / "proc/self/statm");
  if (!pages) return {};
  return above(limit.rlim_cur, *pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace

std::optional<std::uint64_t> available_memory(const fs::path& root) {
  const std::uint64_t swap = value_in(root / "proc/meminfo", "SwapFree").value_or(0);
  Bytes left = value_in(root / "proc/meminfo", "MemAvailable");
  if (left) *left += swap;
  for (const Bytes other : {left_in_groups(root, swap), left_in_address_space(root)})
    if (other) left = std::min(*other, left.value_or(*other));
  return left;
}

std::string available_text(std::uint64_t needed) {
  const Bytes left = available_memory();
  return left && *left < needed ? fmt::format(", {} are left to this process", bytes_text(static_cast<double>(*left)))
                                : "";
}

std::string bytes_text(double n) {
  for (const char* unit : {"B", "kB", "MB", "GB"}) {
    if (n < 1000) return fmt::format("{:.{}f} {}", n, unit[0] == 'B' ? 0 : 2, unit);
    n /= 1000;
  }
  return fmt::format("{:.2f} TB", n);
}

}  // namespace tutti
