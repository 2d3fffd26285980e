// SPDX-License-Identifier: Apache-2.0
// Trained models inside a description: loading, naming their nodes, editing. Clones are in clone.cpp.
#include "brainscript/loaded_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "brainscript/deep_stack.h"
#include "brainscript/node_order.h"

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

std::vector<std::size_t> with_inputs(const graph::Graph& graph, std::size_t root) {
  std::vector<bool> seen(graph.nodes.size(), false);
  std::vector<std::size_t> open = {root}, found;
  seen[root] = true;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    found.push_back(node);
    for (const auto in : graph.nodes[node].inputs)
      if (!seen[in]) seen[in] = true, open.push_back(in);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Array* node_array(Heap& heap, const std::vector<NodeRef>& nodes) {
  Array* a = heap.array();
  for (const auto n : nodes) a->elements.push_back(heap.ready(n));
  return a;
}

std::vector<NodeRef> set_nodes(LoadedNetwork& net, std::size_t set, NodeTable& nodes) {
  std::vector<NodeRef> all;
  if (net.edited)
    for (const auto n : (*net.edited)[set]) all.push_back({n});
  else
    for (const auto n : net.graph.*node_sets[set]) all.push_back(bring_in(net, n, nodes));
  return all;
}

}  // namespace

NodeSets sets_of(const graph::Graph& graph) {
  NodeSets all;
  for (std::size_t s = 0; s < node_sets.size(); ++s) all[s] = graph.*node_sets[s];
  return all;
}

void set_sets(graph::Graph& graph, NodeSets all) {
  for (std::size_t s = 0; s < node_sets.size(); ++s) graph.*node_sets[s] = std::move(all[s]);
}

NodeRef bring_in(LoadedNetwork& net, std::size_t root, NodeTable& nodes) {
  if (net.place[root]) return {*net.place[root]};
  std::vector<std::size_t> fresh;
  for (const auto n : with_inputs(net.graph, root)) {
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
  for (const auto& [tag, set] : {std::pair("feature", &net.graph.features), std::pair("label", &net.graph.labels)})
    for (const auto n : fresh)
      if (std::find(set->begin(), set->end(), n) != set->end()) nodes.tags[tag].push_back(*net.place[n]);
  return {*net.place[root]};
}

void adopt_whole(LoadedNetwork& net, NodeTable& nodes) {
  for (std::size_t n = 0; n < net.graph.nodes.size(); ++n) bring_in(net, n, nodes);
  nodes.tags.clear();
  NodeSets all;
  for (std::size_t s = 0; s < all.size(); ++s)
    for (const auto n : set_nodes(net, s, nodes)) all[s].push_back(n.index);
  set_sets(nodes.graph, std::move(all));
  nodes.keep_loaded = !net.edited;
}

Value load_network(Evaluator& ev, const Call& c) {
  const std::string path = ev.text(ev.force(c.args[0], c.site, c.scope), "the path of the model", *c.site, c.scope);
  if (!ev.load_model()) Evaluator::fail(*c.site, c.scope, "models cannot be loaded here");
  auto net = std::make_shared<LoadedNetwork>();
  net->path = path;
  net->where = Evaluator::place(*c.site, c.scope);
  try {
    on_starting_thread([&] { net->graph = ev.load_model()(path); });
  } catch (const Error& e) {
    Evaluator::fail(*c.site, c.scope, e.what(),
                    "check the path of the model; a relative one starts at the current directory");
  }
  net->place.resize(net->graph.nodes.size());
  return ev.heap().view({std::move(net), ""});
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
  std::string some;
  for (const auto& n : view.network->graph.nodes) {
    known.push_back(n.name);
    if (known.size() <= 12) some += (some.empty() ? "" : ", ") + n.name;
  }
  const std::string near = nearest(name, known);
  Evaluator::fail(e, scope, fmt::format("the model '{}' has no node '{}'", view.network->path, name),
                  near.empty() ? fmt::format("it has: {}{}", some, known.size() > 12 ? ", ..." : "")
                               : fmt::format("did you mean '{}'?", near));
}

}  // namespace

