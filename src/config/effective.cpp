// SPDX-License-Identifier: Apache-2.0
// Visits a describe() beside the block that was read, and notes what was written for each key.
#include "config/effective.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/command_line.h"
#include "config/level_fields.h"

namespace tutti::config {
namespace {

bool is_literal(const TextRange& s) {
  return is_quoted(s) || (s.begin < s.end && std::string_view("([{").find(s.view()[0]) != std::string_view::npos);
}

std::string scalar_text(const Resolved& r) {
  if (r.alone) return "true";
  const TextRange& s = r.parts.back();
  return is_literal(s) ? std::string(s.view()) : quoted_if_needed(r.value().text);
}

// Blanked comments leave blanks and empty lines behind; strings over several lines keep theirs.
std::string without_blank_lines(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (std::count(line.begin(), line.end(), '"') % 2) return text;
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (last != std::string_view::npos) out += (out.empty() ? "" : "\n") + std::string(line.substr(0, last + 1));
    begin = end + 1;
  }
  return out;
}

enum class Spelling { as_written, boolean, word };

std::string meaning_of(const std::string& text, Spelling spelling) {
  if (spelling == Spelling::as_written) return {};
  if (spelling == Spelling::word) return to_lower(text);
  try {
    return to_boolean({text, {}}, "") ? "true" : "false";
  } catch (const ConfigError&) {
    return {};
  }
}

std::vector<Setting> written_level(const StatePtr& level);

Setting written_entry(const StatePtr& level, const Entry& entry) {
  Setting s{entry.key, {}, entry.written.back().key.where()};
  Resolved r;
  try {
    r = level->resolve(entry);
    if (r.block && !is_network_body(entry.key)) {
      s.members = written_level(make_child(level, entry, r));
      s.block = true;
      return s;
    }
  } catch (const ConfigError&) {
    // A value that may never be read: with an unknown variable, or a block in another language.
    r = Resolved{false, false, {entry.written.back().value}};
  }
  s.value = without_blank_lines(scalar_text(r));
  return s;
}

std::vector<Setting> written_level(const StatePtr& level) {
  std::vector<Setting> all;
  for (const Entry& entry : level->entries) all.push_back(written_entry(level, entry));
  return all;
}

std::vector<Setting> defaults_of(const Table& table) {
  std::vector<Setting> all;
  for (const Row& row : table.rows) {
    if (!row.present) continue;
    Setting s{row.key, row.value};
    s.given = false, s.block = row.nested != nullptr;
    if (row.nested && !row.named) s.members = defaults_of(*row.nested);
    all.push_back(std::move(s));
  }
  return all;
}

class Effective : public LevelFields {
 public:
  Effective(StatePtr state, std::shared_ptr<const Table> table, std::vector<Setting>& all)
      : LevelFields(std::move(state), std::move(table)), all_(all) {}

  void run(const std::function<void(Fields&)>& describe, Unknown unknown) {
    describe(*this);
    if (unknown == Unknown::drop) return;
    const std::set<std::string> variables = state_->variables_used();
    for (const Entry& entry : state_->entries) {
      const std::string key = to_lower(entry.key);
      if (!seen_.contains(key) && !table_->knows(key) && !variables.contains(key))
        all_.push_back(written_entry(state_, entry));
    }
  }

  void required(std::string_view) override {}
  void problem(std::string_view, std::string, std::string) override {}
  void pairs(std::string_view key, std::vector<Pair>&, std::string_view) override {
    block(key, [](const StatePtr& child, Setting& s) { s.members = written_level(child); });
  }

