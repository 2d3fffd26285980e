// SPDX-License-Identifier: Apache-2.0
// Reads a block into an option struct through its describe(). Values may be inherited from enclosing blocks; a block is
// accepted only where a block is expected, a value only where a value is. Mistakes are collected, not thrown.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/level_fields.h"
#include "config/overrides.h"

namespace tutti::config {
namespace {

constexpr std::size_t most_keys_listed = 20;

std::string list_keys(const std::vector<std::string>& keys) { return fmt::format("{}", fmt::join(keys, ", ")); }

void add_once(Notices& notices, std::string line) {
  if (std::find(notices.lines.begin(), notices.lines.end(), line) == notices.lines.end())
    notices.lines.push_back(std::move(line));
}

// The block inside `table` whose key this is: DataParallelSGD for gradientBits.
const Row* block_with(const Table& table, std::string_view key) {
  for (const Row& r : table.rows) {
    if (!r.nested) continue;
    if (!r.named && r.nested->knows(key)) return &r;
    if (const Row* inner = block_with(*r.nested, key)) return inner;
  }
  return nullptr;
}

// One letter changed, missing, surplus, or two neighbours swapped.
bool one_slip(std::string a, std::string b) {
  a = to_lower(a), b = to_lower(b);
  if (a.size() > b.size()) a.swap(b);
  if (b.size() - a.size() > 1) return false;
  std::size_t i = 0;
  while (i < a.size() && a[i] == b[i]) ++i;
  if (a.size() < b.size()) return a.substr(i) == b.substr(i + 1);
  if (i == a.size() || a.substr(i + 1) == b.substr(i + 1)) return true;
  return i + 1 < a.size() && a[i] == b[i + 1] && a[i + 1] == b[i] && a.substr(i + 2) == b.substr(i + 2);
}

class Reading : public LevelFields {
 public:
  Reading(StatePtr state, std::string name, std::shared_ptr<const Table> table, Problems& problems, Notices& notices)
      : LevelFields(std::move(state), std::move(table), std::move(name)),
        problems_(problems),
        notices_(notices) {}

  void run(const std::function<void(Fields&)>& describe, bool open, const std::vector<std::string>& also) {
    describe(*this);
    for (const auto& [key, because] : table_->no_effect) {
      if (state_->own(key))
        add_once(notices_, fmt::format("'{}' in {} has no effect here because {}", key, name_, because));
    }
    const std::set<std::string> variables = state_->variables_used();
    for (const Entry& entry : state_->entries) {
      const bool known = table_->knows(entry.key) || described_.contains(to_lower(entry.key)) ||
                         std::any_of(also.begin(), also.end(), [&](const auto& a) { return equal_keys(a, entry.key); });
      // Users may define variables anywhere: a name used as $name$ inside the block is one.
      if (known || variables.contains(to_lower(entry.key))) continue;
      open ? near_miss(entry, also) : unknown(entry, also);
    }
  }

  void required(std::string_view key) override {
    if (given(key) || bad_.contains(to_lower(key))) return;
    problems_.add(
        Diagnostic{state_->where, fmt::format("{} needs '{}'", name_, key), fmt::format("add {} = ...", key)});
  }
  void problem(std::string_view key, std::string message, std::string fix) override {
    if (bad_.contains(to_lower(key))) return;  // the rule judged a default
    problems_.add(Diagnostic{place(key), std::move(message), std::move(fix)});
  }

