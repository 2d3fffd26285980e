// SPDX-License-Identifier: Apache-2.0
// The commands: on nodes (copies, links, properties, names, values), on models (load, save, print), and their table.
#include "brainscript/edit_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "brainscript/deep_stack.h"
#include "brainscript/node_sets.h"
#include "graph/initialize.h"

namespace tutti::brainscript::mel {
namespace {

using config::to_lower;

bool is_parameter(const graph::Node& n) { return n.operation == "LearnableParameter"; }

double number_of(const Argument& a) {
  double value = 0;
  const auto [end, error] = std::from_chars(a.text.data(), a.text.data() + a.text.size(), value);
  if (error != std::errc() || end != a.text.data() + a.text.size())
    fail(a.where, fmt::format("'{}' is not a number", a.text));
  return value;
}

double elements_of(const graph::Node& n) {
  double product = 1;
  for (const double d : graph::numbers(n, "dims")) product *= d;
  return product;
}

// The initial values of the node, and nothing else.
void copy_value(const graph::Node& from, graph::Node& to, const Span& where) {
  if (!is_parameter(from) && !from.start) return;
  if (from.operation != to.operation || elements_of(from) != elements_of(to))
    fail(where, fmt::format("'{}' cannot take the values of '{}'", to.name, from.name),
         "copy=value needs the same operation and as many values");
  if (is_parameter(to)) {
    auto attributes = from.attributes;
    for (const char* key : {"dims", "learningRateMultiplier"}) {
      attributes.erase(key);
      if (const auto kept = to.attributes.find(key); kept != to.attributes.end()) attributes.insert(*kept);
    }
    to.attributes = std::move(attributes);
  } else if (const auto done = from.attributes.find("precomputed"); done != from.attributes.end()) {
    to.attributes[done->first] = done->second;
  }
  to.start = from.start;
}

// copy=all or copy=value
bool values_only(const Statement& s) {
  const Argument* mode = option(s, "copy");
  if (!mode) mode = option(s, "copyFlag");
  if (!mode || to_lower(mode->text) == "all") return false;
  if (to_lower(mode->text) == "value") return true;
  fail(mode->where, fmt::format("there is no copy={}", mode->text), "copy=all or copy=value");
}

// Overwrites nodes that exist: their values, and with copy=all also links between nodes that are copied together.
void copy(Model& from, Model& to, const std::vector<Pair>& pairs, const Statement& s) {
  const bool only_values = values_only(s);
  const Span& where = s.where;
  std::map<std::size_t, std::size_t> copies;
  std::vector<std::pair<graph::Node, std::size_t>> done;
  for (const auto& p : pairs) {
    const graph::Node source = from.graph().nodes[p.node];
    auto at = find_node(to.graph(), p.name);
    if (&from == &to && at == p.node) fail(where, fmt::format("'{}' would be copied onto itself", p.name));
    if (!at && only_values)
      fail(where, fmt::format("the model '{}' has no node '{}' to copy values to", to.name, p.name),
           "copy=all makes new nodes");
    if (!at) {
      at = to.graph().nodes.size();
      to.graph().nodes.push_back(source);
      to.graph().nodes[*at].name = p.name;
      to.graph().nodes[*at].inputs.assign(source.inputs.size(), no_input);
    }
    graph::Node& target = to.graph().nodes[*at];
    if (only_values) {
      copy_value(source, target, where);
      continue;
    }
    target.operation = source.operation;
    target.attributes = source.attributes;
    target.start = source.start;
    target.where = where.pos();
    target.inputs.resize(source.inputs.size(), no_input);
    copies[p.node] = *at;
    done.emplace_back(source, *at);
  }
  for (const auto& [source, at] : done)
    for (std::size_t i = 0; i < source.inputs.size(); ++i)
      if (const auto found = copies.find(source.inputs[i]); found != copies.end())
        to.graph().nodes[at].inputs[i] = found->second;
}

// The multiplier that learningRateMultiplier=x or needGradient=flag means, or nothing for other properties.
std::optional<double> multiplier(const Argument& property, const Argument& value) {
  const std::string name = to_lower(property.text);
  if (name == "learningratemultiplier") {
    const double m = number_of(value);
    if (m < 0) fail(value.where, "a learning rate multiplier must not be negative", "0 freezes the parameter");
    return m;
  }
  if (name == "needgradient" || name == "needsgradient" || name == "computegradient") return truth_of(value) ? 1 : 0;
  return std::nullopt;
}

void set_multiplier(const Editor& ed, Model& model, const std::vector<std::size_t>& nodes, double m,
                    const Statement& s) {
  bool any = false;
  for (const auto n : nodes)
    if (auto& node = model.graph().nodes[n]; is_parameter(node)) {
      node.attributes["learningRateMultiplier"] = m;
      any = true;
    }
  if (!any) ed.notice(s.where, "no parameter is among these nodes: nothing changes", "L1.* includes those of L1");
}

[[noreturn]] void no_property(const Argument& property, const std::string& known) {
  fail(property.where, fmt::format("there is no property '{}'", property.text), "there are: " + known);
}

// The statistics do not change, in training either.
void freeze_statistics(graph::Node& node, const Argument& node_text, const Argument& value) {
  if (node.operation != "BatchNormalization")
    fail(node_text.where, fmt::format("'{}' ({}) has no statistics to freeze", node.name, node.operation),
         "name BatchNormalization nodes");
  if (!truth_of(value))
    fail(value.where, "frozen statistics are thawed in training",
         "batchNormalizationTimeConstant in the SGD block sets how they are averaged");
  node.attributes["normalizationTimeConstant"] = std::numeric_limits<double>::infinity();
  node.attributes["blendTimeConstant"] = std::numeric_limits<double>::infinity();
}

void copy_nodes(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection from = ed.models.select(args[0]);
  Model* to = nullptr;
  const auto pairs = ed.models.pairs(from, args[0], args[1], to);
  copy(*from.model, *to, pairs, s);
}

void copy_sub_tree(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection from = ed.models.select(args[0]);
  Model& to = ed.models.model(args[1].text, args[1].where);
  std::vector<Pair> pairs;
  for (const auto n : with_inputs(from.model->graph(), from.nodes))
    pairs.push_back({n, args[2].text + from.model->graph().nodes[n].name});
  copy(*from.model, to, pairs, s);
}

// The pairs of a command whose two arguments name nodes of one model; `model` is set to it. `otherwise`: the error
// when they name two.
std::vector<Pair> pairs_within(Editor& ed, const Statement& s, const Arguments& args, std::string_view otherwise,
                               Model*& model) {
  const Selection from = ed.models.select(args[0]);
  auto pairs = ed.models.pairs(from, args[0], args[1], model);
  if (model != from.model) fail(s.where, std::string(otherwise), "Copy brings nodes to another model");
  return pairs;
}

void copy_inputs(Editor& ed, const Statement& s, const Arguments& args) {
  Model* to = nullptr;
  for (const auto& p : pairs_within(ed, s, args, "inputs are copied within one model", to)) {
    const auto at = find_node(to->graph(), p.name);
    if (!at) fail(args[1].where, fmt::format("the model '{}' has no node '{}'", to->name, p.name));
    to->graph().nodes[*at].inputs = to->graph().nodes[p.node].inputs;
    to->graph().nodes[*at].where = s.where.pos();
  }
}

void set_input(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection nodes = ed.models.select(args[0]);
  const std::size_t input = ed.models.one(args[2], *nodes.model);
  const double number = number_of(args[1]);
  for (const auto n : nodes.nodes) {
    auto& node = nodes.model->graph().nodes[n];
    const auto index = static_cast<std::size_t>(number);
    if (number < 0 || static_cast<double>(index) != number || index >= node.inputs.size())
      fail(args[1].where, fmt::format("'{}' ({}) has no input {}", node.name, node.operation, args[1].text),
           fmt::format("its inputs count from 0, and there {} {}", node.inputs.size() == 1 ? "is" : "are",
                       node.inputs.size()));
    node.inputs[index] = input;
    node.where = s.where.pos();
  }
}

void set_inputs(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection nodes = ed.models.select(args[0]);
  if (nodes.nodes.size() != 1) fail(args[0].where, fmt::format("'{}' stands for several nodes", args[0].text));
  std::vector<std::size_t> inputs;
  for (std::size_t i = 1; i < args.size(); ++i) inputs.push_back(ed.models.one(args[i], *nodes.model));
  auto& node = nodes.model->graph().nodes[nodes.nodes[0]];
  if (const auto* known = graph::find_operation(node.operation)) {
    const auto least = static_cast<std::size_t>(known->min_inputs);
    if (inputs.size() < least ||
        (known->max_inputs >= 0 && inputs.size() > static_cast<std::size_t>(known->max_inputs)))
      fail(s.where, fmt::format("'{}' ({}) does not take {} inputs", node.name, node.operation, inputs.size()));
  }
  node.inputs = std::move(inputs);
  node.where = s.where.pos();
}

void set_property(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection nodes = ed.models.select(args[0]);
  graph::Graph& g = nodes.model->graph();
  if (const auto m = multiplier(args[1], args[2])) return set_multiplier(ed, *nodes.model, nodes.nodes, *m, s);
  const std::string name = to_lower(args[1].text);
  if (name == "recurrent") return ed.notice(s.where, "the property 'recurrent' has no effect: loops are found");
  if (name == "freezeparameters" || name == "batchnormevalmode") {
    for (const auto n : nodes.nodes) freeze_statistics(g.nodes[n], args[0], args[2]);
    return;
  }
  const NodeSet set = set_of_word(name == "finalcriterion" ? "criterion" : name);
  if (!set)
    no_property(
        args[1],
        "learningRateMultiplier, needGradient, feature, label, criterion, evaluation, output, freezeParameters");
  const bool member = truth_of(args[2]);
  auto& members = g.*set;
  for (const auto n : nodes.nodes) {
    const bool is = std::find(members.begin(), members.end(), n) != members.end();
    if (member && !is) members.push_back(n);
    if (!member) std::erase(members, n);
  }
}

void set_property_for_sub_tree(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection roots = ed.models.select(args[0]);
  const auto m = multiplier(args[1], args[2]);
  if (!m) no_property(args[1], "learningRateMultiplier, needGradient");
  set_multiplier(ed, *roots.model, with_inputs(roots.model->graph(), roots.nodes), *m, s);
}

void delete_nodes(Editor& ed, const Statement& s, const Arguments& args) {
  for (const auto& a : args) {
    const Selection found = ed.models.select(a);
    for (const auto n : found.nodes) found.model->remove(n);
  }
}

void rename_nodes(Editor& ed, const Statement& s, const Arguments& args) {
  Model* to = nullptr;
  for (const auto& p : pairs_within(ed, s, args, "a node keeps its model", to)) {
    const auto other = find_node(to->graph(), p.name);
    if (other && *other != p.node) fail(args[1].where, fmt::format("the model has a node '{}' already", p.name));
    to->graph().nodes[p.node].name = p.name;
  }
}

void revise_parameter(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection found = ed.models.select(args[0]);
  for (const auto n : found.nodes) {
    graph::Node& node = found.model->graph().nodes[n];
    if (!is_parameter(node)) {
      ed.notice(s.where, fmt::format("'{}' ({}) is not a parameter, so the command does not change it", node.name,
                                     node.operation));
      continue;
    }
    node.where = s.where.pos();
    const graph::TextMatrix matrix = graph::read_text_matrix(args[1].text, node);
    const auto dims = graph::numbers(node, "dims");
    if (static_cast<double>(matrix.values.size()) != elements_of(node) ||
        (!dims.empty() && static_cast<double>(matrix.rows) != dims[0]))
      fail(args[1].where,
           fmt::format("'{}' holds {} rows of {} numbers, '{}' is [{}]", args[1].text, matrix.rows, matrix.columns,
                       node.name, fmt::join(dims, " x ")),
           "one row of the matrix per line");
    node.start = std::make_shared<std::vector<float>>(matrix.values);
  }
}

// Work on files belongs to the thread that runs the script, which alone may communicate with other ranks. Errors of
// files, and of networks without a place, are reported at the statement.
void on_files(const Span& where, const std::function<void()>& part) {
  try {
    on_starting_thread(part);
  } catch (const ConfigError& e) {
    std::vector<Diagnostic> all = e.diagnostics();
    for (Diagnostic& d : all)
      if (!d.where.source) d.where = where.pos();
    throw ConfigError(all);
  } catch (const Error& e) {
    fail(where, e.what());
  }
}

void check_format(const Statement& s) {
  const Argument* format = option(s, "format");
  if (format && to_lower(format->text) != "cntk")
    fail(format->where, fmt::format("there is no model format '{}'", format->text), "format = cntk, or leave it out");
}

void add_model(Editor& ed, const Statement& s, const std::string& name, graph::Graph graph) {
  if (ed.models.add(name, std::move(graph)))
    ed.notice(s.where, fmt::format("the model '{}' replaces another one of that name", name));
}

std::string target_name(const Statement& s) { return s.target.empty() ? "default" : s.target; }

// CreateModel has no argument, CreateModelWithName one.
void create_model(Editor& ed, const Statement& s, const Arguments& args) {
  add_model(ed, s, args.empty() ? target_name(s) : args[0].text, {});
}

// LoadModel (path) or LoadModelWithName (model, path)
void load_model(Editor& ed, const Statement& s, const Arguments& args) {
  check_format(s);
  graph::Graph graph;
  on_files(args.back().where, [&] { graph = ed.files.load(args.back().text); });
  add_model(ed, s, args.size() == 1 ? target_name(s) : args[0].text, std::move(graph));
}

// A section of the file, or what its `run` names, or all of it; macros of the whole file are known.
void load_ndl_snippet(Editor& ed, const Statement& s, const Arguments& args) {
  const ndl::ScriptPtr file = ndl::parse(ndl::text_of_file({args[1].text, args[1].where.pos()}, "network description"));
  const Argument* section_name = option(s, "section");
  std::string name = section_name ? section_name->text : "";
  if (name.empty())
    for (const auto& statement : file->statements)
      if (to_lower(statement.name) == "run") name = statement.value.text;
  ndl::ScriptPtr chosen = file;
  if (!name.empty()) {
    const auto found = file->sections.find(to_lower(name));
    if (found == file->sections.end())
      fail(s.where, fmt::format("'{}' has no section '{}'", args[1].text, name), "section = name");
    chosen = {file, &found->second};
    for (const ndl::ScriptPtr& section : ndl::sections_of(file))
      if (section != chosen) ed.models.add_macros(section);
  }
  add_model(ed, s, args[0].text, {});
  ed.models.model(args[0].text, s.where).network.add(chosen);
}

void save_model(Editor& ed, const Statement& s, const Arguments& args) {
  Model& model = args.size() == 2 ? ed.models.model(args[0].text, args[0].where) : ed.models.default_model(s.where);
  check_format(s);
  on_files(s.where, [&] { ed.files.save(args.back().text, model.finished(s.where)); });
}

void set_default_model(Editor& ed, const Statement& s, const Arguments& args) {
  ed.models.set_default(args[0].text, s.where);
}
void unload_model(Editor& ed, const Statement&, const Arguments& args) {
  for (const auto& a : args) ed.models.unload(a.text, a.where);
}

void dump(Editor& ed, const Statement& s, Model& model, const std::vector<std::string>& nodes, const Argument& path) {
  const Argument* values = option(s, "includeData");
  const bool with_values = values && truth_of(*values);
  on_files(s.where, [&] { ed.files.dump(path.text, model.finished(s.where), nodes, with_values); });
}
void dump_model(Editor& ed, const Statement& s, const Arguments& args) {
  dump(ed, s, ed.models.model(args[0].text, args[0].where), {}, args[1]);
}
void dump_node(Editor& ed, const Statement& s, const Arguments& args) {
  const Selection found = ed.models.select(args[0]);
  std::vector<std::string> names;
  for (const auto n : found.nodes) names.push_back(found.model->graph().nodes[n].name);
  dump(ed, s, *found.model, names, args[1]);
}

constexpr std::size_t any_number = 1'000'000;

}  // namespace

void Editor::notice(const Span& where, const std::string& text, const std::string& fix) const {
  if (context.notices) context.notices->lines.push_back(render({where.pos(), text, fix}, "note"));
}

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {{"CreateModel"}, "()", 0, 0, {}, create_model},
      {{"CreateModelWithName"}, "(model)", 1, 1, {}, create_model},
      {{"LoadModel"}, "(path, format=cntk)", 1, 1, {"format"}, load_model},
      {{"LoadModelWithName"}, "(model, path, format=cntk)", 2, 2, {"format"}, load_model},
      {{"LoadNDLSnippet"}, "(model, path, section=name)", 2, 2, {"section"}, load_ndl_snippet},
      {{"SaveModel", "SaveModelWithName"}, "(model, path, format=cntk)", 1, 2, {"format"}, save_model},
      {{"SaveDefaultModel"}, "(path, format=cntk)", 1, 1, {"format"}, save_model},
      {{"SetDefaultModel"}, "(model)", 1, 1, {}, set_default_model},
      {{"UnloadModel"}, "(model, ...)", 1, any_number, {}, unload_model},
      {{"DumpModel", "Dump", "DumpNetwork"}, "(model, path, includeData=false)", 2, 2, {"includeData"}, dump_model},
      {{"DumpNode"}, "(node, path, includeData=false)", 2, 2, {"includeData"}, dump_node},
      {{"CopyNode", "Copy"}, "(from, to, copy=all)", 2, 2, {"copy", "copyFlag"}, copy_nodes},
      {{"CopySubTree"}, "(from, model, prefix, copy=all)", 3, 3, {"copy", "copyFlag"}, copy_sub_tree},
      {{"CopyNodeInputs", "CopyInputs"}, "(from, to)", 2, 2, {}, copy_inputs},
      {{"SetNodeInput", "SetInput"}, "(node, number, input)", 3, 3, {}, set_input},
      {{"SetNodeInputs", "SetInputs"}, "(node, input, ...)", 2, any_number, {}, set_inputs},
      {{"SetProperty"}, "(node, property, value)", 3, 3, {}, set_property},
      {{"SetPropertyForSubTree"}, "(node, property, value)", 3, 3, {}, set_property_for_sub_tree},
      {{"DeleteNode", "Delete", "RemoveNode", "Remove"}, "(node, ...)", 1, any_number, {}, delete_nodes},
      {{"Rename", "RenameNode"}, "(node, name)", 2, 2, {}, rename_nodes},
      {{"ReviseParameter"}, "(parameter, path)", 2, 2, {}, revise_parameter},
  };
  return table;
}

