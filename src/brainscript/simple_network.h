// SPDX-License-Identifier: Apache-2.0
// simple_network.h -- SimpleNetworkBuilder: a chain of dense layers from a list of sizes (semantics 7.1).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/builder.h"

namespace tutti::brainscript {

enum class SimpleCriterion { cross_entropy_with_softmax, square_error, logistic, classification_error };

struct SimpleNetworkOptions {
  config::Schedule<std::int64_t> layer_sizes;
  std::vector<std::string> layer_types = {"Sigmoid"};
  SimpleCriterion training_criterion = SimpleCriterion::cross_entropy_with_softmax;
  SimpleCriterion eval_criterion = SimpleCriterion::classification_error;
  double init_value_scale = 1;
  bool uniform_init = true;
  bool apply_mean_var_norm = false;
  bool need_prior = false;
  bool add_dropout_nodes = false;
  std::string rnn_type = "SIMPLENET";
  void describe(config::Fields&);
};

graph::Graph build_simple_network(const SimpleNetworkOptions&, const SourcePos& where, const BuildContext&);

}  // namespace tutti::brainscript
