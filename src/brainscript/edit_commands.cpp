// SPDX-License-Identifier: Apache-2.0
// The table of commands, and those that load, save and print models.
#include "brainscript/edit_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::brainscript::mel {
namespace {

using ndl::lower;

// Errors of files, and of networks without a place, are reported at the statement.
template <class Part>
void at_statement(const Span& where, Part part) {
  try {
    part();
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
  if (format && lower(format->text) != "cntk")
    fail(format->where, fmt::format("there is no model format '{}'", format->text), "format = cntk, or leave it out");
}

void add_model(Editor& ed, const Statement& s, const std::string& name, graph::Graph graph) {
  if (ed.models.add(name, std::move(graph)))
    ed.notice(s.where, fmt::format("the model '{}' replaces another one of that name", name));
}

std::string target_name(const Statement& s) { return s.target.empty() ? "default" : s.target; }

void create_model(Editor& ed, const Statement& s) { add_model(ed, s, target_name(s), {}); }
void create_model_with_name(Editor& ed, const Statement& s) { add_model(ed, s, positional(s)[0].text, {}); }

void load(Editor& ed, const Statement& s, const std::string& name, const Argument& path) {
  check_format(s);
  graph::Graph graph;
  at_statement(path.where, [&] { graph = ed.files.load(path.text); });
  add_model(ed, s, name, std::move(graph));
}
void load_model(Editor& ed, const Statement& s) { load(ed, s, target_name(s), positional(s)[0]); }
void load_model_with_name(Editor& ed, const Statement& s) { load(ed, s, positional(s)[0].text, positional(s)[1]); }

// A section of the file, or what its `run` names, or all of it; macros of the whole file are known.
void load_ndl_snippet(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  struct File {
    SourceText text;
    ndl::Script script;
  };
  auto file = std::make_shared<File>();
  file->text = ndl::text_of_file({args[1].text, args[1].where.pos()}, "network description");
  file->script = ndl::parse(file->text, [](const std::string&) { return std::nullopt; });
  const auto part = [&](const ndl::Script& of) { return std::shared_ptr<const ndl::Script>(file, &of); };
  const Argument* section_name = option(s, "section");
  std::string name = section_name ? section_name->text : "";
  if (name.empty())
    for (const auto& statement : file->script.statements)
      if (lower(statement.name) == "run") name = statement.value.text;
  const ndl::Script* chosen = &file->script;
  if (!name.empty()) {
    const auto found = file->script.sections.find(lower(name));
    if (found == file->script.sections.end())
      fail(s.where, fmt::format("'{}' has no section '{}'", args[1].text, name), "section = name");
    chosen = &found->second;
    for (const auto& [key, section] : file->script.sections)
      if (&section != chosen) ed.models.add_macros(part(section));
  }
  add_model(ed, s, args[0].text, {});
  ed.models.model(args[0].text, s.where).network.add(part(*chosen));
}

void save(Editor& ed, const Statement& s, Model& model, const Argument& path) {
  check_format(s);
  at_statement(s.where, [&] { ed.files.save(path.text, model.finished(s.where)); });
}
void save_model(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  save(ed, s, args.size() == 2 ? ed.models.model(args[0].text, args[0].where) : ed.models.default_model(s.where),
       args.back());
}

void set_default_model(Editor& ed, const Statement& s) { ed.models.set_default(positional(s)[0].text, s.where); }
void unload_model(Editor& ed, const Statement& s) {
  for (const auto& a : positional(s)) ed.models.unload(a.text, a.where);
}

void dump(Editor& ed, const Statement& s, Model& model, const std::vector<std::string>& nodes, const Argument& path) {
  const Argument* values = option(s, "includeData");
  const bool with_values = values && truth_of(*values);
  at_statement(s.where, [&] { ed.files.dump(path.text, model.finished(s.where), nodes, with_values); });
}
void dump_model(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  dump(ed, s, ed.models.model(args[0].text, args[0].where), {}, args[1]);
}
void dump_node(Editor& ed, const Statement& s) {
  const auto args = positional(s);
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
      {{"CreateModelWithName"}, "(model)", 1, 1, {}, create_model_with_name},
      {{"LoadModel"}, "(path, format=cntk)", 1, 1, {"format"}, load_model},
      {{"LoadModelWithName"}, "(model, path, format=cntk)", 2, 2, {"format"}, load_model_with_name},
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
    if (std::none_of(c.names.begin(), c.names.end(), [&](const auto& n) { return lower(n) == lower(s.command); }))
      continue;
    const std::string usage = fmt::format("it is {} {}", c.names[0], c.usage);
    for (const auto& a : s.arguments)
      if (!a.option.empty() &&
          std::none_of(c.options.begin(), c.options.end(), [&](const auto& o) { return lower(o) == lower(a.option); }))
        fail(a.where, fmt::format("{} has no option '{}'", s.command, a.option), usage);
    const std::size_t given = positional(s).size();
    if (given < c.least || given > c.most)
      fail(s.where, fmt::format("{} does not take {} argument{}", s.command, given, given == 1 ? "" : "s"), usage);
    return c;
  }
  const std::string near = nearest(s.command, known);
  fail(s.where, fmt::format("there is no editing command '{}'", s.command),
       near.empty() ? "docs/editing.md lists the commands; a node is made by name = Operation (...)"
                    : fmt::format("did you mean '{}'?", near));
}

std::vector<Argument> positional(const Statement& s) {
  std::vector<Argument> all;
  for (const auto& a : s.arguments)
    if (a.option.empty()) all.push_back(a);
  return all;
}

const Argument* option(const Statement& s, const std::string& name) {
  for (const auto& a : s.arguments)
    if (lower(a.option) == lower(name)) return &a;
  return nullptr;
}

}  // namespace tutti::brainscript::mel
