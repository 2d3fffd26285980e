// SPDX-License-Identifier: Apache-2.0
// Trained models inside a description: loading, naming their nodes, editing.
#include "brainscript/evaluator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "brainscript/deep_stack.h"
#include "brainscript/node_sets.h"

namespace tutti::brainscript {
namespace {

// A name as one identifier: model.arrayOfFunctions[0].W is model_arrayOfFunctions_0_W.
std::string as_identifier(const std::string& name) {
  std::string id;
  for (const char c : name)
    if (c == '.' || c == '[')
      id += '_';
    else if (c != ']')
      id += c;
  return id;
}

// The nodes of a set, as those of the new network.
std::vector<std::size_t> set_nodes(LoadedNetwork& net, NodeSet set, NodeTable& nodes) {
  if (net.edited) return *net.edited.*set;
  std::vector<std::size_t> all;
  for (const auto n : net.graph.*set) all.push_back(bring_in(net, n, nodes).index);
  return all;
}

}  // namespace

NodeRef bring_in(LoadedNetwork& net, std::size_t root, NodeTable& nodes) {
  if (net.place[root]) return {*net.place[root]};
  std::vector<std::size_t> fresh;
  for (const auto n : with_inputs(net.graph, {root})) {
    if (net.place[n]) continue;
    graph::Node node = net.graph.nodes[n];
    node.inputs.clear();
    node.where = net.where;
    net.place[n] = nodes.add_loaded(std::move(node)).index;
    fresh.push_back(n);
  }
  // In a second pass, because recurrent nodes refer to later ones.
  for (const auto n : fresh)
    for (const auto in : net.graph.nodes[n].inputs) nodes.graph.nodes[*net.place[n]].inputs.push_back(*net.place[in]);
  for (const auto set : {&graph::Graph::features, &graph::Graph::labels})
    for (const auto n : fresh)
      if (std::ranges::count(net.graph.*set, n) > 0) (nodes.tags.*set).push_back(*net.place[n]);
  return {*net.place[root]};
}

void adopt_whole(LoadedNetwork& net, NodeTable& nodes) {
  for (std::size_t n = 0; n < net.graph.nodes.size(); ++n) bring_in(net, n, nodes);
  nodes.tags = {};
  for (const auto set : node_sets) nodes.graph.*set = set_nodes(net, set, nodes);
  nodes.keep_loaded = !net.edited;
}

Value load_network(const Call& c) {
  auto net = std::make_shared<LoadedNetwork>();
  net->path = c.ev.text(c[0], "the path of the model", c.site, c.scope);
  net->where = Evaluator::place(c.site, c.scope);
  if (!c.ev.load_model()) c.fail("models cannot be loaded here");
  try {
    on_starting_thread([&] { net->graph = c.ev.load_model()(net->path); });
  } catch (const Error& e) {
    c.fail(e.what(), "check the path of the model; a relative one starts at the current directory");
  }
  net->place.resize(net->graph.nodes.size());
  return c.ev.heap().view({std::move(net), ""});
}

namespace {

// The meaning of `name` in the model: a node, the beginning of longer names, or nothing.
std::optional<Value> find(Evaluator& ev, const NetworkView& view, const std::string& name) {
  LoadedNetwork& net = *view.network;
  const auto& all = net.graph.nodes;
  for (std::size_t n = 0; n < all.size(); ++n)
    if (all[n].name == name) return bring_in(net, n, ev.nodes());
  for (std::size_t n = 0; n < all.size(); ++n)
    if (as_identifier(all[n].name) == name) return bring_in(net, n, ev.nodes());
  for (const auto& node : all)
    if (node.name.starts_with(name + ".") || node.name.starts_with(name + "["))
      return ev.heap().view({view.network, name});
  return std::nullopt;
}

[[noreturn]] void no_such(const NetworkView& view, const std::string& name, const Expr& e, Record* scope) {
  std::vector<std::string> known;
  for (const auto& n : view.network->graph.nodes) known.push_back(n.name);
  const auto some = std::span(known).first(std::min<std::size_t>(known.size(), 12));
  const std::string has = fmt::format("it has: {}{}", fmt::join(some, ", "), known.size() > 12 ? ", ..." : "");
  Evaluator::fail(e, scope, fmt::format("the model '{}' has no node '{}'", view.network->path, name),
                  did_you_mean(name, known, has));
}

}  // namespace

Value network_member(Evaluator& ev, const NetworkView& view, const Expr& e, Record* scope) {
  const std::string name = view.prefix.empty() ? e.name : view.prefix + "." + e.name;
  const auto set = std::ranges::find(set_members, e.name);
  if (view.prefix.empty() && set != set_members.end()) {
    Array* a = ev.heap().array();
    for (const auto n :
         set_nodes(*view.network, node_sets[static_cast<std::size_t>(set - set_members.begin())], ev.nodes()))
      a->elements.push_back(ev.heap().ready(NodeRef{n}));
    return a;
  }
  if (auto found = find(ev, view, name)) return *found;
  no_such(view, name, e, scope);
}

Value network_element(Evaluator& ev, const NetworkView& view, const Value& index, const Expr& e, Record* scope) {
  const std::string name = fmt::format("{}[{}]", view.prefix, ev.integer(index, "an index", e, scope));
  if (!view.prefix.empty())
    if (auto found = find(ev, view, name)) return *found;
  no_such(view, name, e, scope);
}

// Every edit function is called with each node of the network. If it returns another node, all links to the old one
// within the network are redirected to it; links of nodes that the function itself created are not changed.
Value edit_network(const Call& c) {
  Evaluator& ev = c.ev;
  auto* view = std::get_if<NetworkView*>(&c[0]);
  if (!view || !(*view)->prefix.empty())
    c.fail(fmt::format("inputModel must be a loaded network, not {}", ev.describe(c[0])),
           "BS.Network.Edit (BS.Network.Load (path), functions, roots)");
  std::vector<std::size_t> members;
  for (std::size_t n = 0; n < (*view)->network->graph.nodes.size(); ++n)
    members.push_back(bring_in(*(*view)->network, n, ev.nodes()).index);
  auto net = std::make_shared<LoadedNetwork>(*(*view)->network);
  graph::Graph roots;
  for (const auto set : node_sets) roots.*set = set_nodes(*net, set, ev.nodes());

  for (const auto& f : c.elements(c[1])) {
    std::map<std::size_t, std::size_t> instead;
    const std::size_t before = ev.nodes().graph.nodes.size();
    for (const auto n : members) {
      const Path* path = ev.heap().path(c.path, ev.nodes().graph.nodes[n].name);
      const Value v = ev.apply(f, {ev.heap().ready(NodeRef{n})}, c.site, c.scope, path);
      const NodeRef given = ev.as_node(v, "what an edit function gives back", c.site, c.scope, path);
      if (given.index != n) instead[n] = given.index;
    }
    const auto redirect = [&](std::size_t& n) {
      if (const auto found = instead.find(n); found != instead.end()) n = found->second;
    };
    for (const auto n : members)
      for (auto& in : ev.nodes().graph.nodes[n].inputs) redirect(in);
    for (const auto set : node_sets)
      for (auto& n : roots.*set) redirect(n);
    for (std::size_t n = before; n < ev.nodes().graph.nodes.size(); ++n) members.push_back(n);
  }
  for (const auto& root : c.elements(c[2])) {
    const NodeRef n = ev.as_node(root, "an additional root", c.site, c.scope, c.path);
    if (std::ranges::none_of(node_sets, [&](NodeSet s) { return std::ranges::count(roots.*s, n.index) > 0; }))
      roots.outputs.push_back(n.index);
  }
  net->edited = std::move(roots);
  return ev.heap().view({std::move(net), ""});
}

}  // namespace tutti::brainscript
