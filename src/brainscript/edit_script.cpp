// SPDX-License-Identifier: Apache-2.0
#include "brainscript/edit_script.h"

#include <fmt/format.h>

#include <utility>

#include "brainscript/deep_stack.h"
#include "brainscript/edit_models.h"
#include "brainscript/node_sets.h"

namespace tutti::brainscript {
namespace mel {
namespace {

using config::to_lower;

bool starts_with(const std::string& name, const std::string& head) {
  return to_lower(name).starts_with(to_lower(head));
}
bool ends_with(const std::string& name, const std::string& tail) { return to_lower(name).ends_with(to_lower(tail)); }

}  // namespace

void Model::remove(std::size_t node) {
  graph::Graph& g = graph();
  for (auto& n : g.nodes)
    for (auto& in : n.inputs)
      if (in == node) in = no_input;
  for (const auto set : node_sets) std::erase(g.*set, node);
  g.nodes[node] = {};
}

graph::Graph Model::finished(const Span& where) {
  graph::Graph g = graph();
  std::vector<std::size_t> kept;
  for (const auto& n : g.nodes) {
    if (!n.operation.empty()) kept.push_back(static_cast<std::size_t>(&n - g.nodes.data()));
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] == no_input)
        fail(where, fmt::format("input {} of the node '{}' ({}) is not set", i, n.name, n.operation),
             fmt::format("SetInput ({}, {}, node), or delete the node", n.name, i));
  }
  select_nodes(g, kept);
  ndl::flatten_products(g);
  return g;
}

void Models::add_macros(const ndl::ScriptPtr& script) {
  for (auto& [name, model] : models_) model.network.add_macros(script);
  macros_.push_back(script);
}

bool Models::add(const std::string& name, graph::Graph graph) {
  const bool taken = models_.erase(to_lower(name)) > 0;
  Model& made = models_.try_emplace(to_lower(name), name, std::move(graph), context_).first->second;
  for (const auto& m : macros_) made.network.add_macros(m);
  if (default_.empty()) default_ = to_lower(name);
  return taken;
}

Model& Models::model(const std::string& name, const Span& where) {
  const auto found = models_.find(to_lower(name));
  if (found != models_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, model] : models_) known.push_back(model.name);
  fail(where, fmt::format("there is no model '{}'", name),
       did_you_mean(name, known, fmt::format("load it first: {} = LoadModel (path)", name)));
}

Model& Models::default_model(const Span& where) {
  if (default_.empty()) fail(where, "there is no default model", "load one first: m1 = LoadModel (path)");
  return models_.at(default_);
}

void Models::set_default(const std::string& name, const Span& where) { default_ = to_lower(model(name, where).name); }

void Models::unload(const std::string& name, const Span& where) {
  const std::string key = to_lower(model(name, where).name);
  models_.erase(key);
  if (default_ == key) default_.clear();
}

// model.pattern, pattern of the default model, or a model alone for all its nodes.
Selection Models::parse(const Argument& a) {
  Selection s;
  const std::string first = a.text.substr(0, a.text.find_first_of(".*"));
  std::string rest = a.text;
  if (const auto found = models_.find(to_lower(first)); found != models_.end()) {
    s.model = &found->second;
    rest = first.size() < a.text.size() ? a.text.substr(first.size() + (a.text[first.size()] == '.')) : "*";
    if (rest.empty()) rest = "*";
  } else {
    s.model = &default_model(a.where);
  }
  const std::size_t star = rest.find('*');
  s.pattern = star != std::string::npos;
  s.head = rest.substr(0, star);
  if (s.pattern) s.tail = rest.substr(star + 1);
  if (s.tail.find('*') != std::string::npos)
    fail(a.where, fmt::format("'{}' has more than one *", a.text), "a pattern is prefix*suffix");
  return s;
}

std::vector<std::size_t> Models::matches(Selection& s) {
  const graph::Graph& g = s.model->graph();
  std::vector<std::size_t> found;
  if (!s.pattern) {
    const auto node = s.model->network.find(s.head);
    if (node && !g.nodes[*node].operation.empty()) found.push_back(*node);
    return found;
  }
  for (std::size_t n = 0; n < g.nodes.size(); ++n) {
    const auto& node = g.nodes[n];
    if (node.operation.empty() || node.name.size() < s.head.size() + s.tail.size()) continue;
    if (starts_with(node.name, s.head) && ends_with(node.name, s.tail)) found.push_back(n);
  }
  return found;
}

