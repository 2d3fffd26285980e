// SPDX-License-Identifier: Apache-2.0
// Lazy evaluation of expressions: names, records, arrays, conditions, members. Calls are in calls.cpp, operators in
// operators.cpp, nodes in nodes.cpp.
#include "brainscript/evaluator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "brainscript/deep_stack.h"
#include "brainscript/network.h"

namespace tutti::brainscript {
std::string kind_of(const Value& v) {
  static constexpr const char* kinds[] = {"None",     "a number",   "a boolean", "a string",        "an array",
                                          "a record", "a function", "a node",    "a loaded network"};
  auto* record = std::get_if<Record*>(&v);
  return record && !(*record)->type.empty() ? "a " + (*record)->type : kinds[v.index()];
}

std::string Path::str() const {
  std::vector<const Path*> chain;
  for (const Path* p = this; p; p = p->parent) chain.push_back(p);
  std::string all;
  for (auto p = chain.rbegin(); p != chain.rend(); ++p) {
    const std::string& part = (*p)->part;
    if (part.empty()) continue;
    if (!all.empty() && part.front() != '[') all += '.';
    all += part;
  }
  return all;
}

Thunk* Record::own(std::string_view name) const {
  if (!index.empty()) {
    const auto found = index.find(name);
    return found == index.end() ? nullptr : found->second;
  }
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.first == name; });
  return found == members.end() ? nullptr : found->second;
}

void Record::build_index() {
  index.clear();
  if (members.size() <= 16) return;
  for (const auto& [name, value] : members) index.emplace(name, value);
}

Thunk* Heap::ready(Value v, std::string name) {
  Thunk t;
  t.state = Thunk::State::done;
  t.value = std::move(v);
  t.name = std::move(name);
  return thunk(std::move(t));
}

Thunk* Heap::lazy(const Expr* expr, Record* scope, const Path* path, std::string name) {
  Thunk t;
  t.expr = expr;
  t.scope = scope;
  t.path = path;
  t.name = std::move(name);
  return thunk(std::move(t));
}

namespace {

constexpr int deepest = 40'000;                 // expressions inside each other
constexpr std::int64_t most_steps = 2'000'000;  // a real network takes thousands
constexpr std::int64_t most_elements = 4'000'000;

}  // namespace

const Record* Evaluator::enclosing_call(const Record* scope) {
  while (scope && !scope->site) scope = scope->outer;
  return scope;
}

// Walks from an expression in the library to the user's expression that led there, and finds the function that the user
// called. A layer's `apply` belongs to where the layer was written, not to where the network was applied.
const Expr* Evaluator::users_expression(const Expr& e, const Record* scope, std::string* function) {
  const Expr* here = &e;
  while (here->where.text->library) {
    const Record* call = enclosing_call(scope);
    if (call && call->function == "apply") call = enclosing_call(call->outer);
    if (!call) break;
    if (function && !call->function.starts_with('_')) *function = call->function;
    here = call->site;
    scope = call->site_scope;
  }
  return here;
}

SourcePos Evaluator::place(const Expr& e, const Record* scope) {
  return users_expression(e, scope, nullptr)->where.pos();
}

void Evaluator::fail(const Expr& e, const Record* scope, std::string message, std::string fix) {
  std::string function;
  const Expr* here = users_expression(e, scope, &function);
  if (!function.empty()) message = function + ": " + message;
  throw ConfigError(here->where.pos(), std::move(message), std::move(fix));
}

