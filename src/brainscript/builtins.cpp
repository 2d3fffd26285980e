// SPDX-License-Identifier: Apache-2.0
// The functions on numbers, strings and arrays that are written in C++ (semantics 2.7). Names that begin with '_' are
// for the library text only.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>

#include "brainscript/evaluator.h"
#include "brainscript/loaded_network.h"

namespace tutti::brainscript {
namespace {

// The arguments of one call, checked and placed.
struct Args {
  Evaluator& ev;
  const Call& call;

  const Value& operator[](std::size_t i) const { return ev.force(call.args[i], call.site, call.scope); }
  double number(std::size_t i, std::string_view what) const {
    return ev.number((*this)[i], what, *call.site, call.scope);
  }
  std::int64_t integer(std::size_t i, std::string_view what) const {
    return ev.integer((*this)[i], what, *call.site, call.scope);
  }
  const std::string& text(std::size_t i, std::string_view what) const {
    return ev.text((*this)[i], what, *call.site, call.scope);
  }
  [[noreturn]] void fail(std::string message, std::string fix = {}) const {
    Evaluator::fail(*call.site, call.scope, std::move(message), std::move(fix));
  }
  std::string shown(std::size_t i) const { return ev.shown((*this)[i], *call.site, call.scope); }
};

// One printf conversion, such as '%.3f' or 'epoch %d', applied to a value.
std::string formatted(const Args& a, std::size_t value, const std::string& how) {
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
      text = fmt::sprintf(spec + kind, a.integer(value, "a value formatted as a whole number"));
    else
      text = fmt::sprintf(spec + kind, a.number(value, "a value formatted as a number"));
    out += text;
    i = end;
  }
  return kind ? out : out + a.shown(value);
}

Value print(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  ev.notice(formatted(a, 0, a.text(1, "'format'")));
  return a[0];
}

Value fail_with(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  a.fail(a.shown(0));
}

Value format(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  std::string s = formatted(a, 0, a.text(1, "'how'"));
  ev.count(s.size(), *c.site, c.scope);
  return s;
}

Value replace(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  const std::string &s = a.text(0, "'s'"), &from = a.text(1, "'from'"), &to = a.text(2, "'to'");
  if (from.empty()) return s;
  std::string out;
  std::size_t at = 0;
  for (std::size_t hit; (hit = s.find(from, at)) != std::string::npos; at = hit + from.size()) {
    out += s.substr(at, hit - at) + to;
    ev.count(to.size(), *c.site, c.scope);
  }
  return out + s.substr(at);
}

Value substr(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  const std::string& s = a.text(0, "'s'");
  std::int64_t begin = a.integer(1, "'begin'");
  const std::int64_t count = a.integer(2, "'num'"), size = static_cast<std::int64_t>(s.size());
  if (begin < 0) begin += size;
  if (begin < 0 || begin > size || count < 0)
    a.fail(fmt::format("cannot take {} characters from position {} of a string of {}", count, begin, size));
  return s.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

Value chr(Evaluator& ev, const Call& c) {
  const std::int64_t code = Args{ev, c}.integer(0, "a character code");
  if (code < 1 || code > 127) Args{ev, c}.fail(fmt::format("{} is not the code of an ASCII character", code));
  return std::string(1, static_cast<char>(code));
}

Value length(Evaluator& ev, const Call& c) {
  const Value& v = Args{ev, c}[0];
  if (auto* s = std::get_if<std::string>(&v)) return static_cast<double>(s->size());
  if (auto* a = std::get_if<Array*>(&v)) return static_cast<double>((*a)->elements.size());
  return 1.0;
}

Value numeric(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  const std::string& what = a.text(0, "the function");
  const double x = a.number(1, "the argument");
  if (what == "Abs") return std::abs(x);
  if (what == "Floor") return std::floor(x);
  if (what == "Ceil") return std::ceil(x);
  if (what == "Round") return std::round(x);
  if (what == "Sqrt") return std::sqrt(x);
  if (what == "Exp") return std::exp(x);
  if (what == "Log") return std::log(x);
  if (what == "Sin") return std::sin(x);
  if (what == "Cosine") return std::cos(x);
  if (what == "Sign") return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0;
  if (x < 0 || x != std::floor(x)) a.fail(fmt::format("{} has no factorial", x));  // Fac is the last one
  return std::round(std::tgamma(x + 1));
}

Value min(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  return std::min(a.number(0, "'a'"), a.number(1, "'b'"));
}

Value max(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  return std::max(a.number(0, "'a'"), a.number(1, "'b'"));
}

std::pair<double, double> whole_operands(const Args& a) {
  const auto x = static_cast<double>(a.integer(0, "'x'")), y = static_cast<double>(a.integer(1, "'y'"));
  if (y == 0) a.fail(fmt::format("{} cannot be divided by 0", x));
  return {x, y};
}

Value mod(Evaluator& ev, const Call& c) {
  const auto [x, y] = whole_operands({ev, c});
  return std::fmod(x, y);
}

Value int_div(Evaluator& ev, const Call& c) {
  const auto [x, y] = whole_operands({ev, c});
  return std::trunc(x / y);
}

Value is_same_object(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  const Value x = a[0], y = a[1];
  const auto object = [](const Value& v) {
    return !std::holds_alternative<double>(v) && !std::holds_alternative<bool>(v) &&
           !std::holds_alternative<std::string>(v);
  };
  return object(x) && x == y;
}

template <class T>
Value is_a(Evaluator& ev, const Call& c) {
  return std::holds_alternative<T>(Args{ev, c}[0]);
}

// Gives a node its name.
Value named(Evaluator& ev, const Call& c) {
  const Args a{ev, c};
  const std::string name = a.text(0, "'name'");
  if (auto* node = std::get_if<NodeRef>(&a[1])) ev.nodes().graph.nodes[node->index].name = name;
  return a[1];
}

// A record or an array whose members are evaluated in the order in which they are written.
Value in_order(Evaluator& ev, const Call& c) {
  const auto all = [&](const auto& self, const Value& v) -> void {
    if (auto* r = std::get_if<Record*>(&v))
      for (const auto& [name, t] : (*r)->members) self(self, ev.force(t, c.site, c.scope));
    if (auto* a = std::get_if<Array*>(&v))
      for (Thunk* t : (*a)->elements) self(self, ev.force(t, c.site, c.scope));
  };
  all(all, Args{ev, c}[0]);
  return Args{ev, c}[0];
}

// A dynamic axis is known by the name under which it is defined.
Value axis_name(Evaluator&, const Call& c) { return c.path->str(); }

}  // namespace

const std::vector<Native>& natives() {
  const std::string empty;
  static const std::vector<Native> all = {
      {"Print", {{"value", {}}, {"format", empty}}, print},
      {"Fail", {{"what", {}}}, fail_with},
      {"Format", {{"what", {}}, {"how", empty}}, format},
      {"Replace", {{"s", {}}, {"from", {}}, {"to", {}}}, replace},
      {"Substr", {{"s", {}}, {"begin", {}}, {"num", {}}}, substr},
      {"Chr", {{"c", {}}}, chr},
      {"Length", {{"x", {}}}, length},
      {"Min", {{"a", {}}, {"b", {}}}, min},
      {"Max", {{"a", {}}, {"b", {}}}, max},
      {"Mod", {{"x", {}}, {"y", {}}}, mod},
      {"IntDiv", {{"x", {}}, {"y", {}}}, int_div},
      {"IsSameObject", {{"a", {}}, {"b", {}}}, is_same_object},
      {"IsArray", {{"x", {}}}, is_a<Array*>},
      {"IsDouble", {{"x", {}}}, is_a<double>},
      {"IsBool", {{"x", {}}}, is_a<bool>},
      {"_IsNone", {{"x", {}}}, is_a<None>},
      {"_Named", {{"name", {}}, {"node", {}}}, named},
      {"_InOrder", {{"all", {}}}, in_order},
      {"_Numeric", {{"what", {}}, {"x", {}}}, numeric},
      {"DynamicAxis", {}, axis_name},
      {"_LoadNetwork", {{"pathName", {}}}, load_network},
      {"_CloneFunction", {{"inputNodes", {}}, {"outputNodes", {}}, {"parameters", {}}}, clone_function},
      {"_EditNetwork", {{"inputModel", {}}, {"editFunctions", {}}, {"additionalRoots", {}}}, edit_network},
  };
  return all;
}

}  // namespace tutti::brainscript
