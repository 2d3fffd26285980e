// SPDX-License-Identifier: Apache-2.0
// table.h -- the result of a describe(): one row per key. Unknown-key errors, help and dump all read this table.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/config.h"

namespace tutti::config {

struct Table;

struct Row {
  std::string key, type, value, doc;  // value as it would be written
  bool required = false;
  bool present = true;                                                  // false: an optional block that was not written
  std::shared_ptr<Table> nested;                                        // members of a block
  bool named = false;                                                   // the members are blocks under free names
  std::vector<std::pair<std::string, std::shared_ptr<Table>>> members;  // those there are
  std::vector<std::string> old_names;
};

struct Table {
  struct Alias {
    std::string old_key, key, note;
  };
  std::vector<Row> rows;
  std::vector<Alias> aliases;
  std::vector<std::pair<std::string, std::string>> no_effect;  // key, reason

  const Row* row(std::string_view key) const;
  std::vector<std::string> keys() const;                          // of the rows
  std::vector<std::string> names_of(std::string_view key) const;  // the key and its old names
  bool knows(std::string_view key) const;
};

// "integer = 32", "text, required", "= [ ... ]": type and default of a key as help shows them.
std::string type_text(const Row&);

// Describes without changing anything.
std::shared_ptr<Table> tabulate(const std::function<void(Fields&)>& describe);

}  // namespace tutti::config
