// SPDX-License-Identifier: Apache-2.0
// Script of the older network language -> BrainScript (ndl_desugar.cpp) -> graph.
#include <algorithm>

#include "brainscript/evaluator.h"
#include "brainscript/ndl_desugar.h"
#include "brainscript/network.h"
#include "brainscript/node_names.h"

namespace tutti::brainscript::ndl {

void fail(const Span& where, std::string message, std::string fix) {
  throw ConfigError(where.pos(), std::move(message), std::move(fix));
}

struct GrowingNetwork::Impl {
  Impl(const BuildContext& given, std::int64_t first_seed, const graph::Graph* model)
      : context(given),
        seed(first_seed),
        library(parse_library(program)),
        functions(*library),
        graph(model ? *model : graph::Graph{}),
        desugarer(program, functions, model ? &graph : nullptr, given.notices) {}

  void add(const Script& script) {
    const Desugared made = desugarer.run(script);
    Heap heap;
    NodeTable nodes(seed, context.force_constant_seed);
    nodes.graph = std::move(graph);
    Evaluator evaluator(heap, nodes, context.notices);
    const Path* root = heap.path(nullptr, "");
    Record* model = heap.record();
    model->outer = library_record(evaluator, *library, root);
    for (std::size_t n = 0; n < nodes.graph.nodes.size(); ++n)
      model->add("#" + std::to_string(n), heap.ready(NodeRef{n}));
    model->build_index();
    Record* record = evaluator.make_record(*made.record, model, root);
    const auto node = [&](const Expr& use) { return std::get<NodeRef>(evaluator.evaluate(use, record, root)).index; };
    for (const auto& [name, thunk] : record->members) evaluator.force(thunk);
    evaluator.resolve_delays();
    for (const auto& [set, use] : made.in_sets) {
      std::vector<std::size_t>& all = nodes.graph.*set;
      if (const std::size_t n = node(*use); std::find(all.begin(), all.end(), n) == all.end()) all.push_back(n);
    }
    // What later scripts use are nodes of the model.
    for (const auto& [name, use] : made.uses) use->name = "#" + std::to_string(node(*use));
    graph = std::move(nodes.graph);
  }

  BuildContext context;
  std::int64_t seed;
  Program program;
  const Expr* library;
  FunctionTable functions;
  graph::Graph graph;
  Desugarer desugarer;
  std::vector<std::shared_ptr<const Script>> scripts;  // the desugarer points into them
};

GrowingNetwork::GrowingNetwork(graph::Graph model, const BuildContext& context)
    : impl_(std::make_unique<Impl>(context, 1, &model)) {}
GrowingNetwork::~GrowingNetwork() = default;
GrowingNetwork::GrowingNetwork(GrowingNetwork&&) noexcept = default;
GrowingNetwork& GrowingNetwork::operator=(GrowingNetwork&&) noexcept = default;

void GrowingNetwork::add_macros(std::shared_ptr<const Script> script) {
  impl_->desugarer.add_macros(*impl_->scripts.emplace_back(std::move(script)));
}
void GrowingNetwork::add(std::shared_ptr<const Script> script) {
  impl_->add(*impl_->scripts.emplace_back(std::move(script)));
}
graph::Graph& GrowingNetwork::graph() { return impl_->graph; }
std::optional<std::size_t> GrowingNetwork::find(const std::string& name) {
  if (const auto node = brainscript::find_node(graph(), name)) return node;
  const Expr* use = impl_->desugarer.find_node(name);
  return use ? std::optional(std::stoul(use->name.substr(1))) : std::nullopt;
}

graph::Graph build_network(const std::vector<const Script*>& macros, const Script& network, const BuildContext& context,
                           std::int64_t seed_offset) {
  GrowingNetwork::Impl made(context, 1 + seed_offset, nullptr);
  for (const Script* s : macros) made.desugarer.add_macros(*s);
  made.add(network);
  flatten_products(made.graph);
  return std::move(made.graph);
}

}  // namespace tutti::brainscript::ndl
