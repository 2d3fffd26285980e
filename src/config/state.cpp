// SPDX-License-Identifier: Apache-2.0
// Builds levels of settings: later writings win, blocks written twice merge member by member.
#include "config/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>

#include "config/load.h"

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
        const TextRange text = trim(substitute(s.value, state_));
        const auto blocks = blocks_in(text);
        for (const TextRange& block : blocks) collect(inside(block));
        if (blocks.empty()) collect({text, 0});
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
    // A variable written more than once expands to several blocks.
    const auto blocks = w->alone ? std::vector<TextRange>() : blocks_in(value);
    const bool block = !blocks.empty();
    if (!r.parts.empty() && !block) break;
    if (block)
      r.parts.insert(r.parts.begin(), blocks.begin(), blocks.end());
    else
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

const Entry* latest(const Record::State& level, const std::vector<std::string>& names) {
  const Entry* found = nullptr;
  for (const std::string& name : names) {
    const Entry* e = level.own(name);
    if (e && (!found || e->order > found->order)) found = e;
  }
  return found;
}

std::optional<FoundBlock> find_block(const StatePtr& from, const std::vector<std::string>& names) {
  for (StatePtr s = from; s; s = s->parent) {
    const Entry* e = latest(*s, names);
    if (!e) continue;
    FoundBlock found{s, e, s->resolve(*e)};
    if (found.resolved.block || s == from) return found;
  }
  return std::nullopt;
}

std::optional<FoundValue> find_value(const Record::State& from, const std::vector<std::string>& names, bool alone,
                                     const std::string& name) {
  for (const Record::State* s = &from; s; s = alone ? nullptr : s->parent.get()) {
    const Entry* e = latest(*s, names);
    if (!e) continue;
    const Resolved r = s->resolve(*e);
    if (r.block && s != &from) continue;
    if (r.block)
      throw ConfigError(
          e->written.back().key.where(),
          fmt::format("'{}'{} takes a value, not a block", e->key, name.empty() ? "" : fmt::format(" in {}", name)),
          fmt::format("write {} = value", e->key));
    if (r.value().text == "default") return std::nullopt;
    return FoundValue{e, r.parts.back(), r.value()};
  }
  return std::nullopt;
}

// ---- Record: typed look-ups in one block and, going outward, in the blocks around it.

namespace {

StatePtr empty_state() {
  static const StatePtr empty = std::make_shared<Record::State>();
  return empty;
}

std::string block_name(const Record::State& s) { return s.parent ? s.path() : "the configuration"; }

std::optional<Value> value_of(const Record::State& level, const Entry& entry) {
  Resolved r = level.resolve(entry);
  if (r.block)
    for (TextRange& part : r.parts) part = substitute(part, level);
  Value v = r.value();
  if (v.text == "default") return std::nullopt;
  return v;
}

// Whether there is a value. The variables of a block are not checked, because some are defined only inside it.
bool is_given(const Record::State& level, const Entry& entry) {
  const Resolved r = level.resolve(entry);
  return r.block || r.value().text != "default";
}

}  // namespace

Record::Record() : state_(empty_state()) {}
Record::Record(std::shared_ptr<const State> state) : state_(std::move(state)) {}
Record::~Record() = default;
Record::Record(const Record&) = default;
Record& Record::operator=(const Record&) = default;

bool Record::has(std::string_view key) const {
  for (const State* s = state_.get(); s; s = s->parent.get())
    if (const Entry* e = s->own(key)) return is_given(*s, *e);
  return false;
}
bool Record::has_own(std::string_view key) const {
  const Entry* e = state_->own(key);
  return e && is_given(*state_, *e);
}

std::optional<Value> Record::find_own(std::string_view key) const {
  const Entry* e = state_->own(key);
  return e ? value_of(*state_, *e) : std::nullopt;
}

std::optional<Value> Record::find(std::string_view key) const {
  for (const State* s = state_.get(); s; s = s->parent.get())
    if (const Entry* e = s->own(key)) return value_of(*s, *e);
  return std::nullopt;
}