const Command& find_command(const Statement& s) {
  std::vector<std::string> known;
  for (const auto& c : commands()) {
    known.insert(known.end(), c.names.begin(), c.names.end());
    if (std::ranges::none_of(c.names, [&](const auto& n) { return config::equal_keys(n, s.command); })) continue;
    const std::string usage = fmt::format("it is {} {}", c.names[0], c.usage);
    for (const auto& a : s.arguments)
      if (!a.option.empty() &&
          std::ranges::none_of(c.options, [&](const auto& o) { return config::equal_keys(o, a.option); }))
        fail(a.where, fmt::format("{} has no option '{}'", s.command, a.option), usage);
    const std::size_t given = positional(s).size();
    if (given < c.least || given > c.most)
      fail(s.where, fmt::format("{} does not take {} argument{}", s.command, given, given == 1 ? "" : "s"), usage);
    return c;
  }
  fail(s.where, fmt::format("there is no editing command '{}'", s.command),
       did_you_mean(s.command, known, "docs/editing.md lists the commands; a node is made by name = Operation (...)"));
}

Arguments positional(const Statement& s) {
  Arguments all;
  for (const auto& a : s.arguments)
    if (a.option.empty()) all.push_back(a);
  return all;
}

const Argument* option(const Statement& s, const std::string& name) {
  for (const auto& a : s.arguments)
    if (config::equal_keys(a.option, name)) return &a;
  return nullptr;
}

}  // namespace tutti::brainscript::mel
