// SPDX-License-Identifier: Apache-2.0
// Evaluates the network record in the order that decides the seeds (semantics 2.6), then fixes names and special
// node sets (2.4, 2.5).
#include "brainscript/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "brainscript/deep_stack.h"
#include "brainscript/evaluator.h"
#include "brainscript/library.h"
#include "brainscript/loaded_network.h"

namespace tutti::brainscript {
namespace {

struct SpecialSet {
  std::string_view member, tag;
  std::vector<std::size_t> graph::Graph::*nodes;
};
constexpr std::array<SpecialSet, 5> special_sets = {{{"criterionNodes", "criterion", &graph::Graph::criteria},
                                                     {"evaluationNodes", "evaluation", &graph::Graph::evaluations},
                                                     {"featureNodes", "feature", &graph::Graph::features},
                                                     {"labelNodes", "label", &graph::Graph::labels},
                                                     {"outputNodes", "output", &graph::Graph::outputs}}};

bool is_special(std::string_view name) {
  return std::any_of(special_sets.begin(), special_sets.end(), [&](const auto& s) { return s.member == name; });
}

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
    if (problems_ > 0) return {};
    if (!network) {                                   // a loaded one
      guarded([&] { evaluator_.resolve_delays(); });  // that edits have made
      if (problems_ > 0) return {};
      nodes_.drop_unused();
      return std::move(nodes_.graph);
    }
    const std::vector<std::string> order = evaluation_order(*network);
    std::map<std::string, Value> values;
    for (const auto& name : order) guarded([&] { values[name] = evaluator_.force(network->own(name)); });
    guarded([&] { evaluator_.resolve_delays(); });
    if (problems_ > 0) return {};
    name_top_level(values);
    for (const auto& set : special_sets) guarded([&] { fill(set, *network, values); });
    name_special(values);
    warn_near_misses(*network);
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

  static std::vector<std::string> evaluation_order(const Record& network) {
    std::vector<std::string> special, others;
    for (const auto& [name, thunk] : network.members) (is_special(name) ? special : others).push_back(name);
    std::sort(special.begin(), special.end());
    std::sort(others.begin(), others.end());
    special.insert(special.end(), others.begin(), others.end());
    return special;
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

  void fill(const SpecialSet& set, const Record& network, const std::map<std::string, Value>& values) {
    std::vector<std::size_t>& nodes = nodes_.graph.*set.nodes;
    const auto add = [&](std::size_t node) {
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    };
    if (const auto found = values.find(std::string(set.member)); found != values.end()) {
      const Expr& e = *network.own(set.member)->expr;
      std::vector<Value> all = {found->second};
      if (auto* a = std::get_if<Array*>(&found->second)) {
        all.clear();
        for (Thunk* t : (*a)->elements) all.push_back(evaluator_.force(t));
      }
      for (const auto& v : all) {
        if (!std::holds_alternative<NodeRef>(v))
          Evaluator::fail(e, &network, fmt::format("{} holds nodes, not {}", set.member, evaluator_.describe(v)),
                          std::holds_alternative<Function*>(v) ? "apply the function or layer to its input: f (x)"
                                                               : "write (node) or (node1 : node2)");
        add(std::get<NodeRef>(v).index);
      }
    }
    for (const std::size_t node : nodes_.tags[std::string(set.tag)]) {
      // Input's tag says feature unless told otherwise; labelNodes is such a word.
      if (set.tag == "feature" && nodes_.default_features.contains(node) && is_label(node, values)) continue;
      add(node);
    }
  }

  bool is_label(std::size_t node, const std::map<std::string, Value>& values) {
    const auto found = values.find("labelNodes");
    if (found == values.end()) return false;
    if (auto* ref = std::get_if<NodeRef>(&found->second)) return ref->index == node;
    auto* a = std::get_if<Array*>(&found->second);
    return a && std::any_of((*a)->elements.begin(), (*a)->elements.end(),
                            [&](Thunk* t) { return evaluator_.force(t) == Value(NodeRef{node}); });
  }

  void warn_near_misses(const Record& network) {
    if (!context_.notices) return;
    std::vector<std::string> known;
    for (const auto& set : special_sets) known.emplace_back(set.member);
    const std::map<std::string, std::string> old = {{"evalNodes", "evaluationNodes"},
                                                    {"criteriaNodes", "criterionNodes"}};
    for (const auto& m : network.written->members) {
      if (is_special(m.name) || !m.name.ends_with("odes")) continue;
      const auto renamed = old.find(m.name);
      const std::string near = renamed != old.end() ? renamed->second : nearest(m.name, known);
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
  for (const auto& n : natives()) {
    Function f;
    f.native = &n;
    f.name = n.name;
    r->add(n.name, evaluator.heap().ready(evaluator.heap().function(std::move(f)), n.name));
  }
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
