// SPDX-License-Identifier: Apache-2.0
// Evaluates the network record in the order that decides the seeds, which is CNTK's, then fixes names and special
// node sets (2.4, 2.5).
#include "brainscript/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "brainscript/deep_stack.h"
#include "brainscript/evaluator.h"
#include "brainscript/node_sets.h"

namespace tutti::brainscript {
namespace {

bool is_special(std::string_view name) { return std::ranges::find(set_members, name) != set_members.end(); }

class Builder {
 public:
  Builder(const NetworkText& network, const BuildContext& context, std::int64_t& seed)
      : context_(context),
        nodes_(seed, context.force_constant_seed),
        evaluator_(heap_, nodes_, context.notices, context.load_model) {
    program_.include_path = network.include_path;
    root_ = heap_.path(nullptr, "");
    Record* library = library_record(evaluator_, *parse_library(program_), root_);
    globals_ = heap_.record();
    globals_->outer = library;
    for (const auto& [name, value] : network.variables) globals_->add(name, heap_.ready(value, name));
    text_ = program_.add_text(network.text);
  }

  graph::Graph run() {
    Record* network = network_record();
    if (problems_ == 0 && network) evaluate(*network);
    if (problems_ == 0 && !network)
      guarded([&] { evaluator_.resolve_delays(); });  // that edits of a loaded one have made
    if (problems_ > 0) return {};
    nodes_.drop_unused();
    return std::move(nodes_.graph);
  }

  Value expression() {
    const Expr* e = parse_expression(program_, *text_);
    return evaluator_.evaluate(*e, globals_, root_);
  }
  std::string shown(const Value& v) {
    Expr here;
    here.where = {text_, 0, 1};
    return evaluator_.shown(v, here, globals_);
  }

 private:
  // Reports the mistakes of one definition together with those of others. A definition that fails because of another
  // one repeats its message, which is dropped.
  template <class F>
  void guarded(F&& work) {
    try {
      work();
    } catch (const ConfigError& e) {
      ++problems_;
      for (const auto& d : e.diagnostics())
        if (reported_.size() < 20 && reported_.insert(render(d)).second) context_.problems->add(d);
    }
  }

  // Null if the network is a loaded one, or wrong.
  Record* network_record() {
    Record* network = nullptr;
    guarded([&] {
      const Expr* e = parse_expression(program_, *text_);
      if (e->kind == ExprKind::record) {
        network = evaluator_.make_record(*e, globals_, root_);
        return;
      }
      const Value v = evaluator_.evaluate(*e, globals_, root_);
      if (auto* view = std::get_if<NetworkView*>(&v); view && (*view)->prefix.empty())
        return adopt_whole(*(*view)->network, nodes_);
      auto* r = std::get_if<Record*>(&v);
      if (!r)
        throw ConfigError(e->where.pos(),
                          fmt::format("the network must be a record of definitions, not {}", evaluator_.describe(v)),
                          "write { ... }, (new ComputationNetwork { ... }) or (BS.Network.Load (path))");
      network = *r;
    });
    return network;
  }

  void evaluate(const Record& network) {
    std::map<std::string, Value> values;
    for (const auto& name : evaluation_order(network))
      guarded([&] { values[name] = evaluator_.force(network.own(name)); });
    guarded([&] { evaluator_.resolve_delays(); });
    if (problems_ > 0) return;
    name_top_level(values);
    for (const auto set : node_sets) guarded([&] { fill(set, network, values); });
    name_special(values);
    warn_near_misses(network);
  }

  static std::vector<std::string> evaluation_order(const Record& network) {
    std::vector<std::string> names;
    for (const auto& [name, thunk] : network.members) names.push_back(name);
    std::ranges::sort(names, {}, [](const std::string& n) { return std::pair(!is_special(n), n); });
    return names;
  }

  // A node that is the value of a top-level member has that member's name, wherever inside it was created.
  void name_top_level(const std::map<std::string, Value>& values) {
    for (const auto& [name, value] : values) {
      auto* node = std::get_if<NodeRef>(&value);
      if (!node) continue;
      const std::string& now = nodes_.graph.nodes[node->index].name;
      if (now != name && (now.starts_with(name + ".") || now.starts_with(name + "["))) nodes_.rename(*node, name);
    }
  }

