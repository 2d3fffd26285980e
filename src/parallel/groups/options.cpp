// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "config/text.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr const char* kForms = "write byNode, size:4 (groups of four ranks) or n:2 (two groups)";

std::optional<GroupOptions> parse(const std::string& written) {
  const std::string text = config::to_lower(written);
  if (text.empty() || text == "none") return GroupOptions{};
  if (text == "bynode") return GroupOptions{GroupOptions::Kind::by_node, 0};
  for (const auto& [word, kind] :
       {std::pair("size:", GroupOptions::Kind::of_size), std::pair("n:", GroupOptions::Kind::number)}) {
    if (!text.starts_with(word)) continue;
    GroupOptions o{kind, 0};
    const char* first = text.data() + std::strlen(word);
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, o.count);
    if (error == std::errc() && end == last && o.count >= 1 && o.count <= 1'000'000) return o;
  }
  return std::nullopt;
}

// A name for each rank; ranks with equal names form a group.
std::vector<std::string> names_of_groups(const GroupOptions& o, Communicator& comm) {
  const std::int64_t ranks = comm.size();
  std::vector<std::string> names(static_cast<std::size_t>(ranks));
  if (o.kind == GroupOptions::Kind::by_node) return hosts_of(comm);
  for (std::int64_t r = 0; r < ranks; ++r) {
    const std::int64_t group = o.kind == GroupOptions::Kind::of_size ? r / o.count : r * o.count / ranks;
    names[static_cast<std::size_t>(r)] = std::to_string(group);
  }
  return names;
}

}  // namespace

void GroupOptions::describe(config::Fields& f) {
  std::string written = any() ? text() : "none";
  f("groups", written,
    "divide the ranks into groups: byNode, size:4 or n:2; parallelizationMethod then works between the groups; none = "
    "no groups");
  if (const auto parsed = parse(written))
    *this = *parsed;
  else
    f.problem("groups", fmt::format("'{}' names no groups", written), kForms);
}

std::string GroupOptions::text() const {
  switch (kind) {
    case Kind::by_node:
      return "byNode";
    case Kind::of_size:
      return fmt::format("size:{}", count);
    case Kind::number:
      return fmt::format("n:{}", count);
    case Kind::none:
      break;
  }
  return "none";
}

int GroupLayout::smallest() const { return *std::min_element(sizes.begin(), sizes.end()); }

bool GroupLayout::even() const { return smallest() == *std::max_element(sizes.begin(), sizes.end()); }

std::string GroupLayout::text() const {
  const auto ranks = [](int n) { return fmt::format("{} rank{}", n, n == 1 ? "" : "s"); };
  if (even()) return fmt::format("{} group{} of {}", groups(), groups() == 1 ? "" : "s", ranks(sizes[0]));
  std::string all;
  for (std::size_t g = 0; g < sizes.size() && g < 8; ++g) all += fmt::format("{}{}", g ? " + " : "", sizes[g]);
  return fmt::format("{} groups of {}{} ranks", groups(), all, sizes.size() > 8 ? " + ..." : "");
}

GroupLayout group_by_name(const std::vector<std::string>& names, int rank) {
  GroupLayout layout;
  std::vector<std::string> known;
  for (std::size_t r = 0; r < names.size(); ++r) {
    const auto at = static_cast<std::size_t>(std::find(known.begin(), known.end(), names[r]) - known.begin());
    if (at == known.size()) known.push_back(names[r]), layout.sizes.push_back(0);
    if (r == static_cast<std::size_t>(rank)) layout.group = static_cast<int>(at), layout.local = layout.sizes[at];
    ++layout.sizes[at];
    if (names[r] == names[static_cast<std::size_t>(rank)]) layout.members.push_back(static_cast<int>(r));
  }
  return layout;
}

void check_groups(const GroupOptions& o, int ranks) {
  if (o.kind == GroupOptions::Kind::number && o.count > ranks)
    throw ConfigError({},
                      fmt::format("groups = {} asks for {} groups, and there {}", o.text(), o.count,
                                  ranks == 1 ? "is 1 rank" : fmt::format("are {} ranks", ranks)),
                      fmt::format("groups = n:{} or less, or start more ranks", ranks));
}

GroupLayout lay_out_groups(const GroupOptions& o, Communicator& comm) {
  check_groups(o, comm.size());
  return group_by_name(names_of_groups(o, comm), comm.rank());
}

}  // namespace tutti
