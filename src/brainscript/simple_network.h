// SPDX-License-Identifier: Apache-2.0
// simple_network.h -- SimpleNetworkBuilder: networks from a list of layer sizes: chains of dense
// layers, and the recurrent networks and language models of the original.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/builder.h"

namespace tutti::brainscript {

struct SimpleNetworkOptions {
  config::Schedule<std::int64_t> layer_sizes;
  std::vector<std::string> layer_types = {"Sigmoid"};
  // Operations; empty for criteria that this version does not have.
  std::string training_criterion = "CrossEntropyWithSoftmax", eval_criterion = "ClassificationError";
  double init_value_scale = 1;
  bool uniform_init = true;
  bool apply_mean_var_norm = false;
  bool need_prior = false;
  std::int64_t seed_offset = 0;
  bool add_dropout_nodes = false;
  std::string type = "SIMPLENET";  // rnnType, without its other names
  config::Schedule<std::int64_t> recurrent_layers;
  double default_hidden_activity = 0.1;
  std::int64_t lookup_table_order = 0, moving_average_order = 0;
  std::int64_t vocabulary = -1, classes = -1, extra_features = 20;
  bool constant_input_gate = false, constant_forget_gate = false, constant_output_gate = false;
  double input_gate_bias = -1, forget_gate_bias = -1, output_gate_bias = -1;
  bool sparse_input = false;
  std::vector<std::string> without_effect;  // keys that were given and mean nothing to this type
  void describe(config::Fields&);
};

graph::Graph build_simple_network(const SimpleNetworkOptions&, const config::Record& command, const BuildContext&);

}  // namespace tutti::brainscript
