// SPDX-License-Identifier: Apache-2.0
// edit_commands.h -- the commands of the model editing language, one table row each.
#pragma once

#include <string>
#include <vector>

#include "brainscript/edit_models.h"
#include "brainscript/edit_script.h"

namespace tutti::brainscript::mel {

struct Editor {
  const EditFiles& files;
  const BuildContext& context;
  Models models;
  void notice(const Span& where, const std::string& text, const std::string& fix = {}) const;
};

struct Command {
  std::vector<std::string> names;
  std::string usage;                 // its arguments
  std::size_t least = 0, most = 0;   // positional arguments
  std::vector<std::string> options;  // the first is the canonical spelling
  void (*run)(Editor&, const Statement&);
};
const std::vector<Command>& commands();

// The row of the command; checks its arguments. Throws ConfigError.
const Command& find_command(const Statement&);
// The positional arguments, and an option or null.
std::vector<Argument> positional(const Statement&);
const Argument* option(const Statement&, const std::string& name);

// Commands on nodes, in edit_nodes.cpp.
void copy_nodes(Editor&, const Statement&);
void copy_sub_tree(Editor&, const Statement&);
void copy_inputs(Editor&, const Statement&);
void set_input(Editor&, const Statement&);
void set_inputs(Editor&, const Statement&);
void set_property(Editor&, const Statement&);
void set_property_for_sub_tree(Editor&, const Statement&);
void delete_nodes(Editor&, const Statement&);
void rename_nodes(Editor&, const Statement&);
void revise_parameter(Editor&, const Statement&);

}  // namespace tutti::brainscript::mel
