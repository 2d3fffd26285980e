// SPDX-License-Identifier: Apache-2.0
// state.h -- the state of a Record: one level of settings, merged from all places that wrote to it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/syntax.h"
#include "config/text.h"
#include "tutti/config.h"

namespace tutti::config {

// Everything written for one key, oldest first.
struct Entry {
  struct Written {
    TextRange key, value;
    bool alone = false;  // no value written: true
  };
  std::string key;  // as written first
  std::vector<Written> written;
  std::size_t order = 0;      // of the last write, within the level
  mutable bool read = false;  // whether the entry was read; see Record::State::was_read()
};

// The value of an entry: the parts of a merged block, or one value with its variables substituted.
struct Resolved {
  bool block = false;
  bool alone = false;
  std::vector<TextRange> parts;
  Value value() const;
};

struct Record::State {
  std::string name;  // "SGD"; empty at the top
  SourcePos where;
  std::shared_ptr<const State> parent;
  std::vector<Inside> bodies;
  std::vector<Entry> entries;
  std::unordered_map<std::string, std::size_t> index;  // lower-case key -> entry
  std::shared_ptr<const std::vector<std::string>> include_paths;

  const Entry* own(std::string_view key) const;  // marks the entry as used
  static bool was_read(const Entry&);
  Resolved resolve(const Entry&) const;  // throws ConfigError for unknown variables
  std::string path() const;
  // Names used as $name$ anywhere inside this level, in lower case.
  std::set<std::string> variables_used() const;
};

using StatePtr = std::shared_ptr<const Record::State>;

// A block whose bodies are merged in order. Syntax problems of this level are added to `problems`.
StatePtr make_state(std::string name, SourcePos where, StatePtr parent, std::vector<Inside> bodies, Problems& problems,
                    std::shared_ptr<const std::vector<std::string>> include_paths);
// The block that `entry` of `parent` stands for; throws ConfigError for bad syntax.
StatePtr make_child(const StatePtr& parent, const Entry& entry, const Resolved& resolved);

// The bodies of these keys are in another language: they replace instead of merge, and are not parsed.
bool is_network_body(std::string_view key);

// `raw` with its $variables$ substituted, seen from `level`; `raw` itself if there are none.
TextRange substitute(const TextRange& raw, const Record::State& level);

// The nearest level, from `from` outward, that holds `key` as a block; null if there is none. Values that are no blocks
// are skipped in enclosing levels (a bool `parallelTrain` does not hide a `ParallelTrain` block), but count in `from`.
struct FoundBlock {
  StatePtr level;
  const Entry* entry = nullptr;
  Resolved resolved;
};
std::optional<FoundBlock> find_block(const StatePtr& from, const std::vector<std::string>& names);

// The nearest value under one of these names, unless it is the word default. In an enclosing level blocks are skipped;
// in `from` a block is a mistake. `alone`: looks in `from` only. `name` is that of the block in the message, or empty.
struct FoundValue {
  const Entry* entry = nullptr;
  TextRange range;
  Value value;
};
std::optional<FoundValue> find_value(const Record::State& from, const std::vector<std::string>& names,
                                     bool alone = false, const std::string& name = {});
// What was written last under one of these names; null if nothing was.
const Entry* latest(const Record::State& level, const std::vector<std::string>& names);

}  // namespace tutti::config
