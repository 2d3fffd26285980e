// SPDX-License-Identifier: Apache-2.0
// initialize.h -- initial values of parameters, number for number as CNTK makes them.
#pragma once

#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tutti/graph.h"

namespace tutti::graph {

// Fills `values` (first axis fastest) from the attributes of a LearnableParameter of this shape.
void initialize(const Node& parameter, const Shape& shape, std::span<float> values);

// The values of a node from a trained model (node.start).
void start_from(const Node& node, const Shape& shape, std::span<float> values);

// Throws ConfigError if the attributes are invalid; only checks that files exist.
void check_initializer(const Node& parameter);

// A matrix written as text, with one row per line and numbers separated by blanks.
struct TextMatrix {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;  // column-major
};

// Errors are placed at `node`, which names the file or holds the literal.
std::ifstream open_matrix(const std::string& path, const Node& node);
TextMatrix read_text_matrix(const std::string& path, const Node& node);
TextMatrix parse_text_matrix(const std::string& text, const std::string& origin, const Node& node);

}  // namespace tutti::graph
