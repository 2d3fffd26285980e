// SPDX-License-Identifier: Apache-2.0
// model_commands.h -- `trainer info MODEL` and `trainer import MODEL OUT`: commands on model files, without a config.
#pragma once

#include <string>
#include <vector>

namespace tutti::actions {

// What a model or checkpoint holds, of ours or CNTK's. Throws Error.
std::string info_text(const std::string& path);
// Writes CNTK's model in our format. Returns what was done. Throws Error.
std::string import_model(const std::string& from, const std::string& to);
// Runs the words of such a command: {"info", MODEL} or {"import", MODEL, OUT}. Its errors are ready to be printed.
std::string run_model_command(const std::vector<std::string>& words);

}  // namespace tutti::actions
