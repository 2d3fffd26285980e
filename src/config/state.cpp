// SPDX-License-Identifier: Apache-2.0
// Builds levels of settings: later writings win, blocks written twice merge member by member.
#include "config/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>

namespace tutti::config {
namespace {

std::string unquoted(const TextRange& s) {
  return std::string(is_quoted(s) ? s.view().substr(1, s.view().size() - 2) : s.view());
}

// Collects the settings of all bodies of one level in the order in which they were written.
class LevelBuilder {
 public:
  LevelBuilder(Record::State& state, Problems& problems) : state_(state), problems_(problems) {}

  void run() {
    for (const Inside& body : state_.bodies) collect(body);
    // Settings from variables need the variables of the level first.
    if (std::any_of(found_.begin(), found_.end(),
                    [](const Statement& s) { return s.kind == Statement::Kind::expansion; }))
      expand();
    store(found_);
  }

 private:
  void collect(const Inside& body) {
    for (Statement& s : split_statements(body, problems_)) {
      if (s.kind == Statement::Kind::include) {
        const auto at = s.value.text->includes.find(s.value.begin);
        if (at == s.value.text->includes.end()) continue;
        for (const TextPtr& text : at->second) {
          const TextRange all{text, 0, text->clean.size()};
          if (check_brackets(all, problems_)) collect({all, 0});
        }
      } else if (s.kind == Statement::Kind::bare) {
        if (state_.parent) {
          problems_.add(Diagnostic{s.value.where(), "a block needs a name here", "write name = [ ... ]"});
        } else {
          collect(inside(s.value));
        }
      } else {
        found_.push_back(std::move(s));
      }
    }
  }

  void expand() {
    std::vector<Statement> all;
    all.swap(found_);
    store(all);
    std::vector<Statement> expanded;
    for (const Statement& s : all) {
      if (s.kind != Statement::Kind::expansion) {
        expanded.push_back(s);
        continue;
      }
      try {
        TextRange text = trim(substitute(s.value, state_));
        if (is_block(text)) text = inside(text).body;
        collect({text, 0});
      } catch (const ConfigError& e) {
        problems_.add(e);
      }
      for (Statement& f : found_) {
        if (f.kind != Statement::Kind::expansion) expanded.push_back(std::move(f));
      }
      found_.clear();
    }
    found_.swap(expanded);
  }

  void store(const std::vector<Statement>& statements) {
    state_.entries.clear();
    state_.index.clear();
    for (const Statement& s : statements) {
      if (s.kind == Statement::Kind::expansion) continue;
      const auto [at, fresh] = state_.index.emplace(to_lower(s.key.view()), state_.entries.size());
      if (fresh) state_.entries.push_back({std::string(s.key.view()), {}, 0});
      Entry& entry = state_.entries[at->second];
      entry.written.push_back({s.key, s.value, s.kind == Statement::Kind::flag});
      entry.order = ++order_;
    }
  }

  Record::State& state_;
  Problems& problems_;
  std::vector<Statement> found_;
  std::size_t order_ = 0;
};

void scan_variables(std::string_view text, std::set<std::string>& names) {
  for (std::size_t i = text.find('$'); i < text.size(); i = text.find('$', i)) {
    std::size_t j = ++i;
    while (j < text.size() && (std::isalnum(static_cast<unsigned char>(text[j])) || text[j] == '_')) ++j;
    if (j > i && j < text.size() && text[j] == '$') names.insert(to_lower(text.substr(i, j - i))), i = j + 1;
  }
}

void scan_variables(const TextRange& s, std::set<std::string>& names) {
  scan_variables(s.view(), names);
  for (const auto& [offset, texts] : s.text->includes) {
    if (offset < s.begin || offset >= s.end) continue;
    for (const TextPtr& t : texts) scan_variables(TextRange{t, 0, t->clean.size()}, names);
  }
}

}  // namespace

Value Resolved::value() const {
  if (alone) return {"true", parts.back().where()};
  if (!block) return {unquoted(parts.back()), parts.back().where()};
  std::string text;
  for (const TextRange& part : parts) text += (text.empty() ? "" : " ") + std::string(part.view());
  return {text, parts.back().where()};
}

const Entry* Record::State::own(std::string_view key) const {
  const auto at = index.find(to_lower(key));
  if (at == index.end()) return nullptr;
  const Entry& entry = entries[at->second];
  std::atomic_ref(entry.read).store(true, std::memory_order_relaxed);  // several ranks may be threads of one process
  return &entry;
}

bool Record::State::was_read(const Entry& entry) { return std::atomic_ref(entry.read).load(std::memory_order_relaxed); }

Resolved Record::State::resolve(const Entry& entry) const {
  Resolved r;
  for (auto w = entry.written.rbegin(); w != entry.written.rend(); ++w) {
    // Inside a block, variables wait until the setting they stand in is fetched; foreign languages are fetched whole.
    const bool wait = !w->alone && tutti::config::is_block(w->value) && !is_network_body(entry.key);
    const TextRange value = wait ? w->value : substitute(w->value, *this);
    const bool block = !w->alone && tutti::config::is_block(value);
    if (!r.parts.empty() && !block) break;
    r.parts.insert(r.parts.begin(), value);
    r.block = block;
    r.alone = w->alone;
    if (!block || is_network_body(entry.key)) break;
  }
  return r;
}

std::string Record::State::path() const {
  const std::string outer = parent ? parent->path() : "";
  return outer.empty() ? name : outer + "." + name;
}

std::set<std::string> Record::State::variables_used() const {
  std::set<std::string> names;
  for (const Inside& body : bodies) scan_variables(body.body, names);
  return names;
}

StatePtr make_state(std::string name, SourcePos where, StatePtr parent, std::vector<Inside> bodies, Problems& problems,
                    std::shared_ptr<const std::vector<std::string>> include_paths) {
  auto state = std::make_shared<Record::State>();
  state->name = std::move(name);
  state->where = std::move(where);
  state->parent = std::move(parent);
  state->bodies = std::move(bodies);
  state->include_paths = std::move(include_paths);
  LevelBuilder(*state, problems).run();
  return state;
}

StatePtr make_child(const StatePtr& parent, const Entry& entry, const Resolved& resolved) {
  Problems problems;
  std::vector<Inside> bodies;
  for (const TextRange& part : resolved.parts) bodies.push_back(inside(part));
  StatePtr child = make_state(entry.key, entry.written.back().key.where(), parent, std::move(bodies), problems,
                              parent->include_paths);
  problems.throw_if_any();
  return child;
}

bool is_network_body(std::string_view key) {
  return equal_keys(key, "BrainScriptNetworkBuilder") || equal_keys(key, "ExperimentalNetworkBuilder");
}

std::optional<FoundBlock> find_block(const StatePtr& from, const std::vector<std::string>& names) {
  for (StatePtr s = from; s; s = s->parent) {
    const Entry* latest = nullptr;
    for (const std::string& name : names) {
      const Entry* e = s->own(name);
      if (e && (!latest || e->order > latest->order)) latest = e;
    }
    if (!latest) continue;
    FoundBlock found{s, latest, s->resolve(*latest)};
    if (found.resolved.block || s == from) return found;
  }
  return std::nullopt;
}

}  // namespace tutti::config