Value Evaluator::evaluate(const Expr& e, Record* scope, const Path* path) {
  struct Depth {
    explicit Depth(int& d) : d(d) { ++d; }
    ~Depth() { --d; }
    int& d;
  } guard(depth_);
  const std::ptrdiff_t used = stack_begin_ - static_cast<const char*>(__builtin_frame_address(0));
  if (depth_ > deepest || used > static_cast<std::ptrdiff_t>(deep_stack_bytes))
    fail(e, scope, fmt::format("the evaluation is nested {} levels deep", depth_),
         "a recursion must end: if condition then value else call");
  if (++steps_ > most_steps)
    fail(e, scope, fmt::format("evaluation takes more than {} steps", most_steps),
         "a recursion grows too fast; give repeated values a name");
  switch (e.kind) {
    case ExprKind::number:
      return e.number;
    case ExprKind::text:
      return e.name;
    case ExprKind::boolean:
      return e.number != 0;
    case ExprKind::identifier:
      return identifier(e, scope);
    case ExprKind::record:
      return make_record(e, scope, path);
    case ExprKind::array:
      return array(e, scope, path);
    case ExprKind::generator:
      return generator(e, scope, path);
    case ExprKind::unary: {
      const Path* inner = e.name == "-"   ? operand_path(path, "Negate", 0)
                          : e.name == "!" ? operand_path(path, "Minus", 1)
                                          : path;
      return unary(e, evaluate(*e.args[0], scope, inner), scope, path);
    }
    case ExprKind::binary:
      return short_circuit_or_binary(e, scope, path);
    case ExprKind::call:
      return call(e, scope, path);
    case ExprKind::member:
      return member(e, scope, path);
    case ExprKind::index:
      return index(e, scope, path);
    case ExprKind::lambda:
      return heap_.function({&e, scope, nullptr, e.name});
    case ExprKind::conditional:
      return conditional(e, scope, path);
    case ExprKind::construct:
      return construct(e, scope, path);
  }
  return None{};
}

const Value& Evaluator::force(Thunk* t, const Expr* site, const Record* scope) {
  switch (t->state) {
    case Thunk::State::done:
      return t->value;
    case Thunk::State::failed:
      std::rethrow_exception(t->failure);
    case Thunk::State::running:
      circle(t, site, scope);
    case Thunk::State::fresh:
      break;
  }
  t->state = Thunk::State::running;
  active_.push_back(t);
  try {
    t->value = evaluate(*t->expr, t->scope, t->path);
    t->state = Thunk::State::done;
  } catch (...) {
    t->state = Thunk::State::failed;
    t->failure = std::current_exception();
    active_.pop_back();
    throw;
  }
  active_.pop_back();
  return t->value;
}

void Evaluator::circle(const Thunk* t, const Expr* site, const Record* scope) {
  std::string chain;
  const auto name = [](const Thunk* x) { return x->name.empty() ? x->path->str() : x->name; };
  for (auto i = std::find(active_.begin(), active_.end(), t); i != active_.end(); ++i) chain += name(*i) + " -> ";
  if (!site) site = t->expr, scope = t->scope;
  fail(*site, scope, fmt::format("'{}' is defined by itself ({}{})", name(t), chain, name(t)),
       "break the circle, or let it go through time: PastValue (0, x)");
}

void Evaluator::count(std::size_t elements, const Expr& e, const Record* scope) {
  elements_ += static_cast<std::int64_t>(std::min<std::size_t>(elements, most_elements + 1));
  if (elements_ > most_elements)
    fail(e, scope, fmt::format("arrays and strings grow beyond {} elements", most_elements), "make them smaller");
}

void Evaluator::notice(const Diagnostic& d) {
  if (notices_) notices_->add(d, "warning");
}

void Evaluator::notice(std::string line) {
  if (notices_) notices_->lines.push_back(std::move(line));
}

Thunk* Evaluator::find(const Record* scope, std::string_view name) {
  for (; scope; scope = scope->outer)
    if (Thunk* t = scope->own(name)) return t;
  return nullptr;
}

Value Evaluator::identifier(const Expr& e, Record* scope) {
  if (Thunk* t = find(scope, e.name)) return force(t, &e, scope);
  std::vector<std::string> known;
  for (const Record* r = scope; r; r = r->outer)
    for (const auto& m : r->members)
      if (m.first.front() != '_') known.push_back(m.first);
  if (const NotAvailable* n = find_not_available(e.name))
    fail(e, scope, fmt::format("the operation '{}' is not part of this version", n->name), n->instead);
  fail(e, scope, fmt::format("'{}' is not defined, and there is no operation of that name", e.name),
       did_you_mean(e.name, known,
                    "define it in this record or an enclosing one; docs/brainscript.md lists all operations"));
}

Record* Evaluator::make_record(const Expr& e, Record* outer, const Path* path) {
  Record* r = heap_.record();
  r->outer = outer;
  r->written = &e;
  r->members.reserve(e.members.size());
  for (const auto& m : e.members) r->add(m.name, heap_.lazy(m.value, r, heap_.path(path, m.name), m.name));
  r->build_index();
  return r;
}

