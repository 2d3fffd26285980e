// SPDX-License-Identifier: Apache-2.0
// edit_script.h -- a script of the model editing language (action = edit with editPath): commands, statements of the
// older network language between them, and whole networks in brackets. The caller provides the file operations, so that
// a script can be checked without changing files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brainscript/ndl.h"
#include "brainscript/syntax.h"
#include "tutti/builder.h"

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
  ndl::ScriptPtr script;  // of networks and definitions
};

bool truth_of(const Argument&);  // true, false, 1, 0; throws ConfigError

struct Script {
  std::shared_ptr<const SourceText> text;  // variables substituted, comments removed
  std::vector<Statement> statements;
  std::vector<ndl::ScriptPtr> macros;  // of the sections that `load` names
};

// Parses a file. `edit = a:b` in it names the sections to run; without it, the whole file is the script.
Script parse(const SourceText& file, const ndl::Variables&);

}  // namespace tutti::brainscript::mel

namespace tutti::brainscript {

struct EditFiles {
  std::function<graph::Graph(const std::string& path)> load;
  std::function<void(const std::string& path, graph::Graph)> save;
  // As text; `nodes` by name, empty for all.
  std::function<void(const std::string& path, graph::Graph, const std::vector<std::string>& nodes, bool values)> dump;
};

class EditScript {
 public:
  // Reads the file that `editPath` of the command names, and its ndlMacros. Throws ConfigError.
  explicit EditScript(const config::Record& command);
  // The paths of SaveModel and SaveDefaultModel, known before anything runs.
  std::vector<std::string> saved_models() const;
  // With those of DumpModel and DumpNode.
  std::vector<mel::Argument> written_files() const;
  void run(const EditFiles&, const BuildContext&) const;

 private:
  std::vector<mel::Argument> paths_of(const std::string& commands) const;  // by how their names begin
  mel::Script script_;
  std::vector<ndl::ScriptPtr> macros_;
};

}  // namespace tutti::brainscript
