// SPDX-License-Identifier: Apache-2.0
// The visitor that records a describe(), and the output made from it: help=NAME and the effective settings.
#include "config/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/syntax.h"
#include "config/text.h"

namespace tutti::config {
namespace {

class Tabulating : public Fields {
 public:
  explicit Tabulating(Table& table) : table_(table) {}

  void alias(std::string_view old_key, std::string_view key, std::string_view note) override {
    table_.aliases.push_back({std::string(old_key), std::string(key), std::string(note)});
  }
  void no_effect(std::string_view key, std::string_view because) override {
    table_.no_effect.emplace_back(key, because);
  }
  void required(std::string_view key) override {
    for (Row& r : table_.rows)
      if (equal_keys(r.key, key)) r.required = true;
  }
  bool given(std::string_view) const override { return false; }
  void problem(std::string_view, std::string, std::string) override {}

 protected:
  void setting(std::string_view key, Target target, std::string_view doc) override {
    static constexpr const char* types[] = {"bool", "integer", "number", "text", "texts", "integers", "numbers"};
    add(key, types[target.index()], std::visit([](auto* v) { return written(*v); }, target), doc);
  }
  void word(std::string_view key, std::size_t& index, const std::vector<std::string>& words,
            std::string_view doc) override {
    add(key, fmt::format("{}", fmt::join(words, "|")), index < words.size() ? words[index] : "\"\"", doc);
  }
  void nested(std::string_view key, std::string_view doc, bool* present,
              const std::function<void(Fields&)>& describe) override {
    Row& row = add(key, "block", "", doc);
    row.present = !present || *present;
    row.nested = tabulate(describe);
  }
  void named(std::string_view key, std::string_view doc, const std::function<void(Fields&)>& sample,
             const std::vector<Member>& present, const std::function<void(const std::string&, const With&)>&) override {
    Row& row = add(key, "blocks", "", doc);
    row.named = true;
    row.nested = tabulate(sample);
    row.present = !present.empty();
    for (const auto& [name, describe] : present) row.members.emplace_back(name, tabulate(describe));
  }
  void pairs(std::string_view key, std::vector<Pair>& all, std::string_view doc) override {
    Row& row = add(key, "block", "", doc);
    row.present = !all.empty();
    auto inner = std::make_shared<Table>();
    for (const Pair& p : all) {
      Row& r = inner->rows.emplace_back();
      r.key = p.key, r.type = "text", r.value = quoted_if_needed(p.value);
    }
    row.nested = std::move(inner);
  }

 private:
  static std::string written(bool v) { return v ? "true" : "false"; }
  static std::string written(std::int64_t v) { return std::to_string(v); }
  static std::string written(double v) { return from_number(v); }
  static std::string written(const std::string& v) { return quoted_if_needed(v); }
  template <class T>
  static std::string written(const std::vector<T>& v) {
    std::vector<std::string> elements;
    for (const T& e : v) elements.push_back(written(e));
    return elements.empty() ? "\"\"" : from_elements(elements);
  }
  static std::string written(const std::vector<std::string>& v) {
    std::vector<std::string> elements;
    bool quoted = v.size() == 1 && v[0].empty();
    for (const auto& e : v) {
      const bool special = e.find_first_of(":*") != std::string::npos && e.find('"') == std::string::npos;
      elements.push_back(special ? '"' + e + '"' : quoted_if_needed(e));
      quoted |= elements.back() != e;
    }
    return quoted ? "(" + from_elements(elements) + ")" : elements.empty() ? "\"\"" : from_elements(elements);
  }
  Row& add(std::string_view key, std::string type, std::string value, std::string_view doc) {
    Row row;
    row.key = key;
    row.type = std::move(type);
    row.value = std::move(value);
    row.doc = doc;
    table_.rows.push_back(std::move(row));
    return table_.rows.back();
  }

