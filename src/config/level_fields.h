// SPDX-License-Identifier: Apache-2.0
// level_fields.h -- Fields over a level of settings: where a key was given, here or in an enclosing block.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "config/state.h"
#include "config/table.h"

namespace tutti::config {

class LevelFields : public Fields {
 public:
  void alias(std::string_view, std::string_view, std::string_view) override {}  // known from the table
  void no_effect(std::string_view, std::string_view) override {}
  void inherit_nothing(std::string_view key) override {
    if (key.empty())
      alone_ = true;
    else
      own_.insert(to_lower(key));
  }
  bool given(std::string_view key) const override {
    try {
      const Row* row = table_->row(key);
      if (row && row->nested) {
        const auto found = nearest_block(key);
        return found && found->resolved.block;
      }
      return find_scalar(key).has_value();
    } catch (const ConfigError&) {
      return true;  // written, if wrongly; reading it says so
    }
  }

 protected:
  // `name`: of the block, for errors.
  LevelFields(StatePtr state, std::shared_ptr<const Table> table, std::string name = {})
      : state_(std::move(state)), table_(std::move(table)), name_(std::move(name)) {}

  std::optional<FoundBlock> nearest_block(std::string_view key) const {
    auto found = find_block(state_, table_->names_of(key));
    if (alone_ && found && found->level != state_) found.reset();
    return found;
  }
  std::optional<FoundValue> find_scalar(std::string_view key) const {
    return find_value(*state_, table_->names_of(key), alone_ || own_.contains(to_lower(key)), name_);
  }

  const StatePtr state_;
  const std::shared_ptr<const Table> table_;
  const std::string name_;
  bool alone_ = false;         // values in enclosing blocks are ignored
  std::set<std::string> own_;  // keys whose values there are ignored, in lower case
};

}  // namespace tutti::config
