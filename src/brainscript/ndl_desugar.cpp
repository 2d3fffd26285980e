// SPDX-License-Identifier: Apache-2.0
// Statements are processed in order, which numbers the seeds. A name used before its line makes that line come first;
// delays may refer to later names.
#include "brainscript/ndl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "brainscript/evaluator.h"
#include "brainscript/network.h"

namespace tutti::brainscript::ndl {
namespace {

struct Scope;
struct Result {
  Expr* value = nullptr;     // a number, a text, an array of numbers; an identifier that stands for a node
  Expr* constant = nullptr;  // the number of a node that Constant makes
  std::shared_ptr<Scope> inside = nullptr;  // of a macro: the names in it
};

struct Symbol {
  enum class State { fresh, running, done };
  const Statement* statement = nullptr;
  State state = State::fresh;
  Result result;
};

struct Scope {
  Scope* outer = nullptr;
  std::string prefix;  // of node names
  std::map<std::string, Symbol> symbols;
};

std::optional<bool> truth(const std::string& word) {
  const std::string w = to_lower(word);
  if (w == "true" || w == "t") return true;
  if (w == "false" || w == "f") return false;
  return std::nullopt;
}

void check_variables(const Expression& e) {
  const std::size_t from = e.text.find('$'), to = from == std::string::npos ? from : e.text.find('$', from + 1);
  if (to != std::string::npos)
    fail(e.where, fmt::format("No variable found with the name '{}'", e.text.substr(from + 1, to - from - 1)),
         "define it in the config");
}

bool uses_name(const Expression& e, const std::string& lower_name) {
  if (e.kind == Expression::Kind::name && to_lower(e.text.substr(0, e.text.find('.'))) == lower_name) return true;
  return std::any_of(e.arguments.begin(), e.arguments.end(),
                     [&](const Argument& a) { return uses_name(a.value, lower_name); });
}

std::string known_parts(const Scope& scope) {
  std::string all;
  for (const auto& [name, s] : scope.symbols)
    if (s.statement) all += (all.empty() ? "it has: " : ", ") + s.statement->name;
  return all;
}

}  // namespace

class Desugarer {
 public:
  // `model`: nodes that scripts may use, by name; the identifier of node 5 is "#5". Scripts have to live as long.
  Desugarer(Program& program, const FunctionTable& functions, const graph::Graph& model, config::Notices* notices)
      : program_(program), functions_(functions), model_(model), notices_(notices) {}

  void add_macros(const Script& script) {
    for (const auto& [name, macro] : script.macros) macros_[name] = &macro, near_.push_back(macro.name);
    declare(script.statements, globals_);
  }

  Desugared run(const Script& network) {
    out_ = {};
    out_.record = make(ExprKind::record, {});
    taken_.clear();
    for (const auto& n : model_.nodes) taken_.insert(n.name);
    add_macros(network);
    for (const auto& s : network.statements) execute(s, globals_);
    for (const auto& [input, e, scope] : pending_) *input = *node_of(eval_name(*e, *scope), *e);
    pending_.clear();
    return std::move(out_);
  }

  // The identifier of the node that a name of an earlier statement stands for, or null.
  const Expr* find_node(const std::string& name) {
    const Symbol* symbol = find(name.substr(0, name.find('.')), globals_).first;
    if (!symbol || symbol->state != Symbol::State::done) return nullptr;
    const auto found = part_of(symbol->result, name);
    return found && found->value && found->value->kind == ExprKind::identifier ? found->value : nullptr;
  }

 private:
  Expr* make(ExprKind kind, const Span& where, std::string name = {}, double number = 0) {
    Expr* e = program_.exprs.emplace_back(std::make_unique<Expr>()).get();
    e->kind = kind;
    e->where = where;
    e->name = std::move(name);
    e->number = number;
    return e;
  }

