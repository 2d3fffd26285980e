// SPDX-License-Identifier: Apache-2.0
// recurrent_networks.h -- what tests of recurrent networks have in common: networks from text, and a step of theirs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../brainscript/networks.h"
#include "graph_builder.h"
#include "sequence_data.h"

namespace tutti::test {

inline graph::Graph parsed(const std::string& text) {
  const auto built = brainscript::build(text);
  EXPECT_EQ(built.errors, "") << text;
  return built.graph;
}

inline std::unique_ptr<Network> network_of(const std::string& text, const std::vector<StreamInfo>& streams,
                                           std::int64_t plan = 100, const NetworkOptions& options = {}) {
  auto network = std::make_unique<Network>(parsed(text), options);
  network->bind(streams);
  network->initialize_parameters();
  network->plan_training(plan);
  return network;
}

// A layer from Keras: all steps are one operation, or (not `plain`) a loop of operations.
inline std::string gru(bool bias, bool late, bool backwards, bool plain = true, std::size_t cells = 4) {
  const auto word = [](bool b) { return b ? "true" : "false"; };
  return fmt::format("_Keras.Gru {{{}, ({}), Tanh, Sigmoid, 'uniform', 5, 'uniform', 6, {}, {}, {}}}", cells,
                     bias ? fmt::format("Repeat ({}, 0.2)", 3 * cells) : "0", word(backwards), word(late), word(plain));
}

struct Sums {
  double criterion;
  std::vector<float> gradients;
};
inline Sums sums(Network& network, const Batch& batch) {
  Announced sink;
  const StepMetrics t = network.forward_backward(batch, sink);
  EXPECT_EQ(sink.order.size(), network.parameters().chunks.size());
  return {t.criterion, gradients(network)};
}

}  // namespace tutti::test
