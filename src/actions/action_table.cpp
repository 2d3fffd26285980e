// SPDX-License-Identifier: Apache-2.0
// The table of actions. A new action is a maker, a describe() and a row here.
#include <algorithm>

#include "actions/action.h"
#include "config/text.h"

namespace tutti::actions {

const std::vector<ActionEntry>& action_table() {
  static const std::vector<ActionEntry> table = {
      train_action(), test_action(),       cv_action(),        write_action(), edit_action(), batch_statistics_action(),
      svd_action(),   word_class_action(), dump_node_action(),
  };
  return table;
}

const ActionEntry* find_action(const std::string& name) {
  const auto same = [&](const std::string& other) { return config::equal_keys(name, other); };
  for (const auto& entry : action_table())
    if (std::any_of(entry.names.begin(), entry.names.end(), same)) return &entry;
  return nullptr;
}

SourcePos place_of(const config::Record& block, const char* key) {
  const auto value = block.find(key);
  return value ? value->where : block.where();
}

}  // namespace tutti::actions
