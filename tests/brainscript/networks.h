// SPDX-License-Identifier: Apache-2.0
// networks.h -- builds a network from text and tells what the tests ask about it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "brainscript/network.h"

namespace tutti::brainscript {

struct Built {
  graph::Graph graph;
  std::string errors;  // as the user sees them; empty when all is well
  std::vector<std::string> notices;

  const graph::Node& operator[](const std::string& name) const {
    for (const auto& n : graph.nodes)
      if (n.name == name) return n;
    throw std::runtime_error("no node " + name + " among " + names());
  }
  std::string names() const {
    std::string all;
    for (const auto& n : graph.nodes) all += (all.empty() ? "" : " ") + n.name;
    return all;
  }
  // "z = Plus (z.PlusArgs[0], b)" for every node, in order.
  std::string listing() const {
    std::string all;
    for (const auto& n : graph.nodes) {
      std::string inputs;
      for (auto i : n.inputs) inputs += (inputs.empty() ? "" : ", ") + graph.nodes[i].name;
      all += fmt::format("{} = {} ({})\n", n.name, n.operation, inputs);
    }
    return all;
  }
  double seed(const std::string& name) const { return std::get<double>((*this)[name].attributes.at("randomSeed")); }
  std::vector<std::string> names_of(const std::vector<std::size_t>& nodes) const {
    std::vector<std::string> all;
    for (auto i : nodes) all.push_back(graph.nodes[i].name);
    return all;
  }
};

inline Built build(const std::string& text, BuildContext context = {}) {
  Built b;
  Problems problems;
  config::Notices notices;
  context.problems = &problems;
  context.notices = &notices;
  NetworkText network;
  network.text = {text, std::make_shared<Source>(Source{"net.cntk", text, nullptr}), 0, false};
  network.variables = {{"deviceId", -1.0}, {"precision", std::string("float")}};
  b.graph = build_network(network, context);
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    b.errors = e.what();
  }
  b.notices = notices.lines;
  return b;
}

}  // namespace tutti::brainscript
