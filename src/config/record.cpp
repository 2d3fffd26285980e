// SPDX-License-Identifier: Apache-2.0
// Record: typed look-ups in one block and, going outward, in the blocks around it.
#include <fmt/format.h>

#include "config/load.h"
#include "config/state.h"
#include "config/values.h"

namespace tutti::config {
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

struct Scalar {
  TextRange range;
  Value value;
};

// The nearest value that is not a block. A block of that name in the record itself is a mistake; one in an enclosing
// record is skipped.
std::optional<Scalar> scalar(const Record::State& from, std::string_view key) {
  for (const Record::State* s = &from; s; s = s->parent.get()) {
    const Entry* e = s->own(key);
    if (!e) continue;
    const Resolved r = s->resolve(*e);
    if (r.block && s != &from) continue;
    if (r.block)
      throw ConfigError(e->written.back().key.where(), fmt::format("'{}' takes a value, not a block", e->key),
                        fmt::format("write {} = value", e->key));
    if (r.value().text == "default") return std::nullopt;
    return Scalar{r.parts.back(), r.value()};
  }
  return std::nullopt;
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
  const auto v = scalar(*state_, key);
  return v ? to_boolean(v->value, key) : otherwise;
}

std::int64_t Record::integer(std::string_view key, std::int64_t otherwise) const {
  const auto v = scalar(*state_, key);
  return v ? to_integer(v->value, key) : otherwise;
}

double Record::number(std::string_view key, double otherwise) const {
  const auto v = scalar(*state_, key);
  return v ? to_number(v->value, key) : otherwise;
}

std::string Record::string(std::string_view key, std::string_view otherwise) const {
  const auto v = scalar(*state_, key);
  return v ? v->value.text : std::string(otherwise);
}

std::vector<std::string> Record::strings(std::string_view key) const {
  std::vector<std::string> texts;
  if (const auto v = scalar(*state_, key))
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
