// SPDX-License-Identifier: Apache-2.0
// Which initialiser a parameter gets, and which seed: CNTK's rules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "brainscript/evaluator.h"
#include "config/text.h"
#include "graph/initialize.h"

namespace tutti::brainscript {
namespace {

const std::vector<std::string> random_inits = {"uniform",      "gaussian",  "normal",   "xavier",    "glorotUniform",
                                               "glorotNormal", "heUniform", "heNormal", "orthogonal"};

const std::vector<std::string>& all_inits() {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> all = random_inits;
    all.insert(all.end(), {"fixedValue", "zero", "bilinear", "fromFile", "fromLiteral"});
    return all;
  }();
  return known;
}

struct Settings {
  Evaluator& ev;
  const graph::Node& node;
  const Expr& expr;
  Record* record;

  Thunk* find(std::string_view name) const { return find_setting(record, name); }
  Value value(std::string_view name, Value otherwise) const {
    Thunk* t = find(name);
    return t ? ev.force(t, &expr, record) : std::move(otherwise);
  }
  std::string what(std::string_view name) const { return fmt::format("'{}' of the parameter '{}'", name, node.name); }
  double number(std::string_view name, double otherwise) const {
    return ev.number(value(name, otherwise), what(name), expr, record);
  }
  // Rejects values beyond the range of a float, because all values of the parameter would be infinite.
  double checked(std::string_view name, double v) const {
    if (!std::isfinite(static_cast<float>(v)))
      fail(fmt::format("{} cannot be {}", what(name), v), "write a finite number");
    return v;
  }
  double finite(std::string_view name, double otherwise) const { return checked(name, number(name, otherwise)); }
  double integer(std::string_view name, double otherwise) const {
    return static_cast<double>(ev.integer(value(name, otherwise), what(name), expr, record));
  }
  std::string text(std::string_view name) const {
    return ev.text(value(name, std::string()), what(name), expr, record);
  }
  std::vector<double> dims() const {
    if (!find("dims")) fail("a LearnableParameter needs its 'dims'");
    return dims_value(ev, value("dims", None{}), what("dims"), expr, record);
  }
  [[noreturn]] void fail(std::string message, std::string fix = {}) const {
    Evaluator::fail(expr, record, std::move(message), std::move(fix));
  }
};

// initValue as numbers; empty when it is not given.
std::vector<double> init_values(const Settings& s) {
  const Value v = s.value("initValue", std::string());
  if (v == Value(None{}) || v == Value(std::string())) return {};
  if (!std::holds_alternative<double>(v) &&
      !(std::holds_alternative<Array*>(v) && !std::get<Array*>(v)->elements.empty()))
    s.fail(fmt::format("{} must be a number or an array of numbers", s.what("initValue")));
  std::vector<double> values;
  for (const Value& value : s.ev.elements(v, &s.expr, s.record))
    values.push_back(s.checked("initValue", s.ev.number(value, s.what("initValue"), s.expr, s.record)));
  return values;
}

// Several constants as the text of a matrix: they fill the parameter column by column.
std::string literal(const Settings& s, const std::vector<double>& values, std::vector<double>& dims) {
  std::size_t unknown = 0;
  double known = 1;  // may be more than integers hold
  for (double d : dims)
    if (d == 0)
      ++unknown;
    else
      known *= d;
  const auto given = static_cast<double>(values.size());
  if (unknown > 1 || known > given || std::fmod(given, known) != 0 || (unknown == 0 && given != known))
    s.fail(fmt::format("{} has {} values, the parameter {} elements", s.what("initValue"), given, known));
  for (double& d : dims)
    if (d == 0) d = given / known;
  const std::size_t rows = dims.empty() ? 1 : static_cast<std::size_t>(dims[0]);
  std::string text;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = r; i < values.size(); i += rows) text += fmt::format("{}{}", i == r ? "" : " ", values[i]);
    text += '\n';
  }
  return text;
}

void warn_value_without_init(const Settings& s, const graph::Node& node) {
  Thunk* value = s.find("value");
  if (!value || value->is_default) return;
  s.ev.notice(
      {node.where,
       fmt::format("value= has no effect on the parameter '{}', which starts from uniform random numbers", node.name),
       "add init='fixedValue' if every element should start from that value"});
}

void warn_file_without_effect(const Settings& s, const graph::Node& node, const std::string& init) {
  s.ev.notice(
      {node.where,
       fmt::format("initFromFilePath= has no effect on the parameter '{}', which has init='{}'", node.name, init),
       "write init='fromFile' to start from the file, or leave initFromFilePath out"});
}

