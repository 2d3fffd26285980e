// SPDX-License-Identifier: Apache-2.0
// model_commands.h -- commands on model files, without a config: `trainer info`, `import`, `export`, `predict`. Called
// by help.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actions/command_words.h"
#include "tutti/graph.h"

namespace tutti::actions {

struct ModelCommand {
  CommandForm form;
  std::function<std::string(const CommandWords&)> run;  // returns what is printed; throws Error or ConfigError
};

ModelCommand info_command();
ModelCommand import_command();
ModelCommand export_command();
ModelCommand predict_command();

// Runs such a command with its words: {"info", MODEL}. Its errors are ready to be printed.
std::string run_model_command(const std::vector<std::string>& words);

// The help of the command of that name; "" if there is none.
std::string model_command_help(const std::string& name);
// Its options, "--onnx" and so on; none if there is no such command.
std::vector<std::string> model_command_options(const std::string& name);

// "model" or "checkpoint" of this program. Throws Error for other files.
std::string kind_of(const std::string& path);
// The graph of a model of this program or CNTK's, with its values. Throws Error for checkpoints and other files.
graph::Graph model_graph(const std::string& path);
// Nodes of that graph by name, or its output nodes if `names` is empty. Throws ConfigError for names that it does not
// have (with a suggestion), and if there are neither.
std::vector<std::size_t> chosen_nodes(const graph::Graph&, const std::string& path,
                                      const std::vector<std::string>& names, const char* option);

}  // namespace tutti::actions
