// SPDX-License-Identifier: Apache-2.0
// Called by prepare(). Finds unused overrides at the top level and in command blocks, and settings of command blocks,
// those of config files too, that count at the top level only. Option blocks further inside refuse unknown keys
// themselves.
#include "config/overrides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "config/state.h"
#include "config/table.h"

namespace tutti::config {
namespace {

constexpr std::size_t most_suggestions = 3, longest_value = 60, deepest_block = 8;

std::string value_text(const Entry& entry) {
  const auto& written = entry.written.back();
  if (written.alone) return "true";
  const std::string_view text = written.value.view();
  if (text.size() <= longest_value && text.find('\n') == std::string_view::npos) return std::string(text);
  return is_block(written.value) ? "[...]" : "...";
}

// The place of a key: the names of the enclosing blocks, outermost first, and the key as written there.
struct Place {
  std::vector<std::string> blocks;
  std::string key;
  std::string text(const std::string& value) const {
    std::string setting = key + "=" + value;
    for (auto b = blocks.rbegin(); b != blocks.rend(); ++b) setting = fmt::format("{}=[{}]", *b, setting);
    return setting;
  }
};

using VisitSetting = std::function<void(const Place&, bool block)>;

// Every setting inside a level, at any depth.
void visit_written(const StatePtr& level, std::vector<std::string>& blocks, const VisitSetting& visit) {
  for (const Entry& entry : level->entries) {
    try {
      const Resolved r = level->resolve(entry);
      visit({blocks, entry.key}, r.block);
      if (!r.block || is_network_body(entry.key) || blocks.size() >= deepest_block) continue;
      blocks.push_back(entry.key);
      visit_written(make_child(level, entry, r), blocks, visit);
      blocks.pop_back();
    } catch (const ConfigError&) {
      // a language of its own, or a value that nothing asks for
    }
  }
}

void visit_table(const Table& table, std::vector<std::string>& blocks, const VisitSetting& visit) {
  for (const Row& row : table.rows) {
    visit({blocks, row.key}, row.nested != nullptr);
    if (!row.nested || row.named || blocks.size() >= deepest_block) continue;
    blocks.push_back(row.key);
    visit_table(*row.nested, blocks, visit);
    blocks.pop_back();
  }
}

class OverrideSearch {
 public:
  OverrideSearch(const Record& top, const std::vector<RunningCommand>& commands, const Table& top_table)
      : top_(top), commands_(commands), top_table_(top_table), variables_(top.state().variables_used()) {}

  void run(std::vector<Diagnostic>& found) {
    look_at(top_.state(), nullptr, found);
    for (const auto& c : commands_) look_at(c.record.state(), &c, found);
  }

 private:
  // `inside`: the command whose block this is.
  void look_at(const Record::State& level, const RunningCommand* inside, std::vector<Diagnostic>& found) const {
    for (const Entry& entry : level.entries) {
      const bool known_at_top = inside && top_table_.row(entry.key);
      if ((!is_override(entry) && !known_at_top) || level.was_read(entry)) continue;
      if (variables_.contains(to_lower(entry.key)) || equal_keys(entry.key, "currentDirectory")) continue;
      const bool block = is_block(entry.written.back().value);
      const bool in_file = !std::ranges::all_of(
          entry.written, [](const Entry::Written& w) { return on_command_line(w.key.where()); });
      const auto places = places_of(entry.key, block, inside);
      const bool of_top = known_at_top && !block && places.empty();
      const bool of_idle_command = in_file && (block || places.empty());
      if (!of_top && (of_idle_command || !is_override(entry))) continue;
      found.push_back({entry.written.back().key.where(),
                       fmt::format("no command uses '{}' {}", entry.key,
                                   inside ? fmt::format("of '{}'", inside->name) : "at the top level"),
                       of_top ? fmt::format("write {}={} at the top level", entry.key, value_text(entry))
                              : fix(entry, places, block, inside)});
    }
  }

