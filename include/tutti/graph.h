// SPDX-License-Identifier: Apache-2.0
// graph.h -- a network as plain data: built by the builders (BrainScript, SimpleNetworkBuilder, ...), stored in model
// files, executed by Network. It has no behaviour and owns no memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tutti/error.h"
#include "tutti/shape.h"

namespace tutti::graph {

using Attribute = std::variant<bool, double, std::string, std::vector<double>>;

// One operation. `operation` is CNTK's class name: "InputValue", "LearnableParameter", "Times", "Plus", ... The table
// in src/graph/shapes.cpp lists them with their attributes.
struct Node {
  std::string name;  // unique in the graph; names that nobody wrote are built as in CNTK
  std::string operation;
  std::vector<std::size_t> inputs;              // indices of nodes; input 0 of a delay may point forward
  std::map<std::string, Attribute> attributes;  // "outputRank", "dims", "init", "randomSeed", ...
  SourcePos where;                              // for errors; empty for loaded models
  // The initial values of a parameter or statistic from a trained model; replaces an initialiser.
  std::shared_ptr<const std::vector<float>> start = nullptr;
};

struct Graph {
  std::vector<Node> nodes;
  // Special node sets, as node indices in the order of declaration.
  std::vector<std::size_t> features, labels, criteria, evaluations, outputs;
};

// Attributes with a default for absent ones. A wrong type fails an assert, because builders check types.
bool flag(const Node&, const std::string& name, bool otherwise);
double number(const Node&, const std::string& name, double otherwise);
std::string text(const Node&, const std::string& name, const std::string& otherwise = {});
std::vector<double> numbers(const Node&, const std::string& name);

// What builders need to know about an operation. The table is in src/graph/shapes.cpp.
struct OperationInfo {
  std::string name;
  int min_inputs = 0, max_inputs = 0;  // max -1 = any number
};
const OperationInfo* find_operation(const std::string& name);
std::vector<std::string> operation_names();

}  // namespace tutti::graph