 protected:
  void setting(std::string_view key, Target target, std::string_view) override {
    scalar(key, std::holds_alternative<bool*>(target) ? Spelling::boolean : Spelling::as_written);
  }
  void word(std::string_view key, std::size_t&, const std::vector<std::string>&, std::string_view) override {
    scalar(key, Spelling::word);
  }
  void nested(std::string_view key, std::string_view, bool*, const std::function<void(Fields&)>& describe) override {
    block(key, [&](const StatePtr& child, Setting& s) {
      Effective(child, tabulate(describe), s.members).run(describe, Unknown::keep);
    });
  }
  void named(std::string_view key, std::string_view, const std::function<void(Fields&)>& sample,
             const std::vector<Member>& present, const std::function<void(const std::string&, const With&)>&) override {
    block(key, [&](const StatePtr& child, Setting& s) {
      const std::set<std::string> variables = child->variables_used();
      for (const Entry& entry : child->entries) {
        const Resolved r = child->resolve(entry);
        if (!r.block && variables.contains(to_lower(entry.key))) continue;
        Setting member = written_entry(child, entry);
        if (r.block) {
          const auto known = std::ranges::find_if(present, [&](const Member& m) { return m.first == entry.key; });
          const auto& describe = known == present.end() ? sample : known->second;
          member.members.clear();
          Effective(make_child(child, entry, r), tabulate(describe), member.members).run(describe, Unknown::keep);
        }
        s.members.push_back(std::move(member));
      }
    });
  }

 private:
  void see(std::string_view key) {
    for (const std::string& name : table_->names_of(key)) seen_.insert(to_lower(name));
  }

  void scalar(std::string_view key, Spelling spelling) {
    see(key);
    if (const auto found = find_scalar(key)) {
      std::string text =
          is_literal(found->range) ? std::string(found->range.view()) : quoted_if_needed(found->value.text);
      const bool own = find_value(*state_, table_->names_of(key), true).has_value();
      all_.push_back({std::string(key), without_blank_lines(text), found->value.where, false, true, !own});
      all_.back().meaning = meaning_of(found->value.text, spelling);
    } else if (const Row* row = table_->row(key)) {
      all_.push_back({std::string(key), row->value, {}, false, false});
      all_.back().meaning = meaning_of(row->value, spelling);
    }
  }

  template <class Fill>
  void block(std::string_view key, const Fill& fill) {
    see(key);
    const auto found = nearest_block(key);
    Setting s{std::string(key)};
    if (found && !found->resolved.block) {
      s.value = without_blank_lines(scalar_text(found->resolved));  // an array of blocks
      s.where = found->entry->written.back().key.where();
    } else if (found) {
      s.block = true, s.where = found->entry->written.back().key.where();
      fill(make_child(found->level, *found->entry, found->resolved), s);
    } else {
      const Row* row = table_->row(key);
      if (!row || !row->present || !row->nested) return;
      s.block = true, s.given = false;
      if (!row->named) s.members = defaults_of(*row->nested);
    }
    all_.push_back(std::move(s));
  }

  std::vector<Setting>& all_;
  std::set<std::string> seen_;  // lower case
};

}  // namespace

std::vector<Setting> effective_settings(const Record& record, const std::function<void(Fields&)>& describe,
                                        Unknown unknown) {
  std::vector<Setting> all;
  Effective(record.shared_state(), tabulate(describe), all).run(describe, unknown);
  return all;
}

std::optional<Setting> written_setting(const Record& record, std::string_view key) {
  const Entry* entry = record.state().own(key);
  return entry ? std::optional(written_entry(record.shared_state(), *entry)) : std::nullopt;
}

std::vector<Setting> written_settings(const Record& record) { return written_level(record.shared_state()); }

bool is_variable(const Record& record, std::string_view key) {
  return record.state().variables_used().contains(to_lower(key));
}

const Setting* find_setting(const std::vector<Setting>& all, std::string_view key) {
  const auto at = std::ranges::find_if(all, [&](const Setting& s) { return equal_keys(s.key, key); });
  return at == all.end() ? nullptr : &*at;
}

std::string to_text(const std::vector<Setting>& all, bool defaults, int indent) {
  const std::string lead(static_cast<std::size_t>(indent), ' ');
  std::string out;
  for (const Setting& s : all) {
    if (!s.given && !defaults) continue;
    const std::string mark = s.given ? "" : "# ";
    if (!s.block) {
      out += fmt::format("{}{}{} = {}\n", lead, mark, s.key, s.value);
      continue;
    }
    const std::string inside = to_text(s.members, defaults, indent + 2);
    const std::string end = s.given ? lead : lead + "# ";
    out += fmt::format("{}{}{} = [\n{}{}]\n", lead, mark, s.key, inside, end);
  }
  return out;
}

std::string dump_config(const Record& record) { return to_text(written_settings(record)); }

}  // namespace tutti::config
