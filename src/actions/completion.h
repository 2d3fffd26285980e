// SPDX-License-Identifier: Apache-2.0
// completion.h -- `trainer completion SHELL` prints a script for bash, zsh or fish, which asks the program for the
// words that may follow; `trainer man` prints the manual page. Both come from the tables that read the settings.
#pragma once

#include <string>
#include <vector>

namespace tutti::actions {

// `argv` begins after "completion" or "man".
int run_completion(int argc, const char* const* argv);
int run_man(int argc, const char* const* argv);

// The completions of the last word, of which the beginning is given. `words`: those after the program's name.
std::vector<std::string> completions(const std::vector<std::string>& words);

// The commands of the program, with a description each.
struct CommandHelp {
  const char *name, *words, *help;
  // Separated by blanks; a file follows those that end with "=". Empty for commands on model files, which have a table
  // of their own (model_commands.h).
  const char* options = "";
};
const std::vector<CommandHelp>& command_list();

}  // namespace tutti::actions
