// SPDX-License-Identifier: Apache-2.0
// initialize.h -- initial values of parameters, number for number as CNTK makes them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tutti/graph.h"

namespace tutti::graph {

// Fills `values` (first axis fastest) from the attributes of a LearnableParameter of this shape.
void initialize(const Node& parameter, const Shape& shape, std::span<float> values);

// The values of a node from a trained model (node.start).
void start_from(const Node& node, const Shape& shape, std::span<float> values);

// Throws ConfigError if the attributes are invalid. Of a file it reads the size alone. The dims must be complete.
void check_initializer(const Node& parameter);

// A matrix written as text, with one row per line and numbers separated by blanks.
struct MatrixSize {
  std::size_t rows = 0, columns = 0;
};
struct TextMatrix : MatrixSize {
  std::vector<float> values;  // column-major
};

// Errors are placed at `node`, which names the file or holds the literal.
MatrixSize text_matrix_size(const std::string& path, const Node& node);
TextMatrix read_text_matrix(const std::string& path, const Node& node);
TextMatrix parse_text_matrix(const std::string& text, const std::string& origin, const Node& node);

}  // namespace tutti::graph
