// SPDX-License-Identifier: Apache-2.0
// The functions on numbers, strings and arrays that are written in C++. Names that begin with '_' are
// for the library text only.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "brainscript/evaluator.h"

namespace tutti::brainscript {
namespace {

// One printf conversion, such as '%.3f' or 'epoch %d', applied to a value.
std::string formatted(const Call& a, std::size_t value, const std::string& how) {
  if (how.empty()) return a.shown(value);
  std::string spec, out;
  char kind = 0;
  for (std::size_t i = 0; i < how.size(); ++i) {
    if (how[i] != '%') {
      out += how[i];
      continue;
    }
    if (i + 1 < how.size() && how[i + 1] == '%') {
      out += '%';
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < how.size() && std::string_view("+-# 0123456789.").find(how[end]) != std::string_view::npos) ++end;
    if (kind || end == how.size() || end - i > 12 ||
        std::string_view("dixXfFeEgGs").find(how[end]) == std::string_view::npos)
      a.fail(fmt::format("cannot format by '{}'", how),
             "use one of %d %x %f %e %g %s, with a width if you like: '%.3f'");
    spec = how.substr(i, end - i);
    kind = how[end];
    if (spec.find_first_of("123456789") != std::string::npos && spec.size() > 7)
      a.fail(fmt::format("the width in '{}' is too large", how));
    std::string text;
    if (kind == 's')
      text = fmt::sprintf(spec + 's', a.shown(value));
    else if (std::string_view("dixX").find(kind) != std::string_view::npos)
      text = fmt::sprintf(spec + kind, a.ev.integer(a[value], "a value formatted as a whole number", a.site, a.scope));
    else
      text = fmt::sprintf(spec + kind, a.ev.number(a[value], "a value formatted as a number", a.site, a.scope));
    out += text;
    i = end;
  }
  return kind ? out : out + a.shown(value);
}

Value print(const Call& c) {
  const std::string place = render({Evaluator::place(c.site, c.scope), "", ""}, "note");
  c.ev.notice(place.substr(0, place.find('\n')) + formatted(c, 0, c.text(1)));
  return c[0];
}

Value format(const Call& c) {
  std::string s = formatted(c, 0, c.text(1));
  c.ev.count(s.size(), c.site, c.scope);
  return s;
}

Value replace(const Call& c) {
  const std::string &s = c.text(0), &from = c.text(1), &to = c.text(2);
  if (from.empty()) return s;
  std::string out;
  std::size_t at = 0;
  for (std::size_t hit; (hit = s.find(from, at)) != std::string::npos; at = hit + from.size()) {
    out += s.substr(at, hit - at) + to;
    c.ev.count(to.size(), c.site, c.scope);
  }
  return out + s.substr(at);
}

Value substr(const Call& c) {
  const std::string& s = c.text(0);
  std::int64_t begin = c.integer(1);
  const std::int64_t count = c.integer(2), size = static_cast<std::int64_t>(s.size());
  if (begin < 0) begin += size;
  if (begin < 0 || begin > size || count < 0)
    c.fail(fmt::format("cannot take {} characters from position {} of a string of {}", count, begin, size));
  return s.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

Value chr(const Call& c) {
  const std::int64_t code = c.ev.integer(c[0], "a character code", c.site, c.scope);
  if (code < 1 || code > 127) c.fail(fmt::format("{} is not the code of an ASCII character", code));
  return std::string(1, static_cast<char>(code));
}

Value length(const Call& c) {
  if (auto* s = std::get_if<std::string>(&c[0])) return static_cast<double>(s->size());
  if (auto* a = std::get_if<Array*>(&c[0])) return static_cast<double>((*a)->elements.size());
  return 1.0;
}

Value numeric(const Call& c) {
  using Function = double (*)(double);
  static const std::map<std::string, Function> functions = {
      {"Abs", std::abs},   {"Floor", std::floor},
      {"Ceil", std::ceil}, {"Round", [](double x) { return std::floor(x + 0.5); }},
      {"Sqrt", std::sqrt}, {"Exp", std::exp},
      {"Log", std::log},   {"Sin", std::sin},
      {"Cosine", std::cos}};
  const std::string& what = c.text(0);
  const double x = c.ev.number(c[1], "the argument", c.site, c.scope);
  if (const auto found = functions.find(what); found != functions.end()) return found->second(x);
  if (what == "Sign") return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0;
  if (x < 0 || x != std::floor(x)) c.fail(fmt::format("{} has no factorial", x));  // Fac is the last one
  return std::round(std::tgamma(x + 1));
}

std::pair<double, double> whole_operands(const Call& c) {
  const auto x = static_cast<double>(c.integer(0)), y = static_cast<double>(c.integer(1));
  if (y == 0) c.fail(fmt::format("{} cannot be divided by 0", x));
  return {x, y};
}

Value mod(const Call& c) {
  const auto [x, y] = whole_operands(c);
  return std::fmod(x, y);
}

Value int_div(const Call& c) {
  const auto [x, y] = whole_operands(c);
  return std::trunc(x / y);
}

Value is_same_object(const Call& c) {
  const Value x = c[0], y = c[1];
  const bool object =
      !std::holds_alternative<double>(x) && !std::holds_alternative<bool>(x) && !std::holds_alternative<std::string>(x);
  return object && x == y;
}

template <class T>
Value is_a(const Call& c) {
  return std::holds_alternative<T>(c[0]);
}

// Gives a node its name.
Value named(const Call& c) {
  const std::string name = c.text(0);
  if (auto* node = std::get_if<NodeRef>(&c[1])) c.ev.nodes().graph.nodes[node->index].name = name;
  return c[1];
}

// The value; warns if the condition holds.
Value warn_if(const Call& c) {
  if (c.ev.boolean(c[0], "the condition", c.site, c.scope))
    c.ev.notice({Evaluator::place(c.site, c.scope), c.text(1), c.text(2)});
  return c[3];
}

// A record or an array whose members are evaluated in the order in which they are written.
Value in_order(const Call& c) {
  const auto all = [&](const auto& self, const Value& v) -> void {
    if (auto* r = std::get_if<Record*>(&v))
      for (const auto& [name, t] : (*r)->members) self(self, c.ev.force(t, &c.site, c.scope));
    if (auto* a = std::get_if<Array*>(&v))
      for (Thunk* t : (*a)->elements) self(self, c.ev.force(t, &c.site, c.scope));
  };
  all(all, c[0]);
  return c[0];
}

}  // namespace

const std::vector<Native>& natives() {
  const std::string empty;
  static const std::vector<Native> all = {
      {"Print", {{"value", {}}, {"format", empty}}, print, "prints a value once and gives it back"},
      {"Fail",
       {{"what", {}}, {"fix", empty}},
       [](const Call& c) -> Value { c.fail(c.shown(0), c.text(1)); },
       "ends the run with this message"},
      {"Format", {{"what", {}}, {"how", empty}}, format, "a value as text, by a printf conversion"},
      {"Replace", {{"s", {}}, {"from", {}}, {"to", {}}}, replace, "the text with one part replaced by another"},
      {"Substr", {{"s", {}}, {"begin", {}}, {"num", {}}}, substr, "num characters of a text"},
      {"Chr", {{"c", {}}}, chr, "the character of a code"},
      {"Length", {{"x", {}}}, length, "number of elements of an array, or characters of a text"},
      {"Min",
       {{"a", {}}, {"b", {}}},
       [](const Call& c) -> Value { return std::min(c.number(0), c.number(1)); },
       "the smaller of two numbers"},
      {"Max",
       {{"a", {}}, {"b", {}}},
       [](const Call& c) -> Value { return std::max(c.number(0), c.number(1)); },
       "the larger of two numbers"},
      {"Mod", {{"x", {}}, {"y", {}}}, mod, "remainder of a division of whole numbers"},
      {"IntDiv", {{"x", {}}, {"y", {}}}, int_div, "quotient of whole numbers"},
      {"IsSameObject", {{"a", {}}, {"b", {}}}, is_same_object, "whether two names stand for one object"},
      {"IsArray", {{"x", {}}}, is_a<Array*>, "whether the value is an array"},
      {"IsDouble", {{"x", {}}}, is_a<double>, "whether the value is a number"},
      {"IsBool", {{"x", {}}}, is_a<bool>, "whether the value is true or false"},
      {"_IsNone", {{"x", {}}}, is_a<None>},
      {"_Named", {{"name", {}}, {"node", {}}}, named},
      {"_InOrder", {{"all", {}}}, in_order},
      {"_WarnIf", {{"condition", {}}, {"message", {}}, {"fix", {}}, {"value", {}}}, warn_if},
      {"_Numeric", {{"what", {}}, {"x", {}}}, numeric},
      // A dynamic axis is known by the name under which it is defined.
      {"DynamicAxis",
       {},
       [](const Call& c) -> Value { return c.path->str(); },
       "an axis of sequences of its own, for inputs with other lengths"},
      {"_LoadNetwork", {{"pathName", {}}}, load_network},
      {"_CloneFunction", {{"inputNodes", {}}, {"outputNodes", {}}, {"parameters", {}}}, clone_function},
      {"_EditNetwork", {{"inputModel", {}}, {"editFunctions", {}}, {"additionalRoots", {}}}, edit_network},
  };
  return all;
}

}  // namespace tutti::brainscript
