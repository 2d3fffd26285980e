// SPDX-License-Identifier: Apache-2.0
// Script of the older network language -> graph. Statements are worked off in their order, which numbers the seeds; a
// name that is used before its line makes its line come first, and delays may point to names that come later.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "brainscript/ndl_calls.h"
#include "brainscript/node_names.h"
#include "graph/shapes.h"

namespace tutti::brainscript::ndl {
namespace {

struct Scope;
struct Result {
  // A number, a string, a list of numbers, a node; of a macro: its scope beside the value.
  Value value;
  std::shared_ptr<Scope> inside;
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

using NodeSet = std::vector<std::size_t> graph::Graph::*;
const std::map<std::string, NodeSet> tags = {
    {"feature", &graph::Graph::features},  {"label", &graph::Graph::labels},
    {"criteria", &graph::Graph::criteria}, {"criterion", &graph::Graph::criteria},
    {"eval", &graph::Graph::evaluations},  {"evaluation", &graph::Graph::evaluations},
    {"output", &graph::Graph::outputs}};

class Builder {
 public:
  Builder(const BuildContext& context, std::int64_t seed_offset)
      : seed_(1 + seed_offset), constant_seed_(context.force_constant_seed), notices_(context.notices) {}
  // A builder that adds to a model: its nodes have names that statements may use and must not take.
  Builder(const BuildContext& context, graph::Graph model)
      : graph_(std::move(model)),
        seed_(1),
        constant_seed_(context.force_constant_seed),
        notices_(context.notices),
        grows_(true) {}

  graph::Graph& graph() { return graph_; }

  void add_macros(const Script& script) {
    for (const auto& [name, macro] : script.macros) macros_[name] = &macro, near_.push_back(macro.name);
    declare(script.statements, globals_);
  }

  // Adds the statements of the script, which has to live as long as the builder.
  void run(const Script& network) {
    taken_.clear();
    for (const auto& n : graph_.nodes) taken_.insert(n.name);
    add_macros(network);
    for (const auto& s : network.statements) execute(s, globals_);
    for (const auto& p : pending_)
      graph_.nodes[p.node].inputs[p.input] = node_of(eval_name(*p.expression, *p.scope), *p.expression);
    pending_.clear();
  }

  // The node that a name of an earlier statement stands for.
  std::optional<std::size_t> find_node(const std::string& name) {
    const Symbol* symbol = find(name.substr(0, name.find('.')), globals_).first;
    if (!symbol || symbol->state != Symbol::State::done) return std::nullopt;
    const auto found = part_of(symbol->result, name);
    const auto* node = found ? std::get_if<std::size_t>(&found->value) : nullptr;
    return node ? std::optional(*node) : std::nullopt;
  }

 private:
  void declare(const std::vector<Statement>& statements, Scope& scope) {
    std::set<std::string> here;
    for (const auto& s : statements) {
      if (s.name.empty() || find_node_set(s.name)) continue;
      Symbol& symbol = scope.symbols[lower(s.name)];
      if (symbol.statement == &s) continue;
      if (!here.insert(lower(s.name)).second)
        fail(s.where, fmt::format("'{}' is defined twice", s.name), "give the second one another name");
      symbol = {&s, Symbol::State::fresh, {}};
    }
  }

  // The value of the statement; of a set, nothing.
  Result execute(const Statement& s, Scope& scope) {
    if (const auto set = find_node_set(s.name)) {
      add_to_set(set, s.value, scope);
      return {};
    }
    if (s.name.empty()) return evaluate(s.value, scope, {});
    return symbol(scope.symbols.at(lower(s.name)), scope);
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
    add_once(graph_.*set, node_of(evaluate(e, scope, {}), e));
  }
  static void add_once(std::vector<std::size_t>& nodes, std::size_t node) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }

  Result evaluate(const Expression& e, Scope& scope, const std::string& name) {
    check_variables(e);
    switch (e.kind) {
      case Expression::Kind::number:
        return {e.number, nullptr};
      case Expression::Kind::text:
        return {e.text, nullptr};
      case Expression::Kind::name:
        return eval_name(e, scope);
      case Expression::Kind::list:
        return list(e, scope);
      case Expression::Kind::call:
        break;
    }
    const auto macro = macros_.find(lower(e.text));
    if (macro != macros_.end()) return call_macro(*macro->second, e, scope, name);
    return {make_node(e, scope, name), nullptr};
  }

