// SPDX-License-Identifier: Apache-2.0
// edit_syntax.h -- the model editing language as text (action = edit with editPath): commands, statements of the older
// network language between them, and whole networks in brackets. edit_commands.cpp runs what is parsed here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "brainscript/ndl.h"
#include "brainscript/syntax.h"

namespace tutti::brainscript::mel {

// An argument: a name (perhaps with *), a path, a number; or option=value.
struct Argument {
  std::string option;  // empty for positional ones
  std::string text;    // without quotes
  Span where;
};

struct Statement {
  enum class Kind {
    command,     // Copy (L1.*, L2.*, copy=all), m = LoadModel ("a.dnn")
    network,     // m = [ statements of the older network language ]
    definitions  // consecutive statements of the older network language, for the default model
  };
  Kind kind = Kind::command;
  std::string target;   // what stands before =, of commands and networks
  std::string command;  // as it was written
  std::vector<Argument> arguments;
  Span where;
  std::shared_ptr<const ndl::Script> script;  // of networks and definitions
};

[[noreturn]] void fail(const Span& where, std::string message, std::string fix = {});
bool truth_of(const Argument&);  // true, false, 1, 0; throws ConfigError

struct Script {
  std::shared_ptr<const SourceText> text;  // variables substituted, comments removed
  std::vector<Statement> statements;
  std::vector<std::shared_ptr<const ndl::Script>> macros;  // of the sections that `load` names
};

// Parses a file. `edit = a:b` in it names the sections to run; without it, the whole file is the script.
Script parse(const SourceText& file, const ndl::Variables&);

}  // namespace tutti::brainscript::mel
