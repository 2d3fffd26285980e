// SPDX-License-Identifier: Apache-2.0
// $variable$ substitution, done when a value is fetched. A block is fetched from the level that holds it, so the
// variables inside it are those of the outermost level that knows the name; what only the block itself knows comes
// last.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "config/state.h"

namespace tutti::config {
namespace {

struct Use {
  std::size_t begin = 0, end = 0;  // of $name$, dollars included
  std::string_view name(std::string_view text) const { return text.substr(begin + 1, end - begin - 2); }
};

// The next $name$ in [from, end); a dollar before anything else means itself.
std::optional<Use> next_use(const TextRange& s, std::size_t from) {
  const std::string_view text = s.text->clean;
  for (std::size_t i = text.find('$', from); i < s.end; i = text.find('$', i + 1)) {
    if (i + 1 < s.end && text[i + 1] == '$')
      throw ConfigError({s.text->source, i, 2}, "$$ is not a variable", "write $name$, or remove one of the dollars");
    std::size_t j = i + 1;
    while (j < s.end && (std::isalnum(static_cast<unsigned char>(text[j])) || text[j] == '_')) ++j;
    if (j > i + 1 && j < s.end && text[j] == '$' && !std::isdigit(static_cast<unsigned char>(text[i + 1])))
      return Use{i, j + 1};
  }
  return std::nullopt;
}

// Entries that are being resolved: a variable among them refers to itself. Variables that double at each step could
// exceed any memory, so the work for one value is limited.
class Chain {
 public:
  explicit Chain(const Entry* entry) {
    if (active().entries.empty()) active().steps = 0;
    active().entries.push_back(entry);
    ++active().steps;
  }
  ~Chain() { active().entries.pop_back(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  static bool contains(const Entry* entry) {
    return std::find(active().entries.begin(), active().entries.end(), entry) != active().entries.end();
  }
  static bool too_long() {
    const Active& a = active();
    return !a.entries.empty() && (a.entries.size() >= deepest || a.steps >= most_steps);
  }

 private:
  static constexpr std::size_t deepest = 100, most_steps = 2'000;
  struct Active {
    std::vector<const Entry*> entries;
    std::size_t steps = 0;
  };
  static Active& active() {
    thread_local Active a;
    return a;
  }
};

std::string variable_value(const TextRange& s, const Use& use, const Record::State& level) {
  const std::string_view name = use.name(s.text->clean);
  const SourcePos where{s.text->source, use.begin, use.end - use.begin};
  const Record::State* holder = nullptr;
  for (const Record::State* l = &level; l; l = l->parent.get())
    if (l->own(name)) holder = l;
  if (!holder) {
    std::vector<std::string> known;
    for (const Record::State* l = &level; l; l = l->parent.get())
      for (const Entry& e : l->entries) known.push_back(e.key);
    const std::string near = nearest(name, known);
    throw ConfigError(where, fmt::format("No variable found with the name '{}'", name),
                      near.empty() ? fmt::format("define it: {} = ...", name)
                                   : fmt::format("did you mean ${}$? Else define it: {} = ...", near, name));
  }
  const Entry* entry = holder->own(name);
  if (Chain::contains(entry))
    throw ConfigError(where, fmt::format("the variable '{}' refers to itself", name),
                      "use another name for one of them; a variable means its outermost definition");
  if (Chain::too_long())
    throw ConfigError(where, fmt::format("too many variables lead to '{}'", name),
                      "look for variables that are built out of each other");
  const Chain guard(entry);
  return holder->resolve(*entry).value().text;
}

// The text as it would be had the user written `replacement` there: places keep their line, and the line that is shown
// is the one that was read. The original writing stays reachable as origin of values that stand on one line.
TextRange replaced(const TextRange& s, const std::string& replacement) {
  const Source& old = *s.text->source;
  auto text = std::make_shared<Text>();
  const auto put = [&](const std::string& from) { return from.substr(0, s.begin) + replacement + from.substr(s.end); };
  const bool same_lines =
      s.view().find('\n') != std::string_view::npos &&
      std::count(replacement.begin(), replacement.end(), '\n') == std::count(s.view().begin(), s.view().end(), '\n');
  std::shared_ptr<const SourcePos> origin;
  if (!same_lines) origin = std::make_shared<SourcePos>(s.where());
  text->clean = put(s.text->clean);
  text->source = std::make_shared<Source>(Source{old.name, put(old.text), origin});
  return {text, s.begin, s.begin + replacement.size()};
}

}  // namespace

TextRange substitute(const TextRange& raw, const Record::State& level) {
  constexpr int most_rounds = 50;
  constexpr std::size_t largest_value = 1u << 20;
  TextRange s = raw;
  for (int round = 0; round < most_rounds; ++round) {
    auto use = next_use(s, s.begin);
    if (!use) {
      if (round > 0) {
        Problems problems;
        check_brackets(s, problems);  // a variable may bring half a bracket pair
        problems.throw_if_any();
      }
      return trim(s);
    }
    std::string result;
    std::size_t done = s.begin;
    for (; use; use = next_use(s, done)) {
      result += s.text->clean.substr(done, use->begin - done);
      result += variable_value(s, *use, level);
      done = use->end;
      if (result.size() > largest_value)
        throw ConfigError(raw.where(), "this text becomes too long with its variables",
                          "look for a variable that holds more than you think");
    }
    result += s.text->clean.substr(done, s.end - done);
    // Always from the raw text, so that the origin is what the user wrote.
    s = replaced(raw, result);
  }
  throw ConfigError(raw.where(), "the variables in this text never end",
                    "look for a variable whose value holds itself");
}

}  // namespace tutti::config
