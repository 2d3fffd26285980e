// SPDX-License-Identifier: Apache-2.0
// config.h -- the interface to the configuration: blocks with inheritance, and typed option structs. An option block is
// a plain struct with its defaults and one describe(). That one table reads the block, rejects unknown keys with a
// suggestion, answers help=NAME and prints the effective settings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/error.h"

namespace tutti::config {

// Per-epoch values such as "0.8*10:0.2*20:0.05". An index past the end returns the last value.
template <class T>
struct Schedule {
  std::vector<T> values;
  Schedule() = default;
  Schedule(T value) : values{value} {}  // NOLINT: a single value is a schedule
  bool empty() const { return values.empty(); }
  std::size_t size() const { return values.size(); }
  const T& at(std::size_t epoch) const { return values[epoch < values.size() ? epoch : values.size() - 1]; }
};

// Visits the options of one block. describe(Fields& f) calls it once per key with the variable that holds the default.
// Its four visitors (read, reject, help, dump) are in src/config/fields.cpp. Keys are case-insensitive.
class Fields {
 public:
  virtual ~Fields() = default;

  // A bool, integer, number or text, or a list of one of the latter three.
  template <class T>
  void operator()(std::string_view key, T& v, std::string_view doc) {
    setting(key, &v, doc);
  }
  template <class T>
  void operator()(std::string_view key, Schedule<T>& v, std::string_view doc) {
    setting(key, &v.values, doc);
  }

  // One of several words, case-insensitive. To add an alias, list a second word with the same value; the first is
  // printed.
  template <class E>
  void choice(std::string_view key, E& v, const std::vector<std::pair<std::string, E>>& words, std::string_view doc) {
    std::vector<std::string> names;
    std::size_t index = words.size();
    for (std::size_t i = 0; i < words.size(); ++i) {
      names.push_back(words[i].first);
      if (index == words.size() && words[i].second == v) index = i;
    }
    word(key, index, names, doc);
    if (index < words.size()) v = words[index].second;
  }

  // A sub-block with its own describe().
  template <class Options>
  void block(std::string_view key, Options& options, std::string_view doc) {
    nested(key, doc, nullptr, [&](Fields& f) { options.describe(f); });
  }
  // The same, and remembers whether the user wrote the block.
  template <class Options>
  void block(std::string_view key, std::optional<Options>& options, std::string_view doc) {
    Options value = options.value_or(Options{});
    bool present = options.has_value();
    nested(key, doc, &present, [&](Fields& f) { value.describe(f); });
    if (present) options = std::move(value);
  }
  // A block whose members are blocks under names chosen by the user, such as reader streams: input=[x=[..];y=[..]].
  template <class Options>
  void blocks(std::string_view key, std::vector<std::pair<std::string, Options>>& members, std::string_view doc) {
    Options sample;
    std::vector<Member> present;
    for (auto& m : members) present.emplace_back(m.first, [&o = m.second](Fields& f) { o.describe(f); });
    named(
        key, doc, [&](Fields& f) { sample.describe(f); }, present,
        [&](const std::string& name, const std::function<void(const std::function<void(Fields&)>&)>& with) {
          Options o;
          with([&](Fields& f) { o.describe(f); });
          members.emplace_back(name, std::move(o));
        });
  }

  // A block with keys that the user chooses and a word for each: layers = [ fc6 = "shard" ].
  struct Pair {
    std::string key, value;
    SourcePos where = {};
  };
  virtual void pairs(std::string_view key, std::vector<Pair>&, std::string_view doc) = 0;

  // An older spelling of a key. If `note` is not empty, it is printed once as a warning.
  virtual void alias(std::string_view old_key, std::string_view key, std::string_view note = {}) = 0;
  // A key that is accepted but has no effect. The reason is printed once.
  virtual void no_effect(std::string_view key, std::string_view because) = 0;
  // The key described last must be present.
  virtual void required(std::string_view key) = 0;
  // Whether the user wrote the key, in this block or, for inherited keys, in an enclosing one.
  virtual bool given(std::string_view key) const = 0;
  // Call before any key is named: only keys of the block itself count, or with a key, only that one has to stand there.
  virtual void inherit_nothing(std::string_view /*key*/ = {}) {}
  // Reports values that break a rule, at the place of the key or, if it is absent, of the block. Only the reading
  // visitor reports.
  virtual void problem(std::string_view key, std::string message, std::string fix = {}) = 0;

