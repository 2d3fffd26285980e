// SPDX-License-Identifier: Apache-2.0
// effective_config.h -- the settings of a run as a config of its own: for --check, for `trainer diff`, and for the file
// beside a model.
#pragma once

#include <string>
#include <vector>

#include "config/effective.h"
#include "config/top_level.h"

namespace tutti::actions {

// Where inherited settings stand. once: not in a block around which the setting is printed, too, so that it can be
// changed in one place. in_each_block: in every block that reads them, and only there, for comparing.
enum class Inherited { once, in_each_block };
// What these commands read, with variables resolved and inherited settings in their blocks. Mistakes are not reported.
std::vector<config::Setting> effective_config(const config::Record& top, const config::TopLevel&,
                                              const std::vector<std::string>& commands, Inherited = Inherited::once);

// The settings of a model's training lie beside it.
std::string settings_path(const std::string& model_path);
// Warns if the file cannot be written.
void write_settings_file(const std::string& model_path, const std::vector<config::Setting>&);

}  // namespace tutti::actions
