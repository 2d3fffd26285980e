// SPDX-License-Identifier: Apache-2.0
// effective.h -- the settings of a run as a tree: what was given, as it was written, and the defaults of the rest.
// Given settings are never derived from the values in effect, so the tree, written as config text, gives the same run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/config.h"

namespace tutti::config {

struct Setting {
  std::string key;
  std::string value = {};  // as it is written; empty for a block
  SourcePos where = {};    // of a given setting
  bool block = false;
  bool given = true;       // false: `value` is the default
  bool inherited = false;  // given in an enclosing block
  std::vector<Setting> members = {};
  std::string meaning = {};  // of a boolean and of a word: `value` in one spelling; of other settings empty
};

// The settings of a block in the order of describe(), those inherited from enclosing blocks included. Settings that
// describe() does not name and that are no variables come last, in open blocks none. `describe`: of the options read.
enum class Unknown { keep, drop };
std::vector<Setting> effective_settings(const Record&, const std::function<void(Fields&)>& describe,
                                        Unknown = Unknown::keep);
// A setting of the block itself, with its variables resolved.
std::optional<Setting> written_setting(const Record&, std::string_view key);
// All settings of the block itself.
std::vector<Setting> written_settings(const Record&);
// Names used as $name$ anywhere in the block, in lower case.
bool is_variable(const Record&, std::string_view key);

const Setting* find_setting(const std::vector<Setting>&, std::string_view key);
// Config text. `defaults`: with the settings that were not given, as comments.
std::string to_text(const std::vector<Setting>&, bool defaults = false, int indent = 0);

}  // namespace tutti::config