Value network_member(Evaluator& ev, const NetworkView& view, const Expr& e, Record* scope) {
  const std::string name = view.prefix.empty() ? e.name : view.prefix + "." + e.name;
  if (view.prefix.empty())
    for (std::size_t s = 0; s < set_members.size(); ++s)
      if (set_members[s] == e.name) return node_array(ev.heap(), set_nodes(*view.network, s, ev.nodes()));
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
Value edit_network(Evaluator& ev, const Call& c) {
  const auto argument = [&](std::size_t i) { return ev.force(c.args[i], c.site, c.scope); };
  const Value model = argument(0);
  auto* view = std::get_if<NetworkView*>(&model);
  if (!view || !(*view)->prefix.empty())
    Evaluator::fail(*c.site, c.scope, fmt::format("inputModel must be a loaded network, not {}", ev.describe(model)),
                    "BS.Network.Edit (BS.Network.Load (path), functions, roots)");
  std::vector<std::size_t> members;
  for (std::size_t n = 0; n < (*view)->network->graph.nodes.size(); ++n)
    members.push_back(bring_in(*(*view)->network, n, ev.nodes()).index);
  auto net = std::make_shared<LoadedNetwork>(*(*view)->network);
  NodeSets roots;
  for (std::size_t s = 0; s < roots.size(); ++s)
    for (const auto n : set_nodes(*net, s, ev.nodes())) roots[s].push_back(n.index);

  const Value functions = argument(1);
  std::vector<Value> all = {functions};
  if (auto* a = std::get_if<Array*>(&functions)) {
    all.clear();
    for (Thunk* t : (*a)->elements) all.push_back(ev.force(t, c.site, c.scope));
  }
  for (const auto& f : all) {
    std::map<std::size_t, std::size_t> instead;
    const std::size_t before = ev.nodes().graph.nodes.size();
    for (const auto n : members) {
      const Path* path = ev.heap().path(c.path, ev.nodes().graph.nodes[n].name);
      const Value v = ev.apply(f, {ev.heap().ready(NodeRef{n})}, *c.site, c.scope, path);
      const NodeRef given = ev.as_node(v, "what an edit function gives back", *c.site, c.scope, path);
      if (given.index != n) instead[n] = given.index;
    }
    const auto redirect = [&](std::size_t& n) {
      if (const auto found = instead.find(n); found != instead.end()) n = found->second;
    };
    for (const auto n : members)
      for (auto& in : ev.nodes().graph.nodes[n].inputs) redirect(in);
    for (auto& set : roots)
      for (auto& n : set) redirect(n);
    for (std::size_t n = before; n < ev.nodes().graph.nodes.size(); ++n) members.push_back(n);
  }
  const Value additional = argument(2);
  std::vector<Thunk*> more = {c.args[2]};
  if (auto* a = std::get_if<Array*>(&additional)) more = (*a)->elements;
  for (Thunk* t : more) {
    const NodeRef n = ev.as_node(ev.force(t, c.site, c.scope), "an additional root", *c.site, c.scope, c.path);
    if (std::none_of(roots.begin(), roots.end(),
                     [&](const auto& s) { return std::count(s.begin(), s.end(), n.index); }))
      roots.back().push_back(n.index);
  }
  net->edited = std::move(roots);
  return ev.heap().view({std::move(net), ""});
}

NodeRef NodeTable::add_loaded(graph::Node node) {
  const NodeRef made = add(std::move(node));
  loaded_.insert(made.index);
  return made;
}

void NodeTable::drop_unused() {
  if (loaded_.empty()) return;
  std::vector<bool> kept(graph.nodes.size(), keep_loaded);
  for (std::size_t n = 0; n < kept.size(); ++n)
    if (!loaded_.contains(n)) kept[n] = true;
  for (const auto set : {&graph::Graph::criteria, &graph::Graph::evaluations, &graph::Graph::outputs})
    for (const auto n : graph.*set) kept[n] = true;
  const auto moves = select_nodes(graph, kept);
  // A node with a numbered name, because a loaded node had its name, gets the name once that is free.
  std::set<std::string> taken;
  for (const auto& node : graph.nodes) taken.insert(node.name);
  for (const auto n : moves) {
    graph::Node& node = graph.nodes[n.after];
    if (node.name.starts_with(wanted_[n.before] + "_") && taken.insert(wanted_[n.before]).second) {
      taken.erase(node.name);
      node.name = wanted_[n.before];
    }
  }
}

}  // namespace tutti::brainscript
