// SPDX-License-Identifier: Apache-2.0
// state.h -- what stands behind a Record: one level of settings, merged from all places that wrote into it.
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

// All that was written for one key, oldest first.
struct Entry {
  struct Written {
    TextRange key, value;
    bool alone = false;  // no value written: true
  };
  std::string key;  // as first written
  std::vector<Written> written;
  std::size_t order = 0;      // of the last writing, within the level
  mutable bool read = false;  // somebody has asked for it; see Record::State::was_read()
};

// What an entry amounts to: the parts of a merged block, or one value with its variables substituted.
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

  const Entry* own(std::string_view key) const;  // what is found here counts as used from then on
  static bool was_read(const Entry&);
  Resolved resolve(const Entry&) const;  // throws ConfigError for unknown variables
  std::string path() const;
  // Names used as $name$ anywhere inside this level, in lower case.
  std::set<std::string> variables_used() const;
};

using StatePtr = std::shared_ptr<const Record::State>;

// A block whose bodies are merged in order. Problems of this level's own syntax land in `problems`.
StatePtr make_state(std::string name, SourcePos where, StatePtr parent, std::vector<Inside> bodies, Problems& problems,
                    std::shared_ptr<const std::vector<std::string>> include_paths);
// The block that `entry` of `parent` amounts to; throws ConfigError for bad syntax.
StatePtr make_child(const StatePtr& parent, const Entry& entry, const Resolved& resolved);

// Bodies of these keys are another language: they replace instead of merge, and nobody looks inside.
bool is_network_body(std::string_view key);

// `raw` with its $variables$ replaced, seen from `level`; `raw` itself when there are none.
TextRange substitute(const TextRange& raw, const Record::State& level);

// The level, going outward from `from`, that holds `key` as a block; null when there is none. Further out values that
// are no blocks are passed over (a bool `parallelTrain` hides no `ParallelTrain` block), in `from` itself they count.
struct FoundBlock {
  StatePtr level;
  const Entry* entry = nullptr;
  Resolved resolved;
};
std::optional<FoundBlock> find_block(const StatePtr& from, const std::vector<std::string>& names);

}  // namespace tutti::config