  Table& table_;
};

std::string values(const Table& table, int indent) {
  const std::string lead(static_cast<std::size_t>(indent), ' ');
  const auto in_brackets = [&](std::string_view name, int deeper, const std::string& inside) {
    return fmt::format("{0}{1} = [\n{2}{0}]\n", std::string(static_cast<std::size_t>(indent + deeper), ' '), name,
                       inside);
  };
  std::string out;
  for (const Row& r : table.rows) {
    if (!r.present) continue;
    if (!r.nested) {
      out += fmt::format("{}{} = {}\n", lead, r.key, r.value);
      continue;
    }
    std::string inside;
    if (!r.named) inside = values(*r.nested, indent + 2);
    for (const auto& [name, member] : r.members) inside += in_brackets(name, 2, values(*member, indent + 4));
    out += in_brackets(r.key, 0, inside);
  }
  return out;
}

void print_help(const Table& table, int indent, std::string& out) {
  const std::string lead(static_cast<std::size_t>(indent), ' ');
  std::size_t key_width = 0, type_width = 0;
  std::vector<std::string> types;
  for (const Row& r : table.rows) {
    types.push_back(type_text(r));
    key_width = std::max(key_width, r.key.size());
    if (types.back().size() <= 40) type_width = std::max(type_width, types.back().size());
  }
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const Row& r = table.rows[i];
    out += fmt::format("{}{:<{}}  {:<{}}  {}", lead, r.key, key_width, types[i], type_width, r.doc);
    for (const auto& a : table.aliases)
      if (equal_keys(a.key, r.key)) out += fmt::format(" (also: {})", a.old_key);
    out += '\n';
    if (r.named) out += fmt::format("{}  under any name, each = [ ... ] with\n", lead);
    if (r.nested) print_help(*r.nested, indent + (r.named ? 4 : 2), out);
  }
  if (table.no_effect.empty()) return;
  std::vector<std::string> keys;
  for (const auto& [key, because] : table.no_effect) keys.push_back(key);
  out += fmt::format("{}accepted without effect: {}\n", lead, fmt::join(keys, ", "));
}

}  // namespace

const Row* Table::row(std::string_view key) const {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return equal_keys(r.key, key); });
  return at == rows.end() ? nullptr : &*at;
}

std::vector<std::string> Table::keys() const {
  std::vector<std::string> names;
  for (const Row& r : rows) names.push_back(r.key);
  return names;
}

std::vector<std::string> Table::names_of(std::string_view key) const {
  std::vector<std::string> names{std::string(key)};
  for (const Alias& a : aliases)
    if (equal_keys(a.key, key)) names.push_back(a.old_key);
  return names;
}

bool Table::knows(std::string_view key) const {
  return row(key) ||
         std::any_of(aliases.begin(), aliases.end(), [&](const Alias& a) { return equal_keys(a.old_key, key); }) ||
         std::any_of(no_effect.begin(), no_effect.end(), [&](const auto& n) { return equal_keys(n.first, key); });
}

std::string type_text(const Row& r) {
  if (r.nested) return "= [ ... ]";
  if (r.required) return r.type + ", required";
  return r.value == "\"\"" ? r.type : r.type + " = " + r.value;
}

std::shared_ptr<Table> tabulate(const std::function<void(Fields&)>& describe) {
  auto table = std::make_shared<Table>();
  Tabulating visitor(*table);
  describe(visitor);
  return table;
}

std::string dump_fields(std::string_view name, const std::function<void(Fields&)>& describe, int indent) {
  const std::string lead(static_cast<std::size_t>(indent), ' ');
  if (name.empty()) return values(*tabulate(describe), indent);
  return fmt::format("{0}{1} = [\n{2}{0}]\n", lead, name, values(*tabulate(describe), indent + 2));
}

std::string help_fields(std::string_view name, const std::function<void(Fields&)>& describe) {
  std::string out = name.empty() ? "" : fmt::format("{}:\n", name);
  print_help(*tabulate(describe), name.empty() ? 0 : 2, out);
  return out;
}

}  // namespace tutti::config