Selection Models::select(const Argument& a) {
  Selection s = parse(a);
  s.nodes = matches(s);
  if (!s.nodes.empty()) return s;
  std::vector<std::string> known;
  for (const auto& n : s.model->graph().nodes)
    if (!n.operation.empty()) known.push_back(n.name);
  fail(a.where, fmt::format("the model '{}' has no node '{}'", s.model->name, a.text),
       did_you_mean(s.head + s.tail, known, "Dump (model, file) writes the names of all nodes"));
}

std::size_t Models::one(const Argument& a, const Model& model) {
  const Selection s = select(a);
  if (s.nodes.size() != 1)
    fail(a.where, fmt::format("'{}' stands for {} nodes, and one is needed here", a.text, s.nodes.size()));
  if (s.model != &model)
    fail(a.where, fmt::format("'{}' is a node of '{}', not of '{}'", a.text, s.model->name, model.name),
         "Copy brings nodes from one model to another");
  return s.nodes[0];
}

std::vector<Pair> Models::pairs(const Selection& from, const Argument& from_text, const Argument& to,
                                Model*& to_model) {
  Selection target = parse(to);
  to_model = target.model;
  std::vector<Pair> all;
  if (target.pattern && !from.pattern) {
    target = select(to);  // every node there is
    for (const auto n : target.nodes)
      if (target.model != from.model || n != from.nodes[0])
        all.push_back({from.nodes[0], target.model->graph().nodes[n].name});
    return all;
  }
  if (from.pattern != target.pattern || from.head.empty() != target.head.empty() ||
      from.tail.empty() != target.tail.empty())
    fail(to.where, fmt::format("'{}' and '{}' are patterns of different form", from_text.text, to.text),
         "L1.* to L2.*, L1.*.W to L2.*.W, or a node to a node");
  for (const auto n : from.nodes) {
    const std::string& name = from.model->graph().nodes[n].name;
    all.push_back({n, target.pattern
                          ? target.head +
                                name.substr(from.head.size(), name.size() - from.head.size() - from.tail.size()) +
                                target.tail
                          : target.head});
  }
  return all;
}

namespace {

void run(Editor& editor, const Statement& s) {
  switch (s.kind) {
    case Statement::Kind::command:
      find_command(s).run(editor, s, positional(s));
      break;
    case Statement::Kind::definitions:
      editor.models.default_model(s.where).network.add(s.script);
      break;
    case Statement::Kind::network:
      if (editor.models.add(s.target, {}))
        editor.notice(s.where, "the model '" + s.target + "' replaces another one of that name");
      editor.models.model(s.target, s.where).network.add(s.script);
      // Macros of a network are known in the others too; its statements are not.
      editor.models.add_macros(ndl::only_macros(s.script));
      break;
  }
}

}  // namespace
}  // namespace mel

EditScript::EditScript(const config::Record& command) {
  const auto variable = [&](const std::string& name) -> std::optional<std::string> {
    const auto v = command.find(name);
    return v ? std::optional(v->text) : std::nullopt;
  };
  on_deep_stack([&] {
    script_ = mel::parse(ndl::text_of_file(command.value("editPath"), "editing script"), variable);
    for (const auto& s : script_.statements)
      if (s.kind == mel::Statement::Kind::command) mel::find_command(s);
    if (const auto paths = command.find("ndlMacros"))
      for (const auto& path : ndl::script_files(*paths)) {
        macros_.push_back(ndl::parse(ndl::text_of_file(path, "file of macros"), variable));
        for (const auto& section : ndl::sections_of(macros_.back())) macros_.push_back(section);
      }
  });
}

std::vector<mel::Argument> EditScript::paths_of(const std::string& commands) const {
  std::vector<mel::Argument> paths;
  for (const auto& s : script_.statements)
    if (s.kind == mel::Statement::Kind::command && mel::starts_with(s.command, commands))
      paths.push_back(mel::positional(s).back());
  return paths;
}

std::vector<std::string> EditScript::saved_models() const {
  std::vector<std::string> paths;
  for (const auto& path : paths_of("save")) paths.push_back(path.text);
  return paths;
}

std::vector<mel::Argument> EditScript::written_files() const {
  auto paths = paths_of("save");
  for (auto& path : paths_of("dump")) paths.push_back(std::move(path));
  return paths;
}

void EditScript::run(const EditFiles& files, const BuildContext& context) const {
  on_deep_stack([&] {
    mel::Editor editor{files, context, mel::Models(context)};
    for (const auto* all : {&macros_, &script_.macros})
      for (const auto& m : *all) editor.models.add_macros(m);
    for (const auto& s : script_.statements) mel::run(editor, s);
  });
}

}  // namespace tutti::brainscript