  // Numbers as a list; one element in parentheses is just that.
  Result list(const Expression& e, Scope& scope) {
    if (e.arguments.size() == 1) return evaluate(e.arguments[0].value, scope, {});
    std::vector<double> numbers;
    for (const auto& a : e.arguments) {
      const Result r = evaluate(a.value, scope, {});
      if (const auto* n = std::get_if<double>(&r.value))
        numbers.push_back(*n);
      else if (const auto* s = std::get_if<std::string>(&r.value); s && truth(*s))
        numbers.push_back(*truth(*s) ? 1 : 0);
      else
        fail(a.value.where, "a list holds numbers", "write {3, 3} or 3:3");
    }
    return {std::move(numbers), nullptr};
  }

  std::pair<Symbol*, Scope*> find(const std::string& name, Scope& scope) {
    for (Scope* s = &scope; s; s = s->outer)
      if (const auto found = s->symbols.find(lower(name)); found != s->symbols.end()) return {&found->second, s};
    return {nullptr, nullptr};
  }

  // a, or a.b.c where a is what a macro has made. A word that nothing defines means itself: uniform, HWC, true.
  Result eval_name(const Expression& e, Scope& scope) {
    const std::string first = e.text.substr(0, e.text.find('.'));
    const auto [found, where] = find(first, scope);
    const auto of_model = [&] { return grows_ ? brainscript::find_node(graph_, e.text) : std::nullopt; };
    if (!found) {
      if (const auto node = of_model()) return {*node, nullptr};
      return {e.text, nullptr};
    }
    const Result r = symbol(*found, *where);
    if (const auto part = part_of(r, e.text)) return *part;
    if (const auto node = of_model()) return {*node, nullptr};
    fail(e.where, fmt::format("'{}' has no part '{}'", first, e.text.substr(first.size() + 1)),
         r.inside ? known_parts(*r.inside) : "only the result of a macro has parts");
  }

  // Of the name a.b.c, whose first part stands for `whole`.
  std::optional<Result> part_of(Result whole, const std::string& name) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos;) {
      const std::size_t next = name.find('.', dot + 1);
      const std::string part = name.substr(dot + 1, next == std::string::npos ? next : next - dot - 1);
      if (!whole.inside) return std::nullopt;
      const auto inner = whole.inside->symbols.find(lower(part));
      if (inner == whole.inside->symbols.end()) return std::nullopt;
      const auto keep = whole.inside;
      whole = symbol(inner->second, *keep);
      dot = next;
    }
    return whole;
  }

  static std::string known_parts(const Scope& scope) {
    std::string all;
    for (const auto& [name, s] : scope.symbols)
      if (s.statement) all += (all.empty() ? "it has: " : ", ") + s.statement->name;
    return all;
  }

  Result call_macro(const Macro& m, const Expression& call, Scope& caller, const std::string& name) {
    if (++depth_ > 500) fail(call.where, fmt::format("macros call each other without end ('{}')", m.name));
    auto scope = std::make_shared<Scope>();
    scopes_.push_back(scope);
    scope->outer = &globals_;
    scope->prefix = caller.prefix + (name.empty() ? fresh(m.name) : name);
    const Argument* tag = bind_arguments(m, call, caller, *scope);
    for (std::size_t k = 0; k < m.parameters.size(); ++k) {
      if (scope->symbols.contains(lower(m.parameters[k]))) continue;
      if (!m.defaults[k])
        fail(call.where, fmt::format("'{}' lacks the argument '{}'", m.name, m.parameters[k]),
             fmt::format("it is {} ({})", m.name, fmt::join(m.parameters, ", ")));
      scope->symbols[lower(m.parameters[k])] = {nullptr, Symbol::State::done, evaluate(*m.defaults[k], globals_, {})};
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
      if (const auto same = scope->symbols.find(lower(m.name)); same != scope->symbols.end() && same->second.statement)
        last = same->second.result;
    }
    --depth_;
    if (tag) add_tag(node_of(last, call), *tag, caller);
    return {last.value, scope};
  }

