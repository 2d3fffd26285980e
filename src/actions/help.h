// SPDX-License-Identifier: Apache-2.0
// help.h -- help texts: version, usage, and every option block by name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/command_line.h"
#include "tutti/communicator.h"

namespace tutti::actions {

std::string usage_text();    // flags, words and the names of all blocks
std::string version_text();  // with what is built in
std::string compute_text();  // instruction set and library of the kernels
// Explains a name: a block with its options, a function or layer of a network language, or a key with its block. "list"
// lists all names. An unknown name throws, with suggestions.
std::string help_text(const std::string& topic);
// Answers words that only ask for a text (--help, --version, help=NAME, --dump-config, none at all): rank 0 prints it.
// Returns the exit code, or nothing if the words do not ask. Collective.
std::optional<int> answer(const config::CommandLine&, Communicator& world);

// The option blocks that help=NAME explains, and their keys.
struct Topic {
  std::string name, help;
  std::string place;  // how a setting of the block is written on the command line, {} for "key=value"
  std::function<void(config::Fields&)> describe;
};
const std::vector<Topic>& topics();

// A key of a block: its place and its help.
struct KeyHelp {
  std::string key;
  std::string block;  // "DataParallelSGD"
  std::string text;   // "Train=[SGD=[...gradientBits=...]]" and the line of the block's help, on lines
};
std::vector<KeyHelp> all_keys();

}  // namespace tutti::actions
