// SPDX-License-Identifier: Apache-2.0
// Script of the older network language -> BrainScript (ndl_desugar.cpp) -> graph. The NDLNetworkBuilder block: the
// file, its macros, and the sections that make the network.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>

#include "base/utf8.h"
#include "brainscript/deep_stack.h"
#include "brainscript/evaluator.h"
#include "brainscript/ndl.h"
#include "brainscript/network.h"
#include "graph/shapes.h"

namespace tutti::brainscript::ndl {
namespace {

bool takes_vector(const graph::Node& node, const std::vector<Shape>& in) {
  return node.operation == "Times" && in[0].rank() == 2 && in[1].rank() > 1 && in[1].elements() > 0 &&
         in[0][1] == in[1].elements() && in[0][1] != in[1][0] && graph::number(node, "outputRank", 1) == 1;
}

}  // namespace

void GrowingNetwork::add(ScriptPtr script) {
  const Desugared made = desugared(std::move(script));
  Heap heap;
  NodeTable nodes(seed_, context_.force_constant_seed);
  nodes.graph = std::move(graph);
  Evaluator evaluator(heap, nodes, context_.notices);
  const Path* root = heap.path(nullptr, "");
  Record* model = heap.record();
  model->outer = library_record(evaluator, *library_, root);
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

void flatten_products(graph::Graph& g) {
  std::vector<Shape> shapes(g.nodes.size());
  const std::size_t count = g.nodes.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Shape> in;
    for (const auto n : g.nodes[i].inputs) in.push_back(n < i ? shapes[n] : Shape{{0}});
    if (takes_vector(g.nodes[i], in)) {
      graph::Node flat;
      flat.operation = "Reshape";
      flat.inputs = {g.nodes[i].inputs[1]};
      flat.attributes["dims"] = std::vector<double>{static_cast<double>(in[1].elements())};
      flat.where = g.nodes[i].where;
      flat.name = g.nodes[i].name + ".flat";
      g.nodes.push_back(std::move(flat));
      g.nodes[i].inputs[1] = g.nodes.size() - 1;
      in[1] = Shape{{in[1].elements()}};
    }
    try {
      shapes[i] = g.nodes[i].inputs.empty() ? graph::declared_shape(g.nodes[i]) : graph::infer_shape(g.nodes[i], in);
    } catch (const ConfigError&) {
      shapes[i] = Shape{{0}};  // said with its reason when the network is made
    }
  }
}

namespace {

class Description {
 public:
  explicit Description(const config::Record& block) : block_(block) {}

  graph::Graph build(const BuildContext& context) {
    check_keys();
    GrowingNetwork network({}, context, 1 + block_.integer("randomSeedOffset", 0));
    if (const auto macros = block_.find("ndlMacros"))
      for (const config::Value& path : script_files(*macros)) {
        const ScriptPtr file = read(path);
        network.add_macros(file);
        for (const ScriptPtr& section : sections_of(file)) network.add_macros(section);
      }
    ScriptPtr description;
    if (const auto path = block_.find("networkDescription")) description = read(*path);
    for (const auto& name : names("load", description)) network.add_macros(section(name, "load", description));
    std::vector<ScriptPtr> networks;
    for (const auto& name : names("run", description)) networks.push_back(section(name, "run", description));
    if (networks.empty() && description) networks.push_back(description);
    if (networks.empty())
      throw ConfigError(block_.where(), "NDLNetworkBuilder names no network",
                        "give networkDescription = file, or run = the name of a section");
    if (description) network.add_macros(only_macros(description));
    say_unused(context.notices);
    for (const ScriptPtr& earlier : std::span(networks).first(networks.size() - 1)) network.add_macros(earlier);
    network.add(networks.back());
    flatten_products(network.graph);
    return std::move(network.graph);
  }

