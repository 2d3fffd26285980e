// SPDX-License-Identifier: Apache-2.0
// graph_text.h -- a network as the YAML text in model files (docs/checkpoints.md shows an example).
#pragma once

#include <string>

#include "tutti/graph.h"

namespace tutti {

std::string to_text(const graph::Graph&);
// `from` names the file in errors.
graph::Graph parse_graph(const std::string& text, const std::string& from);

}  // namespace tutti
