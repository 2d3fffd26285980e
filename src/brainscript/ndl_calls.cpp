// SPDX-License-Identifier: Apache-2.0
#include "brainscript/ndl_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "brainscript/not_available.h"
#include "graph/shapes.h"

namespace tutti::brainscript::ndl {
namespace {

bool bears(const Parameter& p, const std::string& name) {
  return std::any_of(p.names.begin(), p.names.end(),
                     [&](const std::string& n) { return lower(n[0] == '_' ? n.substr(1) : n) == lower(name); });
}

}  // namespace

void fail(const Span& where, std::string message, std::string fix) {
  throw ConfigError(where.pos(), std::move(message), std::move(fix));
}

const Function* find_function(const std::string& name) {
  for (const auto& f : functions())
    for (const auto& n : f.names)
      if (lower(n) == lower(name)) return &f;
  return nullptr;
}

void check_variables(const Expression& e) {
  const std::size_t from = e.text.find('$'), to = from == std::string::npos ? from : e.text.find('$', from + 1);
  if (to != std::string::npos)
    fail(e.where, fmt::format("No variable found with the name '{}'", e.text.substr(from + 1, to - from - 1)),
         "define it in the config");
}

bool names(const Expression& e, const std::string& lower_name) {
  if (e.kind == Expression::Kind::name && lower(e.text.substr(0, e.text.find('.'))) == lower_name) return true;
  return std::any_of(e.arguments.begin(), e.arguments.end(),
                     [&](const Argument& a) { return names(a.value, lower_name); });
}

std::string shown(const Parameter& p) { return p.names[0][0] == '_' ? p.names[0].substr(1) : p.names[0]; }

bool is_delay(const Function& f) { return f.operation == "PastValue" || f.operation == "FutureValue"; }

Matched match(const Function& f, const Expression& e) {
  Matched m;
  m.by_parameter.assign(f.parameters.size(), nullptr);
  std::size_t next = 0;
  for (const auto& a : e.arguments) {
    if (lower(a.name) == "tag") {
      m.tag = &a;
      continue;
    }
    std::size_t k = next;
    if (a.name.empty())
      ++next;
    else
      for (k = 0; k < f.parameters.size() && !bears(f.parameters[k], a.name); ++k) {
      }
    if (k < f.parameters.size() && f.parameters[k].kind == ParameterKind::nodes) return m;  // takes all the rest
    if (k >= f.parameters.size()) {
      std::vector<std::string> known;
      for (const auto& p : f.parameters) known.push_back(shown(p));
      const std::string near = nearest(a.name, known);
      fail(a.value.where,
           a.name.empty() ? fmt::format("{} takes at most {} arguments", e.text, f.parameters.size())
                          : fmt::format("{} has no option '{}'", e.text, a.name),
           near.empty() ? fmt::format("it is {} ({})", e.text, fmt::join(known, ", "))
                        : fmt::format("did you mean '{}'?", near));
    }
    if (m.by_parameter[k])
      fail(a.value.where, fmt::format("'{}' of {} is given twice", shown(f.parameters[k]), e.text));
    m.by_parameter[k] = &a;
  }
  return m;
}

const Function& function_of(const Expression& e, const std::vector<std::string>& macros) {
  const bool with_list = e.arguments.size() > 2 && e.arguments[2].value.kind == Expression::Kind::list;
  const bool convolution = lower(e.text) == "convolution" || lower(e.text) == "convolve";
  if (const Function* f = find_function(convolution && with_list ? "Convolution{}" : e.text)) {
    const bool cols = is_delay(*f) && e.arguments.size() > 2 && e.arguments[2].name.empty() &&
                      e.arguments[1].value.kind == Expression::Kind::number;
    return cols ? *find_function(e.text + " with cols") : *f;
  }
  if (const NotAvailable* n = find_not_available(e.text))
    fail(e.where, fmt::format("the operation '{}' is not part of this version", n->name), n->instead);
  std::vector<std::string> known = macros;
  for (const auto& f : functions()) known.insert(known.end(), f.names.begin(), f.names.end());
  std::erase_if(known, [](const auto& name) { return name.find_first_of(" {") != std::string::npos; });
  const std::string near = nearest(e.text, known);
  fail(e.where, fmt::format("there is no function or macro '{}'", e.text),
       near.empty() ? "docs/ndl.md lists the functions" : fmt::format("did you mean '{}'?", near));
}

void settle_parameter(graph::Node& node, const Expression& e, const std::function<double(double wanted)>& seed) {
  static const std::vector<std::string> random = {"uniform",       "gaussian",     "normal",    "xavier",
                                                  "glorotUniform", "glorotNormal", "heUniform", "heNormal"};
  static const std::vector<std::string> others = {"fixedValue", "zero", "bilinear", "fromFile", "fromLiteral"};
  auto& at = node.attributes;
  const std::string init = lower(graph::text(node, "init"));
  std::vector<std::string> known = random;
  known.insert(known.end(), others.begin(), others.end());
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& k) { return lower(k) == init; });
  if (found == known.end())
    fail(e.where, fmt::format("there is no init '{}'", graph::text(node, "init")),
         fmt::format("use one of {}", fmt::join(known, ", ")));
  at["init"] = *found;
  const bool draws = found - known.begin() < static_cast<long>(random.size());
  if (draws) {
    at["randomSeed"] = seed(graph::number(node, "randomSeed", -1));
  } else {
    at.erase("randomSeed"), at.erase("initValueScale");
  }
  if (*found != "fixedValue") at.erase("value");
  if (*found != "fromFile") at.erase("initFromFilePath");
  if (*found != "fromLiteral") at.erase("initFromLiteral");
  if (*found == "bilinear") at["initFilterRank"] = 2.0;
}