void choose_init(const Settings& s, graph::Node& node) {
  const std::vector<std::string>& known = all_inits();
  auto& at = node.attributes;
  std::vector<double> dims = s.dims();
  std::string init = s.text("init");
  const std::string file = s.text("initFromFilePath"), text = s.text("initFromLiteral");
  const std::vector<double> values = init.empty() && file.empty() ? init_values(s) : std::vector<double>();
  if (init.empty()) {
    if (!file.empty())
      init = "fromFile";
    else if (values.size() == 1)
      init = "fixedValue", at["value"] = values[0];
    else if (!values.empty())
      init = "fromLiteral", at["initFromLiteral"] = literal(s, values, dims);
    else if (!text.empty())
      init = "fromLiteral";
    else
      init = "uniform", warn_value_without_init(s, node);
  }
  if (std::find(known.begin(), known.end(), init) == known.end())
    s.fail(fmt::format("the parameter '{}' has the unknown init '{}'", node.name, init),
           did_you_mean(init, known, fmt::format("known: {}", fmt::join(known, ", "))));
  if (!file.empty() && init != "fromFile") warn_file_without_effect(s, node, init);
  if (init == "zero") init = "fixedValue", at["value"] = 0.0;
  if (init == "fixedValue" && !at.contains("value")) at["value"] = s.finite("value", 0);
  if (init == "fromFile") {
    if (file.empty()) s.fail(fmt::format("init='fromFile' of '{}' needs initFromFilePath", node.name), "name the file");
    if (!std::filesystem::is_regular_file(file))
      s.fail(fmt::format("cannot find '{}', which '{}' is initialised from", file, node.name),
             "check initFromFilePath");
    at["initFromFilePath"] = file;
  }
  if (init == "fromLiteral" && !at.contains("initFromLiteral")) {
    if (text.empty())
      s.fail(fmt::format("init='fromLiteral' of '{}' needs initFromLiteral", node.name), "write the numbers there");
    at["initFromLiteral"] = text;
    const graph::TextMatrix matrix = graph::parse_text_matrix(text, "initFromLiteral", node);
    if (dims.size() == 2 && dims[0] == 0) dims[0] = static_cast<double>(matrix.rows);
    if (dims.size() == 2 && dims[1] == 0) dims[1] = static_cast<double>(matrix.columns);
  }
  at["dims"] = dims;
  at["init"] = init;
}

}  // namespace

std::vector<double> dims_value(Evaluator& ev, const Value& v, const std::string& what, const Expr& e,
                               const Record* scope) {
  std::vector<double> dims;
  for (const Value& d : ev.elements(v, &e, scope)) {
    const std::int64_t n = ev.integer(d, what, e, scope);
    if (n < 0)
      Evaluator::fail(e, scope, fmt::format("{} must not be negative ({})", what, n),
                      "0 means: find out from the input");
    dims.push_back(static_cast<double>(n));
  }
  return dims;
}

std::string known_init(const std::string& name) {
  for (const std::string& known : all_inits())
    if (config::equal_keys(known, name)) return known;
  return name;
}

void set_parameter_attributes(Evaluator& ev, graph::Node& node, const Expr& e, Record* record) {
  const Settings s{ev, node, e, record};
  auto& at = node.attributes;
  choose_init(s, node);
  const bool frozen =
      s.find("needGradient") && !ev.boolean(s.value("needGradient", true), s.what("needGradient"), e, record);
  at["learningRateMultiplier"] = frozen ? 0 : s.finite("learningRateMultiplier", 1);
  if (s.number("learningRateMultiplier", 1) < 0) s.fail(s.what("learningRateMultiplier") + " must not be negative");
  const std::string init = std::get<std::string>(at["init"]);
  if (init == "bilinear") at["initFilterRank"] = s.integer("initFilterRank", 0);
  if (std::find(random_inits.begin(), random_inits.end(), init) == random_inits.end()) return;
  at["initValueScale"] = s.finite("initValueScale", 1);
  at["initFilterRank"] = s.integer("initFilterRank", 0);
  at["initOutputRank"] = s.integer("initOutputRank", 1);
  const auto wanted = static_cast<std::int64_t>(s.integer("randomSeed", -1));
  at["randomSeed"] = static_cast<double>(wanted >= 0 ? ev.nodes().given_seed(wanted) : ev.nodes().next_seed());
}

}  // namespace tutti::brainscript
