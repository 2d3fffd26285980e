// SPDX-License-Identifier: Apache-2.0
// evaluation_network.h -- shared by the actions that only read a model: its file, its network, its reader, and the
// names of its nodes in settings.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actions/action.h"
#include "actions/device.h"
#include "train/checkpoint.h"
#include "train/file.h"
#include "train/sgd_options.h"
#include "tutti/graph.h"
#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti::actions {

void check_minibatch_sizes(config::Fields&, const config::Schedule<std::int64_t>&);

// Creates the reader of the block `reader` or `cvReader`. Returns nullptr and adds a problem if the block is missing or
// wrong. Formats that need it are read through once, so that broken data stop the run before it starts.
std::unique_ptr<Reader> open_reader(const ActionContext&, const char* block, const char* action, int trace_level);

// The model file of an action, or "" if the block's own builder describes the network. The builder of a block that also
// trains describes the start of the training.
std::string model_to_read(const ActionContext&, std::string model_path);

// Reports a problem unless the model exists, an earlier action of this run writes it, or a builder makes it. `exact`:
// this very file, not a numbered one. Returns whether there is no problem.
bool check_model_to_read(const ActionContext&, const std::string& model_path, bool exact);

// How network descriptions load models. Before the run every rank reads the file itself, and a file still to come
// throws ModelToCome. During the run, rank 0 reads for all.
std::function<graph::Graph(const std::string&)> model_loader(const ActionContext&);

// The network of a model file (or of the block's builder without modelPath) that reports `nodes`; default: its
// evaluation nodes, then its criteria. It computes the nodes `written` (of outputNodeNames) as well.
std::unique_ptr<Network> evaluation_network(const ActionContext&, const std::string& model_path,
                                            const std::vector<std::string>& nodes,
                                            const std::vector<std::string>& written = {});

// Warns if the nodes depend on batch normalisations without running statistics; which nodes by default, see above.
void warn_of_missing_statistics(Network&, const std::vector<std::string>& nodes);

// Checks of node names in settings (evalNodeNames, outputNodeNames, nodeName, ...) before anything runs.

// Names may also be separated by commas: (z, ce).
std::vector<std::string> node_list(const std::vector<std::string>& names);

// Reports a name that is no node at its place in the setting, with a suggestion.
std::vector<Diagnostic> unknown_nodes(const config::Record& block, const char* key,
                                      const std::vector<std::string>& names, const graph::Graph& graph);

// Calls `use` with the model that the action will read, or the network that an earlier action of this run trains, or
// that of the block's network builder if model_path is empty. Adds mistakes to context.problems.
void with_graph(const ActionContext& context, const std::string& model_path,
                const std::function<void(const graph::Graph&)>& use);

// Checks against the model that the action will read, or the network that an earlier action of this run trains, or the
// block's network builder if model_path is empty. Adds to context.problems.
void check_node_names(const ActionContext& context, const char* key, const std::vector<std::string>& names,
                      const std::string& model_path);

// Reports inputs for which the reader has no stream, or another one than the network declares. Returns whether it has
// all of them.
bool check_streams(const ActionContext&, const char* block, const Reader&, const std::vector<Network::Input>& inputs);
// The same for an evaluation_network() that reports the nodes `reported`, of an action that computes the nodes
// `computed`. Throws ConfigError for shapes that do not fit and for nodes that cannot be computed.
void check_streams(const ActionContext&, const Reader&, const graph::Graph&, const std::vector<std::size_t>& reported,
                   const std::vector<std::size_t>& computed);

// The nodes of these names, which exist.
std::vector<std::size_t> indices_of(const graph::Graph&, const std::vector<std::string>& names);
// The same; default: the evaluation nodes, then the criteria.
std::vector<std::size_t> nodes_to_report(const graph::Graph&, const std::vector<std::string>& names);

void check_regex(const SourcePos&, const std::string& pattern);  // throws ConfigError
// A regular expression without a match is a problem, too.
void check_node_pattern(const ActionContext& context, const char* key, const std::string& pattern,
                        const std::string& model_path);

// Checks the settings of the SGD block that name nodes. Returns whether all exist.
bool check_sgd_nodes(const ActionContext&, const SgdOptions&, const graph::Graph&);
// Throws ConfigError if no parameter that epochs would train gets a gradient from the criterion. Warns if there is no
// such parameter and no statistics to gather.
void check_criterion(const ActionContext&, const SgdOptions&, Network&);

}  // namespace tutti::actions
