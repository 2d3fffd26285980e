// SPDX-License-Identifier: Apache-2.0
#include "actions/binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "comm/agreement.h"

namespace tutti::actions {

std::string core_list(const std::vector<unsigned>& ascending) {
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < ascending.size();) {
    std::size_t last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    runs.push_back(first == last ? fmt::format("{}", ascending[first])
                                 : fmt::format("{}-{}", ascending[first], ascending[last]));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(runs, ","));
}

std::vector<std::string> binding_lines(Communicator& world, const std::string& cores) {
  std::array<char, 96> mine{};  // a longer list is cut
  std::copy_n(cores.begin(), std::min(cores.size(), mine.size() - 1), mine.begin());
  const auto all = from_all(world, mine);
  const auto hosts = hosts_of(world);
  std::vector<std::pair<std::string, std::vector<std::string>>> by_host;
  for (std::size_t r = 0; r < all.size(); ++r) {
    auto at = std::find_if(by_host.begin(), by_host.end(), [&](const auto& h) { return h.first == hosts[r]; });
    if (at == by_host.end()) at = by_host.insert(at, {hosts[r], {}});
    const std::string text(all[r].data());
    const bool single = text.find_first_of(",-") == text.npos;
    at->second.push_back(fmt::format("rank {} on core{} {}", r, single ? "" : "s", text));
  }
  std::vector<std::string> lines;
  for (const auto& [host, ranks] : by_host)
    lines.push_back(fmt::format("  {:10} {}: {}", lines.empty() ? "binding" : "", host, fmt::join(ranks, ", ")));
  return lines;
}

}  // namespace tutti::actions