  // Criteria, evaluations and outputs appear in logs and file names: a member that stands for one gives it its name.
  void name_special(const std::map<std::string, Value>& values) {
    std::set<std::size_t> special;
    for (const auto* set : {&nodes_.graph.criteria, &nodes_.graph.evaluations, &nodes_.graph.outputs})
      special.insert(set->begin(), set->end());
    const auto refers = [&](const std::string& name, std::size_t node) {
      const auto found = values.find(name);
      auto* ref = found == values.end() ? nullptr : std::get_if<NodeRef>(&found->second);
      return ref && ref->index == node;
    };
    for (const std::size_t node : special) {
      if (refers(nodes_.graph.nodes[node].name, node)) continue;
      for (const auto& [name, value] : values)
        if (!is_special(name) && refers(name, node)) {
          nodes_.rename({node}, name);
          break;
        }
    }
  }

  void fill(NodeSet set, const Record& network, const std::map<std::string, Value>& values) {
    std::vector<std::size_t>& nodes = nodes_.graph.*set;
    const auto add = [&](std::size_t node) {
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    };
    const std::string_view member = member_of(set);
    if (const auto found = values.find(std::string(member)); found != values.end()) {
      const Expr& e = *network.own(member)->expr;
      for (const auto& v : evaluator_.elements(found->second)) {
        if (!std::holds_alternative<NodeRef>(v))
          Evaluator::fail(e, &network, fmt::format("{} holds nodes, not {}", member, evaluator_.describe(v)),
                          std::holds_alternative<Function*>(v) ? "apply the function or layer to its input: f (x)"
                                                               : "write (node) or (node1 : node2)");
        add(std::get<NodeRef>(v).index);
      }
    }
    for (const std::size_t node : nodes_.tags.*set) {
      // Input's tag says feature unless told otherwise; labelNodes is such a word.
      if (set == &graph::Graph::features && nodes_.default_features.contains(node) && is_label(node, values)) continue;
      add(node);
    }
  }

  bool is_label(std::size_t node, const std::map<std::string, Value>& values) {
    const auto found = values.find("labelNodes");
    return found != values.end() && std::ranges::count(evaluator_.elements(found->second), Value(NodeRef{node})) > 0;
  }

  void warn_near_misses(const Record& network) {
    if (!context_.notices) return;
    const std::vector<std::string> known(set_members.begin(), set_members.end());
    for (const auto& m : network.written->members) {
      if (is_special(m.name) || !m.name.ends_with("odes")) continue;
      const NodeSet meant = set_of_member(m.name);  // evalNodes, criteriaNodes
      const std::string near = meant ? std::string(member_of(meant)) : nearest(m.name, known);
      if (!near.empty())
        evaluator_.notice({m.where.pos(), fmt::format("'{}' is no special node set", m.name),
                           fmt::format("did you mean '{}'?", near)});
    }
  }

  const BuildContext& context_;
  Program program_;
  Heap heap_;
  NodeTable nodes_;
  Evaluator evaluator_;
  const Path* root_ = nullptr;
  Record* globals_ = nullptr;
  const SourceText* text_ = nullptr;
  int problems_ = 0;
  std::set<std::string> reported_;
};

}  // namespace

const Expr* parse_library(Program& program) {
  auto source = std::make_shared<Source>(Source{"<library>", library_text(), nullptr});
  return parse_members(program, *program.add_text({source->text, source, 0, true}));
}

Record* library_record(Evaluator& evaluator, const Expr& library, const Path* root) {
  Record* r = evaluator.make_record(library, nullptr, root);
  for (const auto& n : natives())
    r->add(n.name, evaluator.heap().ready(evaluator.heap().function({nullptr, nullptr, &n, n.name}), n.name));
  r->add("_None", evaluator.heap().ready(None{}, "None"));
  r->build_index();
  return r;
}

graph::Graph build_network(const NetworkText& network, const BuildContext& context) {
  std::int64_t own_seed = 1;
  graph::Graph graph;
  on_deep_stack([&] { graph = Builder(network, context, context.seed ? *context.seed : own_seed).run(); });
  return graph;
}

std::string evaluate_to_text(const std::string& expression) {
  auto source = std::make_shared<Source>(Source{"expression", expression, nullptr});
  NetworkText network{{expression, source, 0, false}, {}, {}};
  BuildContext context;
  std::int64_t seed = 1;
  std::string shown;
  on_deep_stack([&] {
    Builder builder(network, context, seed);
    shown = builder.shown(builder.expression());
  });
  return shown;
}

}  // namespace tutti::brainscript
