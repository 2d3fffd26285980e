// SPDX-License-Identifier: Apache-2.0
// command_line.h -- argv into flags and one configuration: files and key=value words in order, later ones win.
// Called by main inside the MPI session; every rank gets the same result from the same words and files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/config.h"

namespace tutti::config {

struct CommandLine {
  bool empty = false;  // no argument at all: print usage() and fail
  bool help = false, version = false, check = false, dry_run = false, verbose = false, dump_config = false;
  bool strict = false;
  std::string help_topic;                 // help=NAME
  std::vector<std::string> model_command;  // a command on model files ("info", "export", ...) and what follows it
  Record config;                          // the top level
  std::vector<std::string> config_files;  // in order, includes not counted
  Notices notices;
};

// Throws ConfigError with everything that is wrong. `currentDirectory=` words take effect at once. With --help,
// --version, help=NAME or a command on model files nothing is loaded.
CommandLine parse_command_line(int argc, const char* const* argv);
std::string usage();
// Each with its sentence: "--check", "parse, build the network, ...".
std::vector<std::pair<std::string, std::string>> flags();

// All sources merged, overrides applied, variables resolved, as config text that reads back as the same settings.
std::string dump_config(const Record&);
// The lines "configparameters: <file>:<key>=<value>" of the log, sorted by key.
std::vector<std::string> configuration_lines(const CommandLine&);

}  // namespace tutti::config
