// SPDX-License-Identifier: Apache-2.0
// network.h -- a network description in the network language -> graph.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "brainscript/syntax.h"
#include "brainscript/value.h"
#include "tutti/builder.h"

namespace tutti::brainscript {

struct NetworkText {
  SourceText text;  // { members }, [ members ] or ( expression )
  std::vector<std::filesystem::path> include_path;
  std::vector<std::pair<std::string, Value>> variables;  // deviceId, traceLevel, precision
};

// The standard library: its syntax tree, and the record of its functions, natives included.
const Expr* parse_library(Program&);
Record* library_record(Evaluator&, const Expr& library, const Path* root);

// Mistakes land in context.problems, several at once where the definitions are independent.
graph::Graph build_network(const NetworkText&, const BuildContext&);

// The value of one expression as Print shows it, library included; for tests.
std::string evaluate_to_text(const std::string& expression);

}  // namespace tutti::brainscript