std::vector<Value> Evaluator::elements(const Value& v, const Expr* site, const Record* scope) {
  auto* a = std::get_if<Array*>(&v);
  if (!a) return {v};
  std::vector<Value> all;
  for (Thunk* t : (*a)->elements) all.push_back(force(t, site, scope));
  return all;
}

Value Evaluator::array(const Expr& e, Record* scope, const Path* path) {
  Array* a = heap_.array();
  for (std::size_t i = 0; i < e.args.size(); ++i) {
    const Value v = evaluate(*e.args[i], scope, heap_.path(path, fmt::format("[{}]", i)));
    if (auto* inner = std::get_if<Array*>(&v))
      a->elements.insert(a->elements.end(), (*inner)->elements.begin(), (*inner)->elements.end());
    else
      a->elements.push_back(heap_.ready(v));
  }
  count(a->elements.size(), e, scope);
  return a;
}

Value Evaluator::generator(const Expr& e, Record* scope, const Path* path) {
  const std::int64_t lo = integer(evaluate(*e.args[0], scope, path), "the first index of an array", *e.args[0], scope);
  const std::int64_t hi = integer(evaluate(*e.args[1], scope, path), "the last index of an array", *e.args[1], scope);
  if (hi >= lo) count(static_cast<std::size_t>(hi) - static_cast<std::size_t>(lo) + 1, e, scope);
  Array* a = heap_.array();
  a->first = lo;
  Thunk* function = heap_.lazy(e.args[2], scope, path);
  for (std::int64_t i = lo; i <= hi; ++i) {
    Record* r = heap_.record();
    r->outer = scope;
    r->add("_function", function);
    r->add("_index", heap_.ready(static_cast<double>(i)));
    a->elements.push_back(heap_.lazy(e.args[3], r, heap_.path(path, fmt::format("[{}]", i))));
  }
  return a;
}

Value Evaluator::conditional(const Expr& e, Record* scope, const Path* path) {
  const Value c = evaluate(*e.args[0], scope, operand_path(path, "If", 0));
  if (std::holds_alternative<NodeRef>(c)) {
    std::vector<std::size_t> inputs = {std::get<NodeRef>(c).index};
    for (std::size_t i : {1, 2}) {
      const Path* p = operand_path(path, "If", i);
      inputs.push_back(as_node(evaluate(*e.args[i], scope, p), "a branch of 'if'", *e.args[i], scope, p).index);
    }
    return add_node("If", std::move(inputs), e, scope, path);
  }
  return evaluate(*e.args[boolean(c, "the condition of 'if'", *e.args[0], scope) ? 1 : 2], scope, path);
}

Value Evaluator::member(const Expr& e, Record* scope, const Path* path) {
  const Value base = evaluate(*e.args[0], scope, path);
  if (auto* node = std::get_if<NodeRef>(&base)) return node_member(*node, e, scope);
  if (auto* view = std::get_if<NetworkView*>(&base)) return network_member(*this, **view, e, scope);
  auto* record = std::get_if<Record*>(&base);
  if (!record)
    fail(e, scope, fmt::format("{} has no members, so no '{}'", describe(base), e.name),
         std::holds_alternative<Function*>(base) ? "call the function first: f (arguments)." + e.name : "");
  if (Thunk* t = (*record)->own(e.name)) return force(t, &e, scope);
  std::vector<std::string> known;
  for (const auto& m : (*record)->members)
    if (m.first.front() != '_') known.push_back(m.first);
  const auto some = std::span(known).first(std::min<std::size_t>(known.size(), 12));
  const std::string has = known.empty() ? "it is empty" : fmt::format("it has: {}", fmt::join(some, ", "));
  fail(e, scope, fmt::format("this record has no member '{}'", e.name), did_you_mean(e.name, known, has));
}