 protected:
  void setting(std::string_view key, Target target, std::string_view) override {
    read(key, [&](const FoundValue& s) { std::visit([&](auto* v) { convert(s, *v); }, target); });
  }
  void word(std::string_view key, std::size_t& index, const std::vector<std::string>& words,
            std::string_view) override {
    read(key, [&](const FoundValue& s) {
      const auto at = std::ranges::find_if(words, [&](const auto& w) { return equal_keys(w, s.value.text); });
      if (at == words.end()) {
        const std::string near = nearest(s.value.text, words);
        throw ConfigError(s.value.where, fmt::format("'{}' cannot be '{}'", s.entry->key, s.value.text),
                          near.empty() ? "choices: " + list_keys(words)
                                       : fmt::format("did you mean '{}'? (choices: {})", near, list_keys(words)));
      }
      index = static_cast<std::size_t>(at - words.begin());
    });
  }
  void nested(std::string_view key, std::string_view, bool* present,
              const std::function<void(Fields&)>& describe) override {
    const StatePtr child = open_block(key);
    if (!child) return;
    if (present) *present = true;
    Reading(child, std::string(key), table_of(key, describe), problems_, notices_).run(describe, false, {});
  }
  void named(std::string_view key, std::string_view, const std::function<void(Fields&)>& sample,
             const std::vector<Member>&, const std::function<void(const std::string&, const With&)>& each) override {
    const StatePtr child = open_block(key);
    if (!child) return;
    const std::set<std::string> variables = child->variables_used();
    for (const Entry& entry : child->entries) {
      guarded(entry.key, [&] {
        const Resolved r = child->resolve(entry);
        if (!r.block) {
          if (variables.contains(to_lower(entry.key))) return;
          throw ConfigError(entry.written.back().key.where(), fmt::format("'{}' in {} must be a block", entry.key, key),
                            fmt::format("write {} = [ ... ]", entry.key));
        }
        const StatePtr member = make_child(child, entry, r);
        each(entry.key, [&](const std::function<void(Fields&)>& describe) {
          Reading(member, fmt::format("{}.{}", key, entry.key), table_of(key, sample), problems_, notices_)
              .run(describe, false, {});
        });
      });
    }
  }
  void pairs(std::string_view key, std::vector<Pair>& all, std::string_view) override {
    const StatePtr child = open_block(key);
    if (!child) return;
    for (const Entry& entry : child->entries)
      guarded(entry.key, [&] {
        const Resolved r = child->resolve(entry);
        if (r.block)
          throw ConfigError(entry.written.back().key.where(), fmt::format("'{}' in {} must be a word", entry.key, key));
        const Value v = r.value();
        all.push_back({entry.key, v.text, v.where});
      });
  }

 private:
  template <class Use>
  void guarded(std::string_view key, const Use& use) {
    try {
      use();
    } catch (const ConfigError& e) {
      bad_.insert(to_lower(key));
      problems_.add(e);
    }
  }

  template <class Use>
  void read(std::string_view key, const Use& use) {
    described_.insert(to_lower(key));
    guarded(key, [&] {
      const auto found = find_scalar(key);
      if (!found) return;
      note_alias(found->entry->key, key);
      use(*found);
    });
  }

  static void convert(const FoundValue& s, bool& v) { v = to_boolean(s.value, s.entry->key); }
  static void convert(const FoundValue& s, std::int64_t& v) { v = to_integer(s.value, s.entry->key); }
  static void convert(const FoundValue& s, double& v) { v = to_number(s.value, s.entry->key); }
  static void convert(const FoundValue& s, std::string& v) { v = s.value.text; }
  template <class T>
  static void convert(const FoundValue& s, std::vector<T>& v) {
    constexpr bool numeric = !std::is_same_v<T, std::string>;
    std::vector<T> elements;
    for (const Value& e : to_elements(s.range, s.entry->key, numeric))
      convert({s.entry, s.range, e}, elements.emplace_back());
    // A list of numbers with a default always has a first element.
    if (numeric && elements.empty() && !v.empty())
      throw ConfigError(s.value.where, fmt::format("'{}' has no elements", s.entry->key),
                        "write one value, or several with ':' between them; for the default leave the key out");
    v = std::move(elements);
  }

  StatePtr open_block(std::string_view key) {
    described_.insert(to_lower(key));
    StatePtr child;
    guarded(key, [&] {
      const auto found = nearest_block(key);
      if (!found) return;
      if (!found->resolved.block) {
        const Value v = found->resolved.value();
        if (v.text == "default") return;
        throw ConfigError(v.where, fmt::format("'{}' in {} must be a block", key, name_),
                          fmt::format("write {} = [ ... ]", key));
      }
      note_alias(found->entry->key, key);
      child = make_child(found->level, *found->entry, found->resolved);
    });
    return child;
  }

  std::shared_ptr<const Table> table_of(std::string_view key, const std::function<void(Fields&)>& describe) const {
    const Row* row = table_->row(key);
    return row && row->nested ? row->nested : tabulate(describe);
  }

