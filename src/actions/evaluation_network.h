// SPDX-License-Identifier: Apache-2.0
// evaluation_network.h -- what the actions that only read a model share: its file, its network, its reader.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actions/action.h"
#include "tutti/graph.h"
#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti::actions {

bool file_exists(const std::string& path);
std::int64_t last_model_epoch(const std::string& model_path);  // the largest e of modelPath.<e>, -1 if there is none

void check_minibatch_sizes(config::Fields&, const config::Schedule<std::int64_t>&);

// The action's `reader` or `cvReader` block; nullptr and a problem when there is none or it is wrong.
// The data are read through once where the format needs it, so that broken data stop the run before it starts.
std::unique_ptr<Reader> open_reader(const ActionContext&, const char* block, const char* action, int trace_level);

// The options of a reader block, for --check.
OptionsText reader_options(const ActionContext&, const char* block, const char* action);

// The model file of an action, or "" where the block's own builder describes the network. The builder of a block that
// trains as well describes where the training begins.
std::string model_to_read(const ActionContext&, std::string model_path);

// A model must be there, or be written by an earlier action of this run, or come from a builder. `exact`: the very
// file, not only numbered ones.
void check_model_to_read(const ActionContext&, const std::string& model_path, bool exact);

// A network description or a reader needs a file that an earlier action of this run is to write.
struct ModelToCome {
  std::string path;
};

// How descriptions load models: before anything runs, every rank reads the file for itself, and what is still to come
// is ModelToCome; while actions run, rank 0 reads for all.
std::function<graph::Graph(const std::string&)> model_loader(const ActionContext&);

// The network of a model file (or of the block's builder where no modelPath is given) that reports `nodes`: by default
// its evaluation nodes, then its criteria.
std::unique_ptr<Network> evaluation_network(const ActionContext&, const std::string& model_path,
                                            std::vector<std::string> nodes);

}  // namespace tutti::actions
