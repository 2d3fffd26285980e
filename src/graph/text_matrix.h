// SPDX-License-Identifier: Apache-2.0
// text_matrix.h -- parses matrices written as text, with one row per line and numbers separated by blanks. Used by the
// initialisers fromFile and fromLiteral, and to infer dims from a file.
#pragma once

#include <string>
#include <vector>

#include "tutti/graph.h"

namespace tutti::graph {

struct TextMatrix {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;  // column-major
};

// Errors are placed at `node`, which names the file or holds the literal.
TextMatrix read_text_matrix(const std::string& path, const Node& node);
TextMatrix parse_text_matrix(const std::string& text, const std::string& origin, const Node& node);

}  // namespace tutti::graph