  void note_alias(const std::string& written, std::string_view key) {
    for (const auto& a : table_->aliases) {
      if (!a.note.empty() && equal_keys(a.old_key, written) && equal_keys(a.key, key))
        add_once(notices_, fmt::format("'{}' in {} is read as '{}': {}", a.old_key, name_, key, a.note));
    }
  }

  SourcePos place(std::string_view key) const {
    try {
      if (const auto s = find_scalar(key)) return s->value.where;
    } catch (const ConfigError&) {
    }
    const Entry* e = latest(*state_, table_->names_of(key));
    return e ? e->written.back().key.where() : state_->where;
  }

  void unknown(const Entry& entry, const std::vector<std::string>& also) {
    std::vector<std::string> keys = table_->keys();
    keys.insert(keys.end(), also.begin(), also.end());
    const std::string near = nearest(entry.key, keys);
    const Row* inner = block_with(*table_, entry.key);
    std::vector<std::string> blocks;  // of this level
    for (const Row& r : table_->rows)
      if (r.nested && !r.named && r.nested->knows(entry.key)) blocks.push_back(r.key);
    std::string fix;
    if (blocks.size() > 1) {
      fix =
          fmt::format("it belongs in one of the blocks {}: {} = [ {} = ... ]", list_keys(blocks), blocks[0], entry.key);
    } else if (inner) {
      fix = fmt::format("it belongs in the block {0}: {0} = [ {1} = ... ]", inner->key, entry.key);
    } else {
      fix = keys.size() > most_keys_listed && !near.empty()
                ? fmt::format("help={} lists all {} keys", name_, table_->keys().size())
                : "keys: " + list_keys(keys);
      if (!near.empty()) fix = fmt::format("did you mean '{}'? ({})", near, fix);
    }
    problems_.add(Diagnostic{entry.written.back().key.where(), fmt::format("{} has no '{}'", name_, entry.key), fix});
  }

  void note(const Entry& entry, std::string message, std::string fix) {
    notices_.add({entry.written.back().key.where(), std::move(message), std::move(fix)}, "note", true);
  }

  // a.b.c is not a setting inside blocks, although other programs accept it.
  void dotted(const Entry& entry) {
    note(entry, fmt::format("'{}' only defines a variable of that name and has no effect in a block", entry.key),
         "write " + nested_setting(entry.key, "..."));
  }

  // Among user variables, only near misses of one or two letters are reported.
  void near_miss(const Entry& entry, const std::vector<std::string>& also) {
    if (is_override(entry)) return;  // unused_overrides() looks at those
    if (entry.key.find('.') != std::string::npos) return dotted(entry);
    std::vector<std::string> keys = table_->keys();
    keys.insert(keys.end(), also.begin(), also.end());
    const std::string near = nearest(entry.key, keys);
    const std::size_t longer = std::max(near.size(), entry.key.size()),
                      shorter = std::min(near.size(), entry.key.size());
    if (near.empty() || longer - shorter > 2 || (shorter < 10 && !one_slip(entry.key, near))) return;
    note(entry, fmt::format("unknown setting '{}' ignored", entry.key), fmt::format("did you mean '{}'?", near));
  }

  Problems& problems_;
  Notices& notices_;
  std::set<std::string> described_, bad_;  // lower case
};

void read_block(const Record& record, std::string_view name, const std::function<void(Fields&)>& describe,
                Problems& problems, Notices& notices, const std::vector<std::string>& also, bool open) {
  Reading(record.shared_state(), std::string(name), tabulate(describe), problems, notices).run(describe, open, also);
}

}  // namespace

void Notices::add(const Diagnostic& d, std::string_view kind, bool once) {
  std::string text = render(d, kind);
  while (text.ends_with('\n')) text.pop_back();
  if (!once || std::ranges::count(lines, text) == 0) lines.push_back(std::move(text));
}

void read_fields(const Record& record, std::string_view name, const std::function<void(Fields&)>& describe,
                 Problems& problems, Notices& notices, const std::vector<std::string>& also) {
  read_block(record, name, describe, problems, notices, also, false);
}

void read_open_fields(const Record& record, std::string_view name, const std::function<void(Fields&)>& describe,
                      Problems& problems, Notices& notices, const std::vector<std::string>& also) {
  read_block(record, name, describe, problems, notices, also, true);
}

}  // namespace tutti::config
