// SPDX-License-Identifier: Apache-2.0
// model_file.h -- models on disk: the graph of a network and all its values. Works on a ModelView, so that it does not
// depend on how Network stores values; view_model() makes a view of a Network.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/container.h"
#include "tutti/communicator.h"
#include "tutti/graph.h"
#include "tutti/network.h"

namespace tutti {

struct ModelValue {
  std::string name;
  Shape shape;
  std::span<float> values;
};
struct ModelView {
  const graph::Graph* graph = nullptr;
  std::vector<ModelValue> values;  // sorted by name
  std::size_t bytes() const;
};
// The view is valid as long as the network.
ModelView view_model(Network&);

// The graph as YAML. Strings are always quoted and other values never, so that every attribute keeps its type. Numbers
// read back bit for bit. `from` names the file in errors.
std::string to_text(const graph::Graph&);
graph::Graph parse_graph(const std::string& text, const std::string& from);

// `replaces_description`: a training that goes on from the file takes its network, instead of the description's.
void write_model(ContainerWriter&, const ModelView&, bool replaces_description = false);
// Loads values by name. Throws Error if a value is missing or of another shape. With `exact`, also if the file
// has values that this network does not use, or holds one that it uses as unused.
void read_model_values(const ContainerReader&, ModelView&, bool exact);

void save_model(const std::string& path, const ModelView&, bool replaces_description = false);

// With a communicator, rank 0 reads for all, so other ranks need not see the file. If it fails, every rank throws the
// same Error. Collective then. `kind`: "model", or "checkpoint" for a mid-epoch file.
bool replaces_description(const std::string& path, Communicator* = nullptr, std::string_view kind = "model");
graph::Graph load_graph(const std::string& path, Communicator* = nullptr, std::string_view kind = "model");
void load_values(const std::string& path, ModelView&, Communicator* = nullptr, std::string_view kind = "model",
                 bool exact = false);
// The graph with its values (Node::start): a model as the start of another network.
graph::Graph load_trained(const std::string& path, Communicator* = nullptr, std::string_view kind = "model");

// A fused GRU computes with the constant 1. Throws Error if the file `path`, whose values have been loaded, has another
// number for it.
void check_constants(const std::vector<Network::State>&, const std::string& path);

// The text of action dumpNode, token for token as CNTK prints it.
struct DumpOptions {
  std::string node_name = "__AllNodes__";
  std::string node_name_regex;  // the whole name must match; replaces node_name when not empty
  bool print_values = true, print_metadata = true;
  std::vector<std::string> names = {};  // replaces both when not empty
};
// Throws Error if no node has the name or matches.
void dump_nodes(const ModelView&, const DumpOptions&, std::ostream&);

}  // namespace tutti
