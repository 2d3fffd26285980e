// SPDX-License-Identifier: Apache-2.0
// node_names.h -- finds nodes by the names that scripts of the older languages use for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/graph.h"

namespace tutti::brainscript {

// The set of nodes that FeatureNodes, LabelNodes, CriterionNodes = CriteriaNodes, EvaluationNodes = EvalNodes or
// OutputNodes means, whatever the case; null for other names.
std::vector<std::size_t> graph::Graph::*find_node_set(const std::string& name);

// The node of that name, else one whose name differs in upper and lower case only, else OutputNodes.z: the output node
// that is called z or x.z. (The original gives nodes of a macro such names when the result is assigned to a set.)
std::optional<std::size_t> find_node(const graph::Graph&, const std::string& name);

}  // namespace tutti::brainscript
