// SPDX-License-Identifier: Apache-2.0
// Calls: which argument goes to which parameter, and running the body. Arguments are evaluated in the caller's scope
// when first used, defaults in the scope of the definition.
#include <fmt/format.h>

#include <algorithm>

#include "brainscript/evaluator.h"

namespace tutti::brainscript {
namespace {

struct Signature {
  std::vector<std::string> names;
  std::vector<bool> optional;
};

Signature signature(const Function& f) {
  Signature s;
  if (f.native)
    for (const auto& p : f.native->params) s.names.push_back(p.name), s.optional.push_back(p.otherwise.has_value());
  else
    for (const auto& p : f.lambda->params) s.names.push_back(p.name), s.optional.push_back(p.otherwise != nullptr);
  return s;
}

// The parameters of positional arguments. If there are at most as many as parameters without a default, they go to
// those; otherwise to all parameters in order.
std::vector<std::size_t> positions(const Signature& s, std::size_t unnamed) {
  std::vector<std::size_t> required, all;
  for (std::size_t k = 0; k < s.names.size(); ++k) {
    all.push_back(k);
    if (!s.optional[k]) required.push_back(k);
  }
  return unnamed <= required.size() ? required : all;
}

std::string written(const Function& f) {
  const Signature s = signature(f);
  std::string all = (f.name.empty() ? std::string("function") : f.name) + " (";
  for (std::size_t i = 0; i < s.names.size(); ++i)
    all += fmt::format("{}{}{}", i ? ", " : "", s.names[i], s.optional[i] ? "=..." : "");
  return all + ")";
}

}  // namespace

Value Evaluator::call(const Expr& e, Record* scope, const Path* path) {
  const Value callee = evaluate(*e.args[0], scope, path);
  auto* f = std::get_if<Function*>(&callee);
  if (!f) {
    std::string fix;
    if (std::holds_alternative<Record*>(callee)) fix = "a member of it may be the function: record.member (...)";
    if (std::holds_alternative<NodeRef>(callee)) fix = "a node is a value; functions and layers can be called";
    if (std::holds_alternative<Array*>(callee)) fix = "compose the layers first: Sequential (a : b)";
    fail(*e.args[0], scope, fmt::format("{} cannot be called", describe(callee)), fix);
  }
  return run(*f, bind(**f, e, scope, path), e, scope, path);
}

std::vector<Thunk*> Evaluator::bind(const Function& f, const Expr& e, Record* scope, const Path* path) {
  const Signature s = signature(f);
  std::vector<Thunk*> args(s.names.size(), nullptr);
  const std::string called = f.name.empty() ? "the function" : fmt::format("'{}'", f.name);
  const auto unnamed =
      std::count_if(e.arguments.begin(), e.arguments.end(), [](const auto& a) { return a.name.empty(); });
  const std::vector<std::size_t> order = positions(s, static_cast<std::size_t>(unnamed));
  std::size_t next = 0;
  for (const auto& a : e.arguments) {
    Expr place_of_argument;
    place_of_argument.where = a.where;
    if (a.name.empty() && next >= order.size())
      fail(place_of_argument, scope,
           fmt::format("too many arguments: {} takes {}, not {}", called, s.names.size(), e.arguments.size()),
           written(f));
    const auto named = static_cast<std::size_t>(std::ranges::find(s.names, a.name) - s.names.begin());
    const std::size_t k = a.name.empty() ? order[next++] : named;
    if (k == s.names.size()) {
      const std::string near = nearest(a.name, s.names);
      fail(place_of_argument, scope, fmt::format("{} has no argument '{}'", called, a.name),
           near.empty() ? written(f) : fmt::format("did you mean '{}'? {}", near, written(f)));
    }
    if (args[k])
      fail(place_of_argument, scope, fmt::format("the argument '{}' of {} is given twice", s.names[k], called),
           written(f));
    args[k] = heap_.lazy(a.value, scope, heap_.path(path, s.names[k]), s.names[k]);
  }
  for (std::size_t k = 0; k < args.size(); ++k) {
    if (args[k]) continue;
    if (!s.optional[k])
      fail(*e.args[0], scope, fmt::format("{} lacks the argument '{}'", called, s.names[k]), written(f));
    args[k] = f.native ? heap_.ready(*f.native->params[k].otherwise, s.names[k])
                       : heap_.lazy(f.lambda->params[k].otherwise, f.scope, heap_.path(path, s.names[k]), s.names[k]);
    args[k]->is_default = true;
  }
  return args;
}

Value Evaluator::run(Function* f, std::vector<Thunk*> args, const Expr& site, Record* scope, const Path* path) {
  if (f->native) return f->native->run({*this, std::move(args), site, scope, path});
  Record* r = heap_.record();
  r->outer = f->scope;
  r->site = &site;
  r->site_scope = scope;
  r->function = f->name;
  for (std::size_t k = 0; k < args.size(); ++k) r->add(f->lambda->params[k].name, args[k]);
  return evaluate(*f->lambda->args[0], r, path);
}

Value Evaluator::apply(const Value& function, std::vector<Thunk*> args, const Expr& site, Record* scope,
                       const Path* path) {
  auto* f = std::get_if<Function*>(&function);
  if (!f) fail(site, scope, fmt::format("{} cannot be called", describe(function)));
  if (signature(**f).names.size() != args.size())
    fail(site, scope,
         fmt::format("{} takes {} arguments, not {}", describe(function), signature(**f).names.size(), args.size()),
         written(**f));
  return run(*f, std::move(args), site, scope, path);
}

}  // namespace tutti::brainscript
