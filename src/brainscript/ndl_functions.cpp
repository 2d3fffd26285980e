// SPDX-License-Identifier: Apache-2.0
#include "brainscript/ndl.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "brainscript/network.h"

namespace tutti::brainscript::ndl {
namespace {

// Functions of the library that are the same in both languages.
constexpr const char* shared =
    "Times TransposeTimes DiagTimes ElementTimes Scale KhatriRaoProduct LookupTable Plus Minus LogPlus Sigmoid Tanh "
    "RectifiedLinear ReLU Log Exp Sqrt Abs Floor Ceil Round Sin Cosine Negate Reciprocal Pass Identity Less LessEqual "
    "Equal NotEqual Greater GreaterEqual Clip Softmax LogSoftmax Hardmax Dropout Mean InvStdDev SumElements "
    "SumColumnElements PerDimMeanVarNormalization PerDimMeanVarDeNormalization CrossEntropyWithSoftmax CrossEntropy "
    "SquareError Logistic WeightedLogistic ClassBasedCrossEntropyWithSoftmax ClassificationError ErrorPrediction "
    "MatrixL1Reg MatrixL2Reg CosDistance LambdaRank NDCG1Eval TimeReverse RowSlice RowStack RowRepeat "
    "TransposeDimensions Slice "
    "Reshape Where PackedIndex GatherPacked ScatterPacked ReconcileDynamicAxis ReconcileMBLayout MaxUnpooling "
    "ROIPooling";

// Other names of parameters, and the one in the library.
const std::map<std::string, std::string> other_names = {{"rows", "dims"},
                                                        {"imagewidth", "width"},
                                                        {"imageheight", "height"},
                                                        {"imagechannels", "channels"},
                                                        {"needsgradient", "needGradient"},
                                                        {"computegradient", "needGradient"},
                                                        {"start", "beginIndex"},
                                                        {"startindex", "beginIndex"},
                                                        {"begin", "beginIndex"},
                                                        {"end", "endIndex"},
                                                        {"num", "numRows"},
                                                        {"n", "numRepeats"},
                                                        {"delaytime", "timeStep"},
                                                        {"defaulthiddenactivity", "defaultHiddenActivation"},
                                                        {"kernelshape", "kernelDims"},
                                                        {"mapcount", "mapDims"},
                                                        {"mapshape", "mapDims"},
                                                        {"strideshape", "stride"},
                                                        {"autopad", "autoPadding"},
                                                        {"deconv", "transpose"},
                                                        {"poolkind", "poolingType"},
                                                        {"x", "_"}};

const Member* member(const Expr& record, const std::string& name) {
  const auto found = std::ranges::find(record.members, name, &Member::name);
  return found == record.members.end() ? nullptr : &*found;
}

// The first `new ComputationNode { ... }` of an expression.
const Expr* construct_in(const Expr* e) {
  if (e->kind == ExprKind::construct) return e->args[0];
  for (const Expr* a : e->args)
    if (const Expr* found = construct_in(a)) return found;
  return nullptr;
}

void add_names(const Expr* e, std::set<std::string>& names) {
  if (e->kind == ExprKind::identifier) names.insert(e->name);
  for (const Expr* a : e->args) add_names(a, names);
}

// The definition that a name stands for, directly or through others: ReLU = RectifiedLinear.
const Expr* definition(const Expr& own, const Expr& library, const std::string& name) {
  const Member* m = member(own, name);
  if (!m) m = member(library, name);
  return m && m->value->kind == ExprKind::identifier ? definition(own, library, m->value->name)
         : m                                         ? m->value
                                                     : nullptr;
}

Function function(const std::string& name, bool own, const Expr* lambda) {
  Function f{name, own, lambda, {}, {}, false};
  const Expr* node = construct_in(lambda->args[0]);
  const Member* operation = member(*node, "operation");
  f.operation = operation ? operation->value->name : lambda->name;
  if (const Member* inputs = member(*node, "inputs"))
    add_names(inputs->value, f.nodes);
  else
    f.variadic = lambda->params[0].name == "inputs";
  return f;
}

}  // namespace

FunctionTable::FunctionTable(const Expr& library) {
  const Expr& own = *member(library, "_Ndl")->value;
  const auto add = [&](const std::string& name, bool is_own) {
    functions_[to_lower(name)] = function(name, is_own, definition(own, library, name));
  };
  std::istringstream names{shared};
  for (std::string name; names >> name;) add(name, false);
  for (const Member& m : own.members) add(m.name, true);
}

const Function* FunctionTable::find(const std::string& name) const {
  const auto found = functions_.find(to_lower(name));
  return found == functions_.end() ? nullptr : &found->second;
}

std::vector<const Function*> FunctionTable::all() const {
  std::vector<const Function*> visible;
  for (const auto& [key, f] : functions_)
    if (f.name.front() != '_') visible.push_back(&f);
  return visible;
}

const Function& FunctionTable::of_call(const Expression& e, const std::vector<std::string>& macros) const {
  const auto& given = e.arguments;
  if (const Function* f = find(e.text); f && f->name.front() != '_') {
    if (f->operation == "Convolution" && given.size() > 2 && given[2].value.kind == Expression::Kind::list)
      return *find("_ConvolutionOfAxes");
    const bool with_cols =
        f->is_delay() && given.size() > 2 && given[2].name.empty() && given[1].value.kind == Expression::Kind::number;
    return with_cols ? *find("_" + f->operation + "OfCols") : *f;
  }
  if (const NotAvailable* n = find_not_available(e.text))
    fail(e.where, fmt::format("the operation '{}' is not part of this version", n->name), n->instead);
  std::vector<std::string> known = macros;
  for (const Function* f : all()) known.push_back(f->name);
  fail(e.where, fmt::format("there is no function or macro '{}'", e.text),
       did_you_mean(e.text, known, "docs/ndl.md lists the functions"));
}

Matched match(const Function& f, const Expression& e) {
  std::vector<Param> params = f.lambda->params;
  std::erase_if(params, [](const Param& p) { return p.name == "tag"; });  // stands last
  const auto position = [&](const std::string& name) {
    const auto other = other_names.find(to_lower(name));
    for (const std::string& n : {to_lower(name), other == other_names.end() ? to_lower(name) : to_lower(other->second)})
      for (std::size_t k = 0; k < params.size(); ++k)
        if (to_lower(params[k].name) == n) return k;
    return params.size();
  };
  Matched m;
  m.by_parameter.assign(params.size(), nullptr);
  std::size_t next = 0;
  for (const Argument& a : e.arguments) {
    if (to_lower(a.name) == "tag") {
      m.tag = &a;
      continue;
    }
    if (f.variadic && a.name.empty()) continue;
    const std::size_t k = a.name.empty() ? next++ : position(a.name);
    if (k >= params.size() || (f.variadic && k == 0)) {
      std::vector<std::string> known;
      for (std::size_t p = f.variadic ? 1 : 0; p < params.size(); ++p) known.push_back(params[p].name);
      fail(a.value.where,
           a.name.empty() ? fmt::format("{} takes at most {} arguments", e.text, params.size())
                          : fmt::format("{} has no option '{}'", e.text, a.name),
           a.name.empty() ? "it is " + signature(f) : did_you_mean(a.name, known, "it is " + signature(f)));
    }
    if (m.by_parameter[k]) fail(a.value.where, fmt::format("'{}' of {} is given twice", params[k].name, e.text));
    m.by_parameter[k] = &a;
  }
  return m;
}

std::string signature(const Function& f) {
  std::string all;
  for (const Param& p : f.lambda->params) {
    if (p.name == "tag" || why_unused(p)) continue;
    all += (all.empty() ? "" : ", ") + p.name + (f.variadic ? ", ..." : "");
    const Expr* d = p.otherwise;
    if (f.variadic) break;
    if (!d) continue;
    all += d->kind == ExprKind::number    ? fmt::format("={}", d->number)
           : d->kind == ExprKind::unary   ? fmt::format("={}{}", d->name, d->args[0]->number)
           : d->kind == ExprKind::boolean ? fmt::format("={}", d->number != 0)
           : d->kind == ExprKind::text    ? "=" + d->name
                                          : "=...";
  }
  return fmt::format("{}({})", f.name, all);
}

std::optional<std::string> why_unused(const Param& p) {
  const Expr* d = p.otherwise;
  if (!d || d->kind != ExprKind::call || d->args[0]->name != "_Unused") return std::nullopt;
  return d->arguments[0].value->name;
}

}  // namespace tutti::brainscript::ndl
