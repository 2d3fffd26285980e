// SPDX-License-Identifier: Apache-2.0
#include "config/changes.h"

#include <fmt/format.h>

#include "config/table.h"

namespace tutti::config {
namespace {

std::string in_brackets(std::string_view name, const std::string& inside, int indent) {
  const std::string lead(static_cast<std::size_t>(indent), ' ');
  if (inside.empty()) return fmt::format("{}{} = [ ]\n", lead, name);
  return fmt::format("{0}{1} = [\n{2}{0}]\n", lead, name, inside);
}

std::string changes(const Table& now, const Table& usual, int indent) {
  const std::string lead(static_cast<std::size_t>(indent), ' ');
  std::string out;
  for (const Row& r : now.rows) {
    const Row* const u = usual.row(r.key);
    if (!r.present) continue;
    if (!r.nested) {
      if (!u || u->value != r.value) out += fmt::format("{}{} = {}\n", lead, r.key, r.value);
      continue;
    }
    const Table none, &inner = u && u->nested ? *u->nested : none;
    std::string inside;
    if (!r.named) inside = changes(*r.nested, inner, indent + 2);
    for (const auto& [name, member] : r.members)
      inside += in_brackets(name, changes(*member, inner, indent + 4), indent + 2);
    if (!inside.empty() || (u && !u->present)) out += in_brackets(r.key, inside, indent);
  }
  return out;
}

}  // namespace

std::string dump_changes(std::string_view name, const std::function<void(Fields&)>& now,
                         const std::function<void(Fields&)>& usual, int indent) {
  const std::string inside = changes(*tabulate(now), *tabulate(usual), indent + 2);
  return inside.empty() ? "" : in_brackets(name, inside, indent);
}

}  // namespace tutti::config