std::optional<bool> truth(const std::string& word) {
  const std::string w = lower(word);
  if (w == "true" || w == "t") return true;
  if (w == "false" || w == "f") return false;
  return std::nullopt;
}

graph::Attribute attribute_of(const Parameter& p, const Value& value, const std::string& call, const Span& where) {
  const auto* n = std::get_if<double>(&value);
  const auto* s = std::get_if<std::string>(&value);
  const auto what = [&] { return fmt::format("'{}' of {}", shown(p), call); };
  switch (p.kind) {
    case ParameterKind::integer:
      if (n && *n != std::floor(*n)) fail(where, fmt::format("{} must be a whole number, not {}", what(), *n));
      [[fallthrough]];
    case ParameterKind::number:
      if (!n) fail(where, fmt::format("{} must be a number{}", what(), s ? fmt::format(", not '{}'", *s) : ""));
      return *n;
    case ParameterKind::flag:
      if (n && (*n == 0 || *n == 1)) return *n == 1;
      if (!s || !truth(*s)) fail(where, fmt::format("{} must be true or false", what()));
      return *truth(*s);
    case ParameterKind::text:
      if (!s) fail(where, fmt::format("{} must be a word", what()));
      return *s;
    case ParameterKind::dims:
      if (n) return std::vector<double>{*n};
      if (s && truth(*s)) return std::vector<double>{*truth(*s) ? 1.0 : 0.0};
      if (const auto* l = std::get_if<std::vector<double>>(&value)) return *l;
      fail(where, fmt::format("{} must be a number or a list of numbers", what()), "write {3, 3} or 3:3");
    case ParameterKind::node:
    case ParameterKind::nodes:
    case ParameterKind::ignored:
      break;
  }
  return 0.0;
}

std::optional<double> constant_value(const graph::Node& node) {
  if (node.operation != "LearnableParameter" || graph::text(node, "init") != "fixedValue" ||
      graph::number(node, "learningRateMultiplier", 1) != 0 || graph::declared_shape(node).elements() != 1)
    return std::nullopt;
  return graph::number(node, "value", 0);
}

}  // namespace tutti::brainscript::ndl
