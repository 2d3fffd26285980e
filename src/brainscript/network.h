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

// The standard library, written in the network language itself: its text, its syntax tree, and the record of its
// functions, natives included.
std::string library_text();
const Expr* parse_library(Program&);
Record* library_record(Evaluator&, const Expr& library, const Path* root);

// Mistakes land in context.problems, several at once where the definitions are independent.
graph::Graph build_network(const NetworkText&, const BuildContext&);

// The value of one expression as Print shows it, library included; for tests.
std::string evaluate_to_text(const std::string& expression);

// Names that the original's network languages have and these do not, so that a config that uses one is told what to do
// instead. docs/compatibility/networks.md lists them.
struct NotAvailable {
  std::string name;
  std::string instead;  // the fix
};
// By name, whatever its case; null when the original has no such operation either.
const NotAvailable* find_not_available(const std::string& name);

}  // namespace tutti::brainscript
