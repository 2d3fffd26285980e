// SPDX-License-Identifier: Apache-2.0
// svd_action.h -- action = "SVD": replaces weight matrices of a trained model with products of two smaller ones.
#pragma once

#include "actions/action.h"
#include "tutti/graph.h"

namespace tutti::actions {

struct SvdOptions {
  std::string model_path, output_model_path, node_name_regex, config_file;
  double keep_ratio = 0.4;
  std::int64_t aligned_size = 8;
  void describe(config::Fields&);
};
std::unique_ptr<Action> make_svd_action(const ActionContext&);

// The parameters whose whole names match `pattern`; each once, in the order of the rules.
struct SvdRule {
  std::string pattern;
  double keep_ratio = 0.4;
};
// Factors the matrices of a trained graph (Node::start) that the rules select into W-U and W-V. Products W * x become
// W-U * (W-V * x). Returns a line per matrix. Throws Error if no parameter matches.
std::vector<std::string> factor_matrices(graph::Graph&, const std::vector<SvdRule>&, std::size_t aligned_size);

}  // namespace tutti::actions
