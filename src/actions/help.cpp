// SPDX-License-Identifier: Apache-2.0
#include "actions/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "actions/action.h"
#include "actions/completion.h"
#include "actions/device.h"
#include "actions/model_commands.h"
#include "actions/together.h"
#include "brainscript/function_help.h"
#include "comm/session.h"
#include "config/text.h"
#include "tutti/backend.h"
#include "tutti/reader.h"

namespace tutti::actions {
namespace {

using brainscript::FunctionHelp;

std::string wrapped(const std::vector<std::string>& words) {
  constexpr std::size_t widest = 110;
  std::string out, line = "   ";
  for (const auto& w : words) {
    if (line.size() + w.size() >= widest) out += line + "\n", line = "   ";
    line += " " + w;
  }
  return out + line + "\n";
}

std::string block_help(const std::string& name) {
  const ActionEntry* action = find_action(name);  // perhaps by its second name
  for (const auto& t : topics())
    if (config::equal_keys(t.name, action ? action->names[0] : name))
      return fmt::format("{}\n\n{}", t.help, config::help_fields(t.name, t.describe));
  return {};
}

// Of a command such as `plan`; those on model files print all of their --help.
std::string command_help(const std::string& name) {
  if (const std::string all = model_command_help(name); !all.empty()) return all;
  for (const CommandHelp& c : command_list())
    if (config::equal_keys(c.name, name))
      return fmt::format("trainer {} {}\n  {}\n  trainer {} --help explains its options\n", c.name, c.words, c.help,
                         c.name);
  return {};
}

std::string readers() {
  std::string out = "  readerType is one of (help=NAME lists its options):\n";
  for (const auto& r : reader_types()) out += fmt::format("    {:22} {}\n", r.name, r.help);
  return out;
}

std::string function_text(const FunctionHelp& f) {
  if (!f.same_as.empty()) return fmt::format("  {}: the same as {}\n", f.name, f.same_as);
  return fmt::format("  {}\n{}", f.signature, f.sentence.empty() ? "" : fmt::format("    {}\n", f.sentence));
}

// "BS.Sequences.First" is also found as First, after a First without a namespace.
std::string functions_called(const std::vector<FunctionHelp>& all, const std::string& name) {
  const std::string wanted = config::to_lower(name);
  std::string exact, within;
  for (const auto& f : all) {
    const std::string full = config::to_lower(f.name);
    if (full != wanted && !full.ends_with("." + wanted)) continue;
    std::string& out = full == wanted ? exact : within;
    out += function_text(f);
    if (!f.same_as.empty()) out += functions_called(all, f.same_as);
  }
  return exact + within;
}

std::string keys_called(const std::string& name) {
  std::string out;
  for (const auto& k : all_keys())
    if (config::equal_keys(k.key, name)) out += k.text;
  return out;
}

std::vector<std::string> names_of(const std::vector<FunctionHelp>& functions, bool with_prefix) {
  std::vector<std::string> names;
  for (const auto& f : functions)
    if (with_prefix || f.name.find('.') == std::string::npos) names.push_back(f.name);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string list_of_functions(const std::vector<FunctionHelp>& functions) {
  std::vector<std::string> sections;
  for (const auto& f : functions)
    if (std::find(sections.begin(), sections.end(), f.section) == sections.end()) sections.push_back(f.section);
  std::string out;
  for (const auto& section : sections) {
    std::vector<FunctionHelp> some;
    for (const auto& f : functions)
      if (f.section == section) some.push_back(f);
    out += fmt::format("  {}:\n{}", section, wrapped(names_of(some, true)));
  }
  return out;
}

std::string list_of_keys() {
  std::string out, block;
  std::vector<std::string> words;
  const auto flush = [&] {
    if (!words.empty()) out += fmt::format("  {}:\n{}", block, wrapped(words));
    words.clear();
  };
  for (const auto& k : all_keys()) {
    if (k.block != block) flush();
    block = k.block;
    words.push_back(k.key);
  }
  flush();
  return out;
}

std::string list() {
  std::string out = "help=NAME explains one of:\n\ncommands:\n";
  for (const CommandHelp& c : command_list()) out += fmt::format("  {:22} {}\n", c.name, c.help);
  out += "\nblocks, actions and readers:\n";
  for (const auto& t : topics()) out += fmt::format("  {:22} {}\n", t.name, t.help);
  out += "\nlayers and functions of BrainScript:\n" + list_of_functions(brainscript::library_functions());
  out += "\nfunctions of the older network language:\n" + wrapped(names_of(brainscript::ndl_functions(), true));
  return out + "\nkeys, by the block in which they stand:\n" + list_of_keys();
}

[[noreturn]] void report_unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const CommandHelp& c : command_list()) names.emplace_back(c.name);
  for (const auto& t : topics()) names.push_back(t.name);
  for (const auto& f : names_of(brainscript::library_functions(), false)) names.push_back(f);
  for (const auto& f : names_of(brainscript::ndl_functions(), false)) names.push_back(f);
  for (const auto& k : all_keys()) names.push_back(k.key);
  std::vector<std::string> near;
  for (int i = 0; i < 3; ++i) {
    const std::string next = nearest(name, names);
    if (next.empty()) break;
    near.push_back("help=" + next);
    std::erase_if(names, [&](const std::string& n) { return config::equal_keys(n, next); });
  }
  throw ConfigError({}, fmt::format("there is no help on '{}'", name),
                    near.empty()
                        ? "help=list shows all names"
                        : fmt::format("did you mean {}? (help=list shows all names)", fmt::join(near, " or ")));
}

}  // namespace