  // Gives the macro's parameters their values. An option that is no parameter is known inside of the macro under its
  // name, except the tag of the result, which is returned.
  const Argument* bind_arguments(const Macro& m, const Expression& call, Scope& caller, Scope& inside) {
    const Argument* tag = nullptr;
    std::size_t position = 0;
    for (const auto& a : call.arguments) {
      std::size_t k = position;
      if (a.name.empty())
        ++position;
      else
        for (k = 0; k < m.parameters.size() && lower(m.parameters[k]) != lower(a.name); ++k) {
        }
      if (k == m.parameters.size() && lower(a.name) == "tag") {
        tag = &a;
        continue;
      }
      if (k >= m.parameters.size() && a.name.empty())
        fail(a.value.where, fmt::format("'{}' takes {} arguments", m.name, m.parameters.size()),
             fmt::format("it is {} ({})", m.name, fmt::join(m.parameters, ", ")));
      if (k >= m.parameters.size() &&
          std::none_of(m.body.begin(), m.body.end(), [&](const Statement& s) { return names(s.value, lower(a.name)); }))
        say_ignored(a, m.name, "the macro does not use it");
      const std::string& known_as = k < m.parameters.size() ? m.parameters[k] : a.name;
      inside.symbols[lower(known_as)] = {nullptr, Symbol::State::done, evaluate(a.value, caller, {})};
    }
    return tag;
  }

  void say_ignored(const Argument& a, const std::string& of, const std::string& because) {
    std::string line = fmt::format("'{}' of {} has no effect here because {}", a.name, of, because);
    if (notices_ && said_.insert(line).second) notices_->lines.push_back(std::move(line));
  }

  std::string fresh(const std::string& what) { return fmt::format("{}{}", what, ++unnamed_[lower(what)]); }

  std::size_t node_of(const Result& r, const Expression& e) {
    if (const auto* n = std::get_if<std::size_t>(&r.value)) {
      if (graph_.nodes[*n].operation.empty())
        fail(e.where, fmt::format("the node '{}' was deleted", e.text), "name one that is still there");
      return *n;
    }
    if (const auto* v = std::get_if<double>(&r.value)) {
      graph::Node node;
      node.operation = "LearnableParameter";
      node.attributes = {{"dims", std::vector<double>{1}},
                         {"init", std::string("fixedValue")},
                         {"value", *v},
                         {"learningRateMultiplier", 0.0}};
      return add(std::move(node), fresh("Constant"), false, e.where);
    }
    if (const auto* word = std::get_if<std::string>(&r.value); word && e.kind == Expression::Kind::name) {
      std::vector<std::string> known;
      for (const auto& [name, s] : globals_.symbols)
        if (s.statement) known.push_back(s.statement->name);
      const std::string near = nearest(*word, known);
      fail(e.where, fmt::format("'{}' is not defined", *word),
           near.empty() ? "" : fmt::format("did you mean '{}'?", near));
    }
    fail(e.where, "a node is needed here, not a string or a list");
  }

  std::size_t add(graph::Node node, std::string name, bool given, const Span& where) {
    node.where = where.pos();
    node.name = name;
    if (grows_ && given && brainscript::find_node(graph_, name))
      fail(where, fmt::format("the model has a node '{}' already", name),
           "give the new one another name, or delete "
           "or rename the node first");
    for (int n = 2; !taken_.insert(node.name).second; ++n) node.name = fmt::format("{}_{}", name, n);
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.size() - 1;
  }

  std::size_t make_node(const Expression& e, Scope& scope, const std::string& name) {
    const Function& f = function_of(e, near_);
    if (!graph::find_operation(f.operation)) fail(e.where, fmt::format("{} is not part of this version", e.text));
    graph::Node node;
    node.operation = f.operation;
    node.where = e.where.pos();
    Given given;
    std::vector<std::pair<std::size_t, const Argument*>> later;
    const Matched m = match(f, e);
    for (std::size_t k = 0; k < f.parameters.size(); ++k) {
      const Parameter& p = f.parameters[k];
      if (p.kind == ParameterKind::nodes) {
        for (const auto& a : e.arguments)
          if (a.name.empty()) node.inputs.push_back(node_of(evaluate(a.value, scope, {}), a.value));
        continue;
      }
      const Argument* a = m.by_parameter[k];
      if (p.kind == ParameterKind::ignored) {
        if (a && !a->name.empty()) say_ignored(*a, e.text, p.because);
        continue;
      }
      if (p.kind == ParameterKind::node) {
        if (!a) fail(e.where, fmt::format("{} lacks the argument '{}'", e.text, shown(p)));
        if (is_delay(f) && points_ahead(a->value, scope))
          later.emplace_back(node.inputs.size(), a), node.inputs.push_back(0);
        else
          node.inputs.push_back(node_of(evaluate(a->value, scope, {}), a->value));
        continue;
      }
      if (!a && !p.otherwise) fail(e.where, fmt::format("{} lacks the argument '{}'", e.text, shown(p)));
      const graph::Attribute value = a ? attribute(p, *a, e, scope) : *p.otherwise;
      if (p.names[0][0] == '_')
        given.values[shown(p)] = value;
      else
        node.attributes[p.names[0]] = value;
    }
    if (f.finish) f.finish(node, given);
    if (node.operation == "LearnableParameter")
      settle_parameter(node, e, [this](double wanted) {
        return constant_seed_ ? 1.0 : wanted >= 0 ? wanted : static_cast<double>(seed_++);
      });
    const std::size_t made =
        add(std::move(node), scope.prefix + (name.empty() ? fresh(f.operation) : name), !name.empty(), e.where);
    for (const auto& [input, a] : later) pending_.push_back({made, input, &a->value, &scope});
    if (m.tag) add_tag(made, *m.tag, scope);
    return made;
  }

