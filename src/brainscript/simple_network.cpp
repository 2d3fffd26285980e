// SPDX-License-Identifier: Apache-2.0
// SimpleNetworkBuilder block -> a call of _SimpleNetwork (library_simple.cpp).
#include "brainscript/simple_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "brainscript/network.h"

namespace tutti::brainscript {
namespace {

// Whether hidden layer i, from 0, loops. The layers that recurrentLayer lists are taken one by one; the last one stays.
std::vector<bool> loops_of(const SimpleNetworkOptions& o) {
  const std::size_t hidden = o.layer_sizes.size() - 2, lookup = o.lookup_table_order > 0 ? 1 : 0;
  const bool lstm = o.type == "LSTM";
  const auto& listed = o.recurrent_layers.values;
  std::vector<bool> loops(hidden, o.type == "CLASSLSTM" || o.type == "CLSTM");
  std::size_t taken = 0;
  for (std::size_t i = lstm ? 1 + lookup : o.type == "LBLM" ? lookup : 0; i < hidden && !listed.empty(); ++i) {
    if (listed[std::min(taken, listed.size() - 1)] != static_cast<std::int64_t>(lstm ? i : i + 1)) continue;
    loops[i] = true;
    ++taken;
  }
  return loops;
}

std::string network_text(const SimpleNetworkOptions& o) {
  static const std::vector<std::string> of_words = {"SIMPLERNN", "CLASSLM", "CLASSLSTM", "CLSTM", "NPLM"};
  const bool sparse = o.type == "LSTM" ? o.sparse_input : std::ranges::count(of_words, o.type) > 0;
  return fmt::format(
      "{{ simple = _SimpleNetwork ({{ type = '{}'; sizes = [| {} |]; types = [| '{}' |]; loops = [| {} |]\n"
      "criterion = '{}'; evaluation = '{}'; uniform = {}; scale = {}; normalize = {}; prior = {}; dropout = {}\n"
      "activity = {}; order = {}; averaged = {}; classes = {}; extra = {}; sparse = {}\n"
      "constInputGate = {}; constForgetGate = {}; constOutputGate = {}\n"
      "inputBias = {}; forgetBias = {}; outputBias = {} }})\n"
      "featureNodes = simple.featureNodes; labelNodes = simple.net.result.labels; outputNodes = simple.net.outputs\n"
      "criterionNodes = simple.net.result.criteria; evaluationNodes = simple.net.result.evaluations }}",
      o.type, fmt::join(o.layer_sizes.values, ";"), fmt::join(o.layer_types, "';'"), fmt::join(loops_of(o), ";"),
      o.training_criterion, o.eval_criterion, o.uniform_init, o.init_value_scale, o.apply_mean_var_norm, o.need_prior,
      o.add_dropout_nodes, o.default_hidden_activity, o.lookup_table_order, o.moving_average_order, o.classes,
      o.extra_features, sparse, o.constant_input_gate, o.constant_forget_gate, o.constant_output_gate,
      o.input_gate_bias, o.forget_gate_bias, o.output_gate_bias);
}

}  // namespace

graph::Graph build_simple_network(const SimpleNetworkOptions& options, const SourcePos& where,
                                  const BuildContext& given) {
  for (const std::string& key : options.without_effect)
    given.notices->lines.push_back(fmt::format("'{}' in SimpleNetworkBuilder has no effect with this rnnType", key));
  BuildContext context = given;
  context.seed = nullptr;  // seeds begin at 1 in every network
  const std::string text = network_text(options);
  graph::Graph graph =
      build_network(NetworkText{{text, where.source, where.offset - text.find("_Simple"), false}, {}, {}}, context);
  std::size_t unnamed = 0;
  for (graph::Node& node : graph.nodes) {
    node.where = where;
    if (node.name.starts_with("simple.")) node.name = fmt::format("AutoName{}", unnamed++);
  }
  return graph;
}

}  // namespace tutti::brainscript