  std::string fix(const Entry& entry, std::vector<Place> places, bool block, const RunningCommand* inside) const {
    if (const auto dot = entry.key.find('.'); dot != std::string::npos)
      return "write " + nested_setting(command_of(entry.key.substr(0, dot), inside) + entry.key, value_text(entry));
    const bool known = !places.empty();
    if (!known) places = near_places(entry.key, block, inside);
    if (places.empty()) return "remove it, or use it as $" + entry.key + "$";
    std::vector<std::string> texts;
    for (const Place& p : places) {
      const std::string text = p.text(value_text(entry));
      if (texts.size() < most_suggestions && std::find(texts.begin(), texts.end(), text) == texts.end())
        texts.push_back(text);
    }
    const std::string all = fmt::format("{}", fmt::join(texts, " or "));
    return known ? "write " + all : "did you mean " + all + "?";
  }

  // "Train." before a block that only a command has.
  std::string command_of(std::string_view block, const RunningCommand* inside) const {
    if (inside) return inside->name + ".";
    for (const auto& c : commands_)
      if (std::ranges::any_of(c.blocks, [&](const KnownBlock& b) { return equal_keys(b.name, block); }))
        return c.name + ".";
    return {};
  }

  // The places where running commands have such a setting; if none has it, where it may be written.
  std::vector<Place> places_of(std::string_view key, bool block, const RunningCommand* inside) const {
    std::vector<Place> places;
    const VisitSetting add = [&](const Place& p, bool is_block) {
      if (is_block == block && equal_keys(p.key, key) && p.blocks.size() > 1) places.push_back(p);
      if (is_block && block && equal_keys(p.key, key) && p.blocks.size() == 1 && !inside) places.push_back(p);
    };
    visit_commands(inside, add);
    if (places.empty()) visit_known(inside, add);
    return places;
  }

  // The same for the nearest name.
  std::vector<Place> near_places(const std::string& key, bool block, const RunningCommand* inside) const {
    std::vector<Place> all;
    const VisitSetting add = [&](const Place& p, bool is_block) {
      if (is_block == block && !equal_keys(p.key, key)) all.push_back(p);
    };
    if (!inside) {
      for (const Row& row : top_table_.rows) add({{}, row.key}, row.nested != nullptr);
      for (const Entry& e : top_.state().entries) add({{}, e.key}, is_block(e.written.back().value));
    }
    visit_commands(inside, add);
    visit_known(inside, add);
    std::vector<std::string> names;
    for (const Place& p : all) names.push_back(p.key);
    const std::string near = nearest(key, names);
    std::vector<Place> places;
    for (const Place& p : all)
      if (!near.empty() && equal_keys(p.key, near)) places.push_back(p);
    return places;
  }

  // Of `inside`, or of all commands.
  void visit_commands(const RunningCommand* inside, const VisitSetting& visit) const {
    for (const auto& c : commands_) {
      std::vector<std::string> blocks{c.name};
      if (!inside || inside == &c) visit_written(c.record.shared_state(), blocks, visit);
    }
  }

  void visit_known(const RunningCommand* inside, const VisitSetting& visit) const {
    for (const auto& c : commands_)
      for (const KnownBlock& known : c.blocks) {
        if (inside && inside != &c) break;
        visit({{c.name}, known.name}, true);
        std::vector<std::string> blocks{c.name, known.name};
        visit_table(*tabulate(known.describe), blocks, visit);
      }
  }

  const Record& top_;
  const std::vector<RunningCommand>& commands_;
  const Table& top_table_;
  const std::set<std::string> variables_;
};

}  // namespace

std::string nested_setting(std::string key, const std::string& value) {
  std::string ends;
  for (std::size_t dot; (dot = key.find('.')) != std::string::npos; ends += ']') key.replace(dot, 1, "=[");
  return key + "=" + value + ends;
}

bool on_command_line(const SourcePos& place) { return place.source && place.source->name == "<command line>"; }

bool is_override(const Entry& entry) { return on_command_line(entry.written.back().key.where()); }

std::vector<Diagnostic> unused_overrides(const Record& top, const std::vector<RunningCommand>& commands,
                                         const std::function<void(Fields&)>& describe_top) {
  std::vector<Diagnostic> found;
  const auto table = tabulate(describe_top);
  OverrideSearch(top, commands, *table).run(found);
  return found;
}

}  // namespace tutti::config
