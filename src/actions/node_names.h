// SPDX-License-Identifier: Apache-2.0
// node_names.h -- names of nodes that settings give (evalNodeNames, outputNodeNames, nodeName, ...), checked against the
// network before anything runs.
#pragma once

#include <string>
#include <vector>

#include "actions/action.h"
#include "train/sgd_options.h"
#include "tutti/graph.h"

namespace tutti::actions {

// Names may be separated by commas, too: (z, ce).
std::vector<std::string> node_list(const std::vector<std::string>& names);

// A name that is no node: placed at the name in the setting, with a suggestion.
std::vector<Diagnostic> unknown_nodes(const config::Record& block, const char* key,
                                      const std::vector<std::string>& names, const graph::Graph& graph);

// Looks into the model that the action will read, or the network that an earlier action of this run trains; into the
// block's network builder where model_path is empty. Adds to context.problems.
void check_node_names(const ActionContext& context, const char* key, const std::vector<std::string>& names,
                      const std::string& model_path);

// A regular expression that no node matches is a problem, too.
void check_node_pattern(const ActionContext& context, const char* key, const std::string& pattern,
                        const std::string& model_path);

// Settings of the SGD block that name nodes. Returns whether all are there.
bool check_sgd_nodes(const ActionContext&, const SgdOptions&, const graph::Graph&);

}  // namespace tutti::actions