Value Evaluator::index(const Expr& e, Record* scope, const Path* path) {
  const Value base = evaluate(*e.args[0], scope, path);
  if (auto* view = std::get_if<NetworkView*>(&base))
    return network_element(*this, **view, evaluate(*e.args[1], scope, heap_.path(path, "index")), e, scope);
  auto* a = std::get_if<Array*>(&base);
  if (!a)
    fail(e, scope, fmt::format("{} has no elements to index with [ ]", describe(base)),
         "only arrays (a:b:c) do; a record in front of '[' on the same line is read as an index");
  const std::int64_t i = integer(evaluate(*e.args[1], scope, heap_.path(path, "index")), "an index", *e.args[1], scope);
  const auto n = static_cast<std::int64_t>((*a)->elements.size());
  if (n == 0) fail(e, scope, fmt::format("index {} of an empty array", i), "the array needs elements");
  if (i < (*a)->first || i >= (*a)->first + n)
    fail(e, scope, fmt::format("index {} is outside {}..{}", i, (*a)->first, (*a)->first + n - 1),
         "indices of a:b:c begin at 0");
  return force((*a)->elements[static_cast<std::size_t>(i - (*a)->first)], &e, scope);
}

double Evaluator::number(const Value& v, std::string_view what, const Expr& e, const Record* scope) const {
  if (auto* n = std::get_if<double>(&v)) return *n;
  fail(e, scope, fmt::format("{} must be a number, not {}", what, describe(v)));
}

std::int64_t Evaluator::integer(const Value& v, std::string_view what, const Expr& e, const Record* scope) const {
  const double n = number(v, what, e, scope);
  if (n != std::floor(n) || std::abs(n) > 1e15)
    fail(e, scope, fmt::format("{} must be a whole number, not {}", what, n));
  return static_cast<std::int64_t>(n);
}

bool Evaluator::boolean(const Value& v, std::string_view what, const Expr& e, const Record* scope) const {
  if (auto* b = std::get_if<bool>(&v)) return *b;
  fail(e, scope, fmt::format("{} must be true or false, not {}", what, describe(v)),
       std::holds_alternative<double>(v) ? "compare the number with something" : "");
}

const std::string& Evaluator::text(const Value& v, std::string_view what, const Expr& e, const Record* scope) const {
  if (auto* s = std::get_if<std::string>(&v)) return *s;
  fail(e, scope, fmt::format("{} must be a string, not {}", what, describe(v)), "put it in quotes");
}

std::string Evaluator::describe(const Value& v) const {
  if (auto* n = std::get_if<double>(&v)) return fmt::format("the number {}", *n);
  if (auto* s = std::get_if<std::string>(&v)) return fmt::format("the string '{}'", s->substr(0, 40));
  if (auto* b = std::get_if<bool>(&v)) return *b ? "the boolean true" : "the boolean false";
  if (auto* node = std::get_if<NodeRef>(&v)) return fmt::format("the node '{}'", nodes_.graph.nodes[node->index].name);
  if (auto* f = std::get_if<Function*>(&v);
      f && (*f)->lambda && (*f)->lambda->where.text->library && (*f)->name == "apply") {
    std::string layer;
    users_expression(*(*f)->lambda, (*f)->scope, &layer);
    return fmt::format("a function made by {}", layer);
  }
  if (auto* f = std::get_if<Function*>(&v); f && !(*f)->name.empty())
    return fmt::format("the function '{}'", (*f)->name);
  return kind_of(v);
}

std::string Evaluator::shown(const Value& v, const Expr& e, const Record* scope, int depth) {
  if (depth > 20) return "...";
  if (auto* n = std::get_if<double>(&v)) return fmt::format("{}", *n);
  if (auto* s = std::get_if<std::string>(&v)) return *s;
  if (auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (auto* node = std::get_if<NodeRef>(&v)) return nodes_.graph.nodes[node->index].name;
  std::string all;
  if (auto* a = std::get_if<Array*>(&v)) {
    for (Thunk* t : (*a)->elements) {
      if (all.size() > 10'000) return all + " ...";
      all += (all.empty() ? "" : ":") + shown(force(t, &e, scope), e, scope, depth + 1);
    }
    return "(" + all + ")";
  }
  if (auto* r = std::get_if<Record*>(&v)) {
    for (const auto& [name, t] : (*r)->members) {
      if (all.size() > 10'000) return all + " ...";
      all += (all.empty() ? "" : "; ") + name + " = " + shown(force(t, &e, scope), e, scope, depth + 1);
    }
    return "{ " + all + " }";
  }
  return kind_of(v);
}

}  // namespace tutti::brainscript