 protected:
  using Target = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*,
                              std::vector<std::int64_t>*, std::vector<double>*>;
  virtual void setting(std::string_view key, Target, std::string_view doc) = 0;
  virtual void word(std::string_view, std::size_t& index, const std::vector<std::string>&, std::string_view) = 0;
  virtual void nested(std::string_view, std::string_view, bool* present, const std::function<void(Fields&)>&) = 0;
  using With = std::function<void(const std::function<void(Fields&)>&)>;
  using Member = std::pair<std::string, std::function<void(Fields&)>>;
  virtual void named(std::string_view, std::string_view, const std::function<void(Fields&)>& sample,
                     const std::vector<Member>& present,
                     const std::function<void(const std::string&, const With&)>& each) = 0;
};

// A value as written, with its place. $variables$ are already substituted.
struct Value {
  std::string text;  // without enclosing quotes
  SourcePos where;
};

// One block of settings. Cheap to copy because the state is shared; keeps its parents alive. Lookups continue in
// enclosing blocks, except in functions named own_.
class Record {
 public:
  Record();
  ~Record();
  Record(const Record&);
  Record& operator=(const Record&);

  bool has(std::string_view key) const;      // here or in an enclosing block
  bool has_own(std::string_view key) const;  // in this block itself
  Value value(std::string_view key) const;   // throws ConfigError when absent
  std::optional<Value> find(std::string_view key) const;
  std::optional<Value> find_own(std::string_view key) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;
  std::string string(std::string_view key, std::string_view otherwise) const;
  std::vector<std::string> strings(std::string_view key) const;  // array; empty when absent
  bool is_block(std::string_view key) const;                     // the nearest `key` is [ ] or { }
  Record block(std::string_view key) const;                      // throws ConfigError when absent or not a block
  std::vector<Record> blocks(std::string_view key) const;        // array of blocks ([..]:[..]), or the one block
  std::vector<std::string> keys() const;                         // of this block, in order of first appearance
  SourcePos where() const;                                       // the block itself
  std::string path() const;                                      // "Train.SGD", for messages

  struct State;
  explicit Record(std::shared_ptr<const State>);
  const State& state() const { return *state_; }
  const std::shared_ptr<const State>& shared_state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

// The directories that BrainScript's include searches: those of the config files that this record comes from.
std::vector<std::string> include_paths(const Record&);

// Notices that the user should see once (aliases, keys without effect, near misses). Rank 0 prints them.
struct Notices {
  std::vector<std::string> lines;
  // With its place, the source line and the fix. `once`: not if it is among them already.
  void add(const Diagnostic&, std::string_view kind = "note", bool once = false);
};

// Reads a block through its describe(). Unknown keys, bad values and broken rules are all added to `problems`. `name`
// is the name of the table in messages ("SGD", "DataParallelSGD"). Keys listed in `also` are accepted but not read.
void read_fields(const Record&, std::string_view name, const std::function<void(Fields&)>& describe, Problems& problems,
                 Notices& notices, const std::vector<std::string>& also = {});

template <class Options>
Options read(const Record& record, std::string_view name, Problems& problems, Notices& notices,
             const std::vector<std::string>& also = {}) {
  Options options;
  read_fields(
      record, name, [&](Fields& f) { options.describe(f); }, problems, notices, also);
  return options;
}

// The same for levels where users may define variables (the top level and command blocks): unknown keys are allowed
// there, and near misses of known keys become notices. Option blocks inside them stay strict.
void read_open_fields(const Record&, std::string_view name, const std::function<void(Fields&)>& describe,
                      Problems& problems, Notices& notices, const std::vector<std::string>& also = {});

// The effective settings as "key = value" lines, in the order of describe(), with nested blocks in brackets.
std::string dump_fields(std::string_view name, const std::function<void(Fields&)>& describe, int indent = 0);
// One line per key: name, type, default, help sentence.
std::string help_fields(std::string_view name, const std::function<void(Fields&)>& describe);

}  // namespace tutti::config