  void declare(const std::vector<Statement>& statements, Scope& scope) {
    std::set<std::string> here;
    for (const auto& s : statements) {
      if (s.name.empty() || set_of_member(s.name)) continue;
      Symbol& symbol = scope.symbols[to_lower(s.name)];
      if (symbol.statement == &s) continue;
      if (!here.insert(to_lower(s.name)).second)
        fail(s.where, fmt::format("'{}' is defined twice", s.name), "give the second one another name");
      symbol = {&s, Symbol::State::fresh, {}};
    }
  }

  // The value of the statement; of a set, nothing.
  Result execute(const Statement& s, Scope& scope) {
    if (const auto set = set_of_member(s.name)) {
      add_to_set(set, s.value, scope);
      return {};
    }
    if (s.name.empty()) return evaluate(s.value, scope, {});
    return symbol(scope.symbols.at(to_lower(s.name)), scope);
  }

  const Result& symbol(Symbol& symbol, Scope& scope) {
    if (symbol.state == Symbol::State::running)
      fail(symbol.statement->where, fmt::format("'{}' is defined by itself", symbol.statement->name),
           "only a delay (PastValue, FutureValue) may point back to what uses it");
    if (symbol.state == Symbol::State::fresh) {
      symbol.state = Symbol::State::running;
      symbol.result = evaluate(symbol.statement->value, scope, symbol.statement->name);
      symbol.state = Symbol::State::done;
    }
    return symbol.result;
  }

  void add_to_set(NodeSet set, const Expression& e, Scope& scope) {
    if (e.kind == Expression::Kind::list) {
      for (const auto& a : e.arguments) add_to_set(set, a.value, scope);
      return;
    }
    out_.in_sets.emplace_back(set, node_of(evaluate(e, scope, {}), e));
  }

  Result evaluate(const Expression& e, Scope& scope, const std::string& name) {
    check_variables(e);
    switch (e.kind) {
      case Expression::Kind::number:
        return {make(ExprKind::number, e.where, {}, e.number)};
      case Expression::Kind::text:
        return {make(ExprKind::text, e.where, e.text)};
      case Expression::Kind::name:
        return eval_name(e, scope);
      case Expression::Kind::list:
        return list(e, scope);
      case Expression::Kind::call:
        break;
    }
    const auto macro = macros_.find(to_lower(e.text));
    if (macro != macros_.end()) return call_macro(*macro->second, e, scope, name);
    return call(e, scope, name);
  }

  // Numbers as a list; one element in parentheses is just that.
  Result list(const Expression& e, Scope& scope) {
    if (e.arguments.size() == 1) return evaluate(e.arguments[0].value, scope, {});
    Expr* array = make(ExprKind::array, e.where, ":");
    for (const auto& a : e.arguments) {
      Expr* value = evaluate(a.value, scope, {}).value;
      const auto flag = value && value->kind == ExprKind::text ? truth(value->name) : std::nullopt;
      if (flag) value = make(ExprKind::number, a.value.where, {}, *flag);
      if (!value || value->kind != ExprKind::number) fail(a.value.where, "a list holds numbers", "write {3, 3} or 3:3");
      array->args.push_back(value);
    }
    return {array};
  }

  std::pair<Symbol*, Scope*> find(const std::string& name, Scope& scope) {
    for (Scope* s = &scope; s; s = s->outer)
      if (const auto found = s->symbols.find(to_lower(name)); found != s->symbols.end()) return {&found->second, s};
    return {nullptr, nullptr};
  }

  // a, or a.b.c where a is what a macro has made. A word that nothing defines means itself: uniform, HWC, true.
  Result eval_name(const Expression& e, Scope& scope) {
    const std::string first = e.text.substr(0, e.text.find('.'));
    const auto [found, where] = find(first, scope);
    const std::optional<Result> r = found ? part_of(symbol(*found, *where), e.text) : std::nullopt;
    if (r) return *r;
    if (const auto node = brainscript::find_node(model_, e.text))
      return {make(ExprKind::identifier, e.where, fmt::format("#{}", *node))};
    if (!found) return {make(ExprKind::text, e.where, e.text)};
    const auto& inside = found->result.inside;
    fail(e.where, fmt::format("'{}' has no part '{}'", first, e.text.substr(first.size() + 1)),
         inside ? known_parts(*inside) : "only the result of a macro has parts");
  }

