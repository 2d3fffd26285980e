// SPDX-License-Identifier: Apache-2.0
// command_words.h -- the words of a command on model files: the files, and options as "--name value" or "--name=value".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::actions {

struct CommandOption {
  std::string name;   // with its dashes
  std::string value;  // what help calls its value; empty for a flag
  std::string help;
  bool repeated = false;  // may be given several times
};

struct CommandForm {
  std::string name;   // "import"
  std::string files;  // as help names them: "FILE OUT"
  std::size_t file_count = 1;
  std::string help;
  std::vector<CommandOption> options;
};

struct CommandWords {
  std::vector<std::string> files;
  std::map<std::string, std::vector<std::string>> options;  // "" for a flag
  bool has(const std::string& name) const { return options.contains(name); }
  std::vector<std::string> values(const std::string& name) const;
  std::string value(const std::string& name, const std::string& otherwise = {}) const;
};

// words[0] is the command. Throws ConfigError for unknown options, options without a value, and missing or surplus
// files.
CommandWords read_words(const std::vector<std::string>& words, const CommandForm&);

std::string help_text(const CommandForm&);

// Throws Error if the file that is to be written is one that is read.
void refuse_same_file(const std::string& from, const std::string& to);

// A value of an option as a whole number from `least`. Throws ConfigError.
std::int64_t whole_number(const CommandWords&, const std::string& name, std::int64_t least, std::int64_t otherwise);

// A list of names that are separated by commas.
std::vector<std::string> listed_names(const std::string&);

}  // namespace tutti::actions