Value Record::value(std::string_view key) const {
  if (auto v = find(key)) return *v;
  throw ConfigError(where(), fmt::format("{} needs '{}'", block_name(*state_), key), fmt::format("add {} = ...", key));
}

bool Record::boolean(std::string_view key, bool otherwise) const {
  const auto v = find_value(*state_, {std::string(key)});
  return v ? to_boolean(v->value, key) : otherwise;
}

std::int64_t Record::integer(std::string_view key, std::int64_t otherwise) const {
  const auto v = find_value(*state_, {std::string(key)});
  return v ? to_integer(v->value, key) : otherwise;
}

double Record::number(std::string_view key, double otherwise) const {
  const auto v = find_value(*state_, {std::string(key)});
  return v ? to_number(v->value, key) : otherwise;
}

std::string Record::string(std::string_view key, std::string_view otherwise) const {
  const auto v = find_value(*state_, {std::string(key)});
  return v ? v->value.text : std::string(otherwise);
}

std::vector<std::string> Record::strings(std::string_view key) const {
  std::vector<std::string> texts;
  if (const auto v = find_value(*state_, {std::string(key)}))
    for (Value& e : to_elements(v->range, key, false)) texts.push_back(std::move(e.text));
  return texts;
}

bool Record::is_block(std::string_view key) const {
  const auto found = find_block(state_, {std::string(key)});
  return found && found->resolved.block;
}

Record Record::block(std::string_view key) const {
  const auto found = find_block(state_, {std::string(key)});
  if (!found)
    throw ConfigError(where(), fmt::format("{} needs the block '{}'", block_name(*state_), key),
                      fmt::format("add {} = [ ... ]", key));
  if (!found->resolved.block)
    throw ConfigError(found->resolved.parts.back().where(), fmt::format("'{}' must be a block", key),
                      fmt::format("write {} = [ ... ]", key));
  return Record(make_child(found->level, *found->entry, found->resolved));
}

std::vector<Record> Record::blocks(std::string_view key) const {
  for (StatePtr s = state_; s; s = s->parent) {
    const Entry* e = s->own(key);
    if (!e) continue;
    const Resolved r = s->resolve(*e);
    if (r.block) return {Record(make_child(s, *e, r))};
    std::vector<Record> members;
    for (const TextRange& element : split_array(r.parts.back())) {
      if (!tutti::config::is_block(element))
        throw ConfigError(element.where(), fmt::format("'{}' is an array of blocks", key),
                          fmt::format("write {} = ([ ... ] : [ ... ])", key));
      members.emplace_back(make_child(s, *e, Resolved{true, false, {element}}));
    }
    return members;
  }
  return {};
}

std::vector<std::string> Record::keys() const {
  std::vector<std::string> names;
  for (const Entry& e : state_->entries) names.push_back(e.key);
  return names;
}

SourcePos Record::where() const { return state_->where; }
std::string Record::path() const { return state_->path(); }

std::vector<std::string> include_paths(const Record& record) {
  const auto& paths = record.state().include_paths;
  return paths ? *paths : std::vector<std::string>{};
}

Record record_from_texts(const std::vector<TextRange>& texts, std::vector<std::string> include_paths,
                         Problems& problems) {
  std::vector<Inside> bodies;
  for (const TextRange& text : texts)
    if (check_brackets(text, problems)) bodies.push_back({text, 0});
  return Record(make_state("", {}, nullptr, std::move(bodies), problems,
                           std::make_shared<const std::vector<std::string>>(std::move(include_paths))));
}

Record record_from_text(std::string text, std::string name) {
  Problems problems;
  Notices notices;
  Loader loader(problems, notices);
  std::vector<TextRange> texts;
  if (TextPtr loaded = loader.text(std::move(name), std::move(text)))
    texts.push_back({loaded, 0, loaded->clean.size()});
  Record record = record_from_texts(texts, loader.directories(), problems);
  problems.throw_if_any();
  return record;
}

}  // namespace tutti::config