  // Of the name a.b.c, whose first part stands for `whole`.
  std::optional<Result> part_of(Result whole, const std::string& name) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos;) {
      const std::size_t next = name.find('.', dot + 1);
      const std::string part = name.substr(dot + 1, next == std::string::npos ? next : next - dot - 1);
      if (!whole.inside) return std::nullopt;
      const auto inner = whole.inside->symbols.find(to_lower(part));
      if (inner == whole.inside->symbols.end()) return std::nullopt;
      const auto keep = whole.inside;
      whole = symbol(inner->second, *keep);
      dot = next;
    }
    return whole;
  }

  Result call_macro(const Macro& m, const Expression& call, Scope& caller, const std::string& name) {
    if (++depth_ > 500) fail(call.where, fmt::format("macros call each other without end ('{}')", m.name));
    auto scope = std::make_shared<Scope>();
    scopes_.push_back(scope);
    scope->outer = &globals_;
    scope->prefix = caller.prefix + (name.empty() ? fresh(m.name) : name);
    const Argument* tag = bind_arguments(m, call, caller, *scope);
    for (std::size_t k = 0; k < m.parameters.size(); ++k) {
      if (scope->symbols.contains(to_lower(m.parameters[k]))) continue;
      if (!m.defaults[k])
        fail(call.where, fmt::format("'{}' lacks the argument '{}'", m.name, m.parameters[k]),
             fmt::format("it is {} ({})", m.name, fmt::join(m.parameters, ", ")));
      scope->symbols[to_lower(m.parameters[k])] = {nullptr, Symbol::State::done,
                                                   evaluate(*m.defaults[k], globals_, {})};
    }
    declare(m.body, *scope);
    Result last;
    if (m.single) {
      // The one node bears the name itself.
      const std::string own = scope->prefix.substr(caller.prefix.size());
      scope->prefix = caller.prefix;
      last = evaluate(m.body[0].value, *scope, own);
    } else {
      scope->prefix += ".";
      for (const auto& s : m.body) last = execute(s, *scope);
      if (const auto same = scope->symbols.find(to_lower(m.name));
          same != scope->symbols.end() && same->second.statement)
        last = same->second.result;
    }
    --depth_;
    if (tag) add_tag(node_of(last, call), *tag, caller);
    return {last.value, last.constant, scope};
  }

  // Gives the macro's parameters their values. An option that is no parameter is known inside of the macro under its
  // name, except the tag of the result, which is returned.
  const Argument* bind_arguments(const Macro& m, const Expression& call, Scope& caller, Scope& inside) {
    const Argument* tag = nullptr;
    std::size_t position = 0;
    for (const auto& a : call.arguments) {
      const auto named = std::ranges::find(m.parameters, to_lower(a.name), to_lower) - m.parameters.begin();
      const std::size_t k = a.name.empty() ? position++ : static_cast<std::size_t>(named);
      if (k == m.parameters.size() && to_lower(a.name) == "tag") {
        tag = &a;
        continue;
      }
      if (k >= m.parameters.size() && a.name.empty())
        fail(a.value.where, fmt::format("'{}' takes {} arguments", m.name, m.parameters.size()),
             fmt::format("it is {} ({})", m.name, fmt::join(m.parameters, ", ")));
      if (k >= m.parameters.size() && std::none_of(m.body.begin(), m.body.end(), [&](const Statement& s) {
            return uses_name(s.value, to_lower(a.name));
          }))
        warn_unused(a.name, m.name, "the macro does not use it");
      const std::string& known_as = k < m.parameters.size() ? m.parameters[k] : a.name;
      inside.symbols[to_lower(known_as)] = {nullptr, Symbol::State::done, evaluate(a.value, caller, {})};
    }
    return tag;
  }

  void warn_unused(const std::string& name, const std::string& of, const std::string& because) {
    std::string line = fmt::format("'{}' of {} has no effect here because {}", name, of, because);
    if (notices_ && warned_.insert(line).second) notices_->lines.push_back(std::move(line));
  }

  std::string fresh(const std::string& what) { return fmt::format("{}{}", what, ++unnamed_[to_lower(what)]); }

  // The identifier of the node. A number becomes a constant.
  Expr* node_of(const Result& r, const Expression& e) {
    const ExprKind kind = r.value ? r.value->kind : ExprKind::record;
    if (kind == ExprKind::identifier) {
      if (r.value->name[0] == '#' && model_.nodes[std::stoul(r.value->name.substr(1))].operation.empty())
        fail(e.where, fmt::format("the node '{}' was deleted", e.text), "name one that is still there");
      return r.value;
    }
    if (kind == ExprKind::number) {
      Expr* made = called(*functions_.find("_Scalar"), e.where);
      made->arguments.push_back({"value", r.value, e.where});
      return add(made, fresh("Constant"), false);
    }
    if (kind == ExprKind::text && e.kind == Expression::Kind::name) {
      std::vector<std::string> known;
      for (const auto& [name, s] : globals_.symbols)
        if (s.statement) known.push_back(s.statement->name);
      fail(e.where, fmt::format("'{}' is not defined", r.value->name), did_you_mean(r.value->name, known));
    }
    fail(e.where, "a node is needed here, not a string or a list");
  }

  // A member that makes the node; returns the identifier that stands for it. `given`: the user chose the name.
  Expr* add(Expr* call, const std::string& name, bool given) {
    if (given && brainscript::find_node(model_, name))
      fail(call->where, fmt::format("the model has a node '{}' already", name),
           "give the new one another name, or delete or rename the node first");
    std::string own = name;
    for (int n = 2; !taken_.insert(own).second; ++n) own = fmt::format("{}_{}", name, n);
    out_.record->members.push_back({own, call, call->where});
    Expr* use = make(ExprKind::identifier, call->where, own);
    out_.uses.emplace_back(own, use);
    return use;
  }

  Expr* called(const Function& f, const Span& where) {
    Expr* callee = make(ExprKind::identifier, where, f.own ? "_Ndl" : f.name);
    if (f.own) {
      Expr* record = callee;
      callee = make(ExprKind::member, where, f.name);
      callee->args = {record};
    }
    Expr* call = make(ExprKind::call, where);
    call->args = {callee};
    return call;
  }

  Result call(const Expression& e, Scope& scope, const std::string& name) {
    const Function& f = functions_.of_call(e, near_);
    const Matched m = match(f, e);
    Expr* made = called(f, e.where);
    if (f.variadic) {
      Expr* all = make(ExprKind::array, e.where, ":");
      for (const auto& a : e.arguments)
        if (a.name.empty()) all->args.push_back(node_of(evaluate(a.value, scope, {}), a.value));
      made->arguments.push_back({f.lambda->params[0].name, all, e.where});
    }
    for (std::size_t k = 0; k < m.by_parameter.size(); ++k) {
      const Param& p = f.lambda->params[k];
      const Argument* a = m.by_parameter[k];
      if (!a) continue;
      if (const auto because = why_unused(p)) {
        warn_unused(p.name, e.text, *because);
        continue;
      }
      Expr* value = nullptr;
      if (f.nodes.contains(p.name) && f.is_delay() && points_ahead(a->value, scope)) {
        value = make(ExprKind::identifier, a->value.where);
        pending_.emplace_back(value, &a->value, &scope);
      } else {
        value =
            f.nodes.contains(p.name) ? node_of(evaluate(a->value, scope, {}), a->value) : setting(p, *a, e.text, scope);
      }
      made->arguments.push_back({p.name, value, a->value.where});
    }
    Result r{add(made, scope.prefix + (name.empty() ? fresh(f.operation) : name), !name.empty())};
    if (f.name == "Constant" || f.name == "Const") r.constant = made->arguments[0].value;
    if (m.tag) add_tag(r.value, *m.tag, scope);
    return r;
  }

  bool points_ahead(const Expression& e, Scope& scope) {
    if (e.kind != Expression::Kind::name) return false;
    const auto [found, where] = find(e.text.substr(0, e.text.find('.')), scope);
    return found && found->state != Symbol::State::done;
  }

  // The value of a parameter that is no node. A constant stands for its number; for Const (5), no node is made.
  Expr* setting(const Param& p, const Argument& a, const std::string& call, Scope& scope) {
    const Expression* e = &a.value;
    if (e->kind == Expression::Kind::call && (to_lower(e->text) == "const" || to_lower(e->text) == "constant") &&
        e->arguments.size() == 1)
      e = &e->arguments[0].value;
    const Result r = evaluate(*e, scope, {});
    Expr* value = r.constant ? r.constant : r.value;
    if (!value) fail(e->where, fmt::format("'{}' of {} needs a value", p.name, call));
    if (value->kind == ExprKind::text && p.name == "init") value->name = known_init(value->name);
    return p.otherwise && p.otherwise->kind == ExprKind::boolean ? flags(p, value, call) : value;
  }

  // true, t, 1 and their opposites, in lists too.
  Expr* flags(const Param& p, Expr* value, const std::string& call) {
    std::optional<bool> flag;
    if (value->kind == ExprKind::number && (value->number == 0 || value->number == 1))
      flag = value->number == 1;
    else if (value->kind == ExprKind::text)
      flag = truth(value->name);
    if (flag) return make(ExprKind::boolean, value->where, {}, *flag);
    if (value->kind != ExprKind::array)
      fail(value->where, fmt::format("'{}' of {} must be true or false", p.name, call));
    for (Expr*& element : value->args) element = flags(p, element, call);
    return value;
  }

  void add_tag(Expr* node, const Argument& a, Scope& scope) {
    const Expr* word = evaluate(a.value, scope, {}).value;
    const NodeSet set = word && word->kind == ExprKind::text ? set_of_word(to_lower(word->name)) : nullptr;
    if (!set) fail(a.value.where, "there is no such tag", "tags are feature, label, criteria, eval, output");
    out_.in_sets.emplace_back(set, node);
  }

  Program& program_;
  const FunctionTable& functions_;
  const graph::Graph& model_;
  config::Notices* notices_;
  std::map<std::string, const Macro*> macros_;
  Scope globals_;
  std::vector<std::shared_ptr<Scope>> scopes_;
  std::vector<std::tuple<Expr*, const Expression*, Scope*>> pending_;  // inputs that stand further down
  std::map<std::string, int> unnamed_;
  std::set<std::string> taken_;
  std::set<std::string> warned_;
  std::vector<std::string> near_;
  int depth_ = 0;
  Desugared out_;
};

GrowingNetwork::GrowingNetwork(graph::Graph model, const BuildContext& context, std::int64_t first_seed)
    : graph(std::move(model)),
      context_(context),
      seed_(first_seed),
      library_(parse_library(program_)),
      functions_(*library_),
      desugarer_(std::make_unique<Desugarer>(program_, functions_, graph, context.notices)) {}
GrowingNetwork::~GrowingNetwork() = default;

void GrowingNetwork::add_macros(ScriptPtr script) { desugarer_->add_macros(*scripts_.emplace_back(std::move(script))); }
Desugared GrowingNetwork::desugared(ScriptPtr script) {
  return desugarer_->run(*scripts_.emplace_back(std::move(script)));
}

std::optional<std::size_t> GrowingNetwork::find(const std::string& name) const {
  if (const auto node = find_node(graph, name)) return node;
  const Expr* use = desugarer_->find_node(name);
  return use ? std::optional(std::stoul(use->name.substr(1))) : std::nullopt;
}

}  // namespace tutti::brainscript::ndl