 private:
  // Keys that are neither settings nor sections: variables of the network, under any name.
  std::vector<std::string> variables() const {
    std::vector<std::string> all;
    for (const auto& key : block_.keys())
      if (!block_.is_block(key) &&
          std::ranges::none_of(known_, [&](const auto& k) { return config::equal_keys(k, key); }))
        all.push_back(key);
    return all;
  }
  void check_keys() const {
    for (const auto& key : variables())
      if (const std::string near = nearest(key, known_); !near.empty())
        throw ConfigError(block_.value(key).where, fmt::format("NDLNetworkBuilder has no '{}'", key),
                          fmt::format("did you mean '{}'?", near));
  }
  void say_unused(config::Notices* notices) const {
    // Sections that stand in the config have their variables substituted already.
    const std::string config = block_.where().source ? to_lower(block_.where().source->text) : "";
    for (const auto& key : variables())
      if (notices && !used_.contains(to_lower(key)) && config.find('$' + to_lower(key) + '$') == std::string::npos)
        notices->lines.push_back(
            fmt::format("'{0}' in NDLNetworkBuilder has no effect because the network does not use ${0}$", key));
  }

  ScriptPtr parsed(SourceText text) {
    return parse(std::move(text), [this](const std::string& name) -> std::optional<std::string> {
      used_.insert(to_lower(name));
      const auto v = block_.find(name);
      return v ? std::optional(v->text) : std::nullopt;
    });
  }
  ScriptPtr read(const config::Value& path) { return parsed(text_of_file(path, "network description")); }

  // load = a:b or run = a:b, in the block or else in the file.
  std::vector<std::string> names(const std::string& key, const ScriptPtr& description) const {
    if (block_.has_own(key)) return block_.strings(key);
    if (!description) return {};
    std::vector<std::string> all;
    const auto add = [&](const Expression& e) { all.push_back(e.text); };
    for (const auto& s : description->statements) {
      if (to_lower(s.name) != key) continue;
      if (s.value.kind == Expression::Kind::list)
        for (const auto& a : s.value.arguments) add(a.value);
      else
        add(s.value);
    }
    return all;
  }

  ScriptPtr section(const std::string& name, const std::string& key, const ScriptPtr& description) {
    if (description)
      if (const auto found = description->sections.find(to_lower(name)); found != description->sections.end())
        return {description, &found->second};
    const auto value = block_.find(name);
    if (!value)
      throw ConfigError(block_.has_own(key) ? block_.value(key).where : block_.where(),
                        fmt::format("there is no section '{}', which {} names", name, key),
                        fmt::format("write {} = [ ... ]", name));
    return parsed(text_of_value(*value, name));
  }

  const std::vector<std::string> known_ = {"networkDescription", "ndlMacros", "load", "run", "randomSeedOffset"};
  const config::Record& block_;
  std::set<std::string> used_;  // variables, in lower case
};

}  // namespace

std::vector<config::Value> script_files(const config::Value& paths) {
  if (std::filesystem::exists(paths.text)) return {paths};
  std::vector<config::Value> all;
  std::istringstream in(paths.text);
  for (std::string one; std::getline(in, one, '+');) all.push_back({one, paths.where});
  return all;
}

SourceText text_of_file(const config::Value& path, const std::string& what) {
  std::ifstream in(path.text, std::ios::binary);
  std::ostringstream content;
  if (in) content << in.rdbuf();
  if (!in || !std::filesystem::is_regular_file(path.text))
    throw ConfigError(path.where, fmt::format("cannot read the {} '{}'", what, path.text),
                      "check the path; a relative one starts at the current directory");
  std::string text = content.str();
  std::fill_n(text.begin(), byte_order_mark_size(text), ' ');
  return {text, std::make_shared<Source>(Source{path.text, text, nullptr}), 0, false};
}

SourceText text_of_value(const config::Value& v, const std::string& name) {
  if (v.where.source && v.where.offset + v.text.size() <= v.where.source->text.size())
    return {v.text, v.where.source, v.where.offset, false};
  return {v.text, std::make_shared<Source>(Source{name, v.text, std::make_shared<SourcePos>(v.where)}), 0, false};
}

graph::Graph build(const config::Record& block, const BuildContext& context) {
  graph::Graph graph;
  on_deep_stack([&] { graph = Description(block).build(context); });
  return graph;
}

}  // namespace tutti::brainscript::ndl
