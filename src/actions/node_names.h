// SPDX-License-Identifier: Apache-2.0
// node_names.h -- checks node names in settings (evalNodeNames, outputNodeNames, nodeName, ...) against the network
// before anything runs.
#pragma once

#include <string>
#include <vector>

#include "actions/action.h"
#include "train/sgd_options.h"
#include "tutti/graph.h"

namespace tutti::actions {

// Names may also be separated by commas: (z, ce).
std::vector<std::string> node_list(const std::vector<std::string>& names);

// Reports a name that is no node at its place in the setting, with a suggestion.
std::vector<Diagnostic> unknown_nodes(const config::Record& block, const char* key,
                                      const std::vector<std::string>& names, const graph::Graph& graph);

// Checks against the model that the action will read, or the network that an earlier action of this run trains, or the
// block's network builder if model_path is empty. Adds to context.problems.
void check_node_names(const ActionContext& context, const char* key, const std::vector<std::string>& names,
                      const std::string& model_path);

// A regular expression without a match is a problem, too.
void check_node_pattern(const ActionContext& context, const char* key, const std::string& pattern,
                        const std::string& model_path);

// Checks the settings of the SGD block that name nodes. Returns whether all exist.
bool check_sgd_nodes(const ActionContext&, const SgdOptions&, const graph::Graph&);

}  // namespace tutti::actions
