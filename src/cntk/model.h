// SPDX-License-Identifier: Apache-2.0
// model.h -- models that CNTK wrote (.dnn, .model, .cmf; format versions 7 to 18), as graphs with values. The layout of
// the files is that of docs/notes/cntk_files.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cntk/byte_reader.h"
#include "tutti/graph.h"

namespace tutti::cntk {

constexpr std::uint64_t oldest_version = 7, newest_version = 18;

// A filter of the layout "HWC", which is stored with the maps first: [maps, width, height, channels].
struct MapsFirst {
  std::size_t maps = 0, kernel = 0;  // kernel: elements of a filter
};
// Puts the maps last, as all other filters have them.
std::vector<float> with_maps_last(const std::vector<float>& values, const MapsFirst&);

struct Model {
  std::uint64_t version = 0;
  bool double_precision = false;
  graph::Graph graph;              // values are in Node::start
  std::vector<std::string> notes;  // what differs from the file
};

// The parameters that have a matrix in a checkpoint, in its order: those that the first criterion depends on, by name.
std::vector<std::string> trained_parameters(const graph::Graph&);
// The filters that CNTK's files have with the maps first, by name.
std::map<std::string, MapsFirst> filters_with_maps_first(const graph::Graph&);

// By content, not by name.
bool is_model(const std::string& path);
// Throws Error: the file is damaged, of another version, or has a node that this version does not know.
Model read_model(const std::string& path);
Model read_model(ByteReader);

}  // namespace tutti::cntk