  bool points_ahead(const Expression& e, Scope& scope) {
    if (e.kind != Expression::Kind::name) return false;
    const auto [found, where] = find(e.text.substr(0, e.text.find('.')), scope);
    return found && found->state != Symbol::State::done;
  }

  graph::Attribute attribute(const Parameter& p, const Argument& a, const Expression& call, Scope& scope) {
    Result r = evaluate(number_of_constant(a.value), scope, {});
    if (const auto* node = std::get_if<std::size_t>(&r.value))
      if (const auto value = constant_value(graph_.nodes[*node])) r.value = *value;
    return attribute_of(p, r.value, call.text, a.value.where);
  }

  // Of Const(5) the 5: where a number is wanted, no node is made.
  static const Expression& number_of_constant(const Expression& e) {
    const Function* f = e.kind == Expression::Kind::call ? find_function(e.text) : nullptr;
    return f && f->names[0] == "Constant" && e.arguments.size() == 1 ? e.arguments[0].value : e;
  }
  void add_tag(std::size_t node, const Argument& a, Scope& scope) {
    const Result r = evaluate(a.value, scope, {});
    const auto* word = std::get_if<std::string>(&r.value);
    const auto found = word ? tags.find(lower(*word)) : tags.end();
    if (found == tags.end())
      fail(a.value.where, "there is no such tag", "tags are feature, label, criteria, eval, output");
    add_once(graph_.*found->second, node);
  }

  struct Pending {
    std::size_t node, input;
    const Expression* expression;
    Scope* scope;
  };

  graph::Graph graph_;
  std::map<std::string, const Macro*> macros_;
  Scope globals_;
  std::vector<std::shared_ptr<Scope>> scopes_;
  std::vector<Pending> pending_;
  std::map<std::string, int> unnamed_;
  std::set<std::string> taken_;
  std::int64_t seed_;
  bool constant_seed_;
  config::Notices* notices_;
  std::set<std::string> said_;  // notices, each once
  bool grows_ = false;
  std::vector<std::string> near_;
  int depth_ = 0;
};

}  // namespace

graph::Graph build_network(const std::vector<const Script*>& macros, const Script& network, const BuildContext& context,
                           std::int64_t seed_offset) {
  Builder builder(context, seed_offset);
  for (const Script* s : macros) builder.add_macros(*s);
  builder.run(network);
  flatten_products(builder.graph());
  return std::move(builder.graph());
}

struct GrowingNetwork::Impl {
  Impl(graph::Graph model, const BuildContext& context) : builder(context, std::move(model)) {}
  Builder builder;
  std::vector<std::shared_ptr<const Script>> scripts;  // symbols point into them
};

GrowingNetwork::GrowingNetwork(graph::Graph model, const BuildContext& context)
    : impl_(std::make_unique<Impl>(std::move(model), context)) {}
GrowingNetwork::~GrowingNetwork() = default;
GrowingNetwork::GrowingNetwork(GrowingNetwork&&) noexcept = default;
GrowingNetwork& GrowingNetwork::operator=(GrowingNetwork&&) noexcept = default;

void GrowingNetwork::add_macros(std::shared_ptr<const Script> script) {
  impl_->builder.add_macros(*impl_->scripts.emplace_back(std::move(script)));
}
void GrowingNetwork::add(std::shared_ptr<const Script> script) {
  impl_->builder.run(*impl_->scripts.emplace_back(std::move(script)));
}
graph::Graph& GrowingNetwork::graph() { return impl_->builder.graph(); }
std::optional<std::size_t> GrowingNetwork::find(const std::string& name) {
  if (const auto node = brainscript::find_node(graph(), name)) return node;
  return impl_->builder.find_node(name);
}

}  // namespace tutti::brainscript::ndl