std::string version_text() {
  return fmt::format("Tutti {}: {}, {}, {}", TUTTI_VERSION, mpi_library(), compute_text(), gpu_text());
}

std::string usage_text() {
  std::vector<std::string> names;
  for (const auto& t : topics()) names.push_back(t.name);
  return config::usage() + "\nblocks, actions and readers that help explains:\n" + wrapped(names);
}

std::string compute_text() { return make_backend("cpu")->name(); }

std::string help_text(const std::string& name) {
  if (config::equal_keys(name, "list")) return list();
  std::vector<std::string> found;
  const auto add = [&](const std::string& heading, const std::string& text) {
    if (!text.empty()) found.push_back(heading + text);
  };
  add("", block_help(name));
  add("", command_help(name));
  if (config::equal_keys(name, "reader") || config::equal_keys(name, "cvReader"))
    add(fmt::format("{}: block of a command that reads the data\n", name), readers());
  const auto library = brainscript::library_functions();
  if (config::equal_keys(name, "BrainScriptNetworkBuilder"))
    add("networks in BrainScript (docs/brainscript.md); help=NAME explains a function\n\n", list_of_functions(library));
  if (config::equal_keys(name, "NDLNetworkBuilder"))
    add("networks in the older language (docs/ndl.md); help=NAME explains a function\n\n",
        wrapped(names_of(brainscript::ndl_functions(), true)));
  add(fmt::format("{} in BrainScript:\n", name), functions_called(library, name));
  add(fmt::format("{} in NDL:\n", name), functions_called(brainscript::ndl_functions(), name));
  add(fmt::format("{} as a setting:\n", name), keys_called(name));
  if (found.empty()) report_unknown(name);
  return fmt::format("{}", fmt::join(found, "\n"));
}

std::optional<int> answer(const config::CommandLine& line, Communicator& world) {
  if (line.empty) {
    if (world.rank() == 0)
      std::fprintf(stderr, "%s\nNo command-line argument given.\n\n%s", version_text().c_str(), usage_text().c_str());
    return 1;
  }
  std::string text;
  if (line.help)
    text = usage_text();
  else if (line.version)
    text = version_text();
  else if (!line.model_command.empty()) {
    if (!together(world, [&] {
          if (world.rank() == 0) text = run_model_command(line.model_command);
        }))
      return wrong_configuration;
  } else if (line.help_topic.empty() && !line.dump_config)
    return std::nullopt;
  else if (line.help_topic.empty())
    text = config::dump_config(line.config);
  else if (!together(world, [&] { text = help_text(line.help_topic); }))
    return wrong_configuration;
  if (world.rank() == 0) {
    std::fputs(text.c_str(), stdout);
    if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace tutti::actions
