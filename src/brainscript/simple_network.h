// SPDX-License-Identifier: Apache-2.0
// simple_network.h -- SimpleNetworkBuilder: networks from a list of layer sizes (semantics 7.1): chains of dense
// layers, and the recurrent networks and language models of the original.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/builder.h"

namespace tutti::brainscript {

enum class SimpleCriterion {
  cross_entropy_with_softmax,
  square_error,
  logistic,
  classification_error,
  class_cross_entropy_with_softmax,
  not_available  // known and refused
};

enum class SimpleType {
  feed_forward,      // SIMPLENET
  recurrent,         // SIMPLERNN
  lstm,              // LSTM
  class_recurrent,   // CLASSLM
  class_lstm,        // CLASSLSTM
  conditional_lstm,  // CLSTM
  log_bilinear,      // LBLM
  neural_prob,       // NPLM
  noise_contrastive,
  random_field  // known and refused
};

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
  SimpleType type = SimpleType::feed_forward;
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

graph::Graph build_simple_network(const SimpleNetworkOptions&, const SourcePos& where, const BuildContext&);

// The operation of a layer type; null where there is none of that name.
struct SimpleLayerType {
  std::string_view word, operation;
};
const SimpleLayerType* simple_layer_type(std::string_view word);
std::string operation_of(SimpleCriterion);

}  // namespace tutti::brainscript
