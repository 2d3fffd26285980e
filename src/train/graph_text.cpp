// SPDX-License-Identifier: Apache-2.0
// Strings are always quoted and other values never, so that every attribute keeps its type. Numbers are printed so that
// they read back bit for bit.
#include "train/graph_text.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>

namespace tutti {

namespace {

constexpr int format = 1;

std::string number_text(double v) {
  if (std::isnan(v)) return ".nan";
  if (std::isinf(v)) return v < 0 ? "-.inf" : ".inf";
  return fmt::format("{}", v);
}

double parse_number(const std::string& text) {
  if (text == ".nan") return std::nan("");
  if (text == ".inf") return INFINITY;
  if (text == "-.inf") return -INFINITY;
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size())
    throw YAML::Exception({}, "'" + text + "' is no number");
  return v;
}

struct EmitAttribute {
  YAML::Emitter& out;
  void operator()(bool v) const { out << (v ? "true" : "false"); }
  void operator()(double v) const { out << number_text(v); }
  void operator()(const std::string& v) const { out << YAML::DoubleQuoted << v; }
  void operator()(const std::vector<double>& v) const {
    out << YAML::Flow << YAML::BeginSeq;
    for (double x : v) out << number_text(x);
    out << YAML::EndSeq;
  }
};

graph::Attribute parse_attribute(const YAML::Node& n) {
  if (n.IsSequence()) {
    std::vector<double> v;
    for (const auto& x : n) v.push_back(parse_number(x.Scalar()));
    return v;
  }
  if (n.Tag() == "!") return n.Scalar();  // was quoted
  if (n.Scalar() == "true") return true;
  if (n.Scalar() == "false") return false;
  return parse_number(n.Scalar());
}

using IndexList = std::vector<std::size_t> graph::Graph::*;
constexpr std::pair<const char*, IndexList> sets[] = {{"features", &graph::Graph::features},
                                                      {"labels", &graph::Graph::labels},
                                                      {"criteria", &graph::Graph::criteria},
                                                      {"evaluations", &graph::Graph::evaluations},
                                                      {"outputs", &graph::Graph::outputs}};

void emit_indices(YAML::Emitter& out, const std::vector<std::size_t>& v) {
  out << YAML::Flow << YAML::BeginSeq;
  for (std::size_t i : v) out << i;
  out << YAML::EndSeq;
}

std::vector<std::size_t> parse_indices(const YAML::Node& list, std::size_t nodes) {
  auto v = list.as<std::vector<std::size_t>>();
  for (std::size_t i : v)
    if (i >= nodes) throw YAML::Exception(list.Mark(), fmt::format("node {} of {}", i, nodes));
  return v;
}

graph::Graph parse(const std::string& text) {
  const YAML::Node root = YAML::Load(text);
  if (root["format"].as<int>() != format) throw YAML::Exception({}, "the network description has another format");
  graph::Graph g;
  const YAML::Node nodes = root["nodes"];
  for (const auto& n : nodes) {
    graph::Node node;
    node.name = n["name"].Scalar();
    node.operation = n["operation"].Scalar();
    node.inputs = parse_indices(n["inputs"], nodes.size());
    for (const auto& a : n["attributes"]) node.attributes[a.first.Scalar()] = parse_attribute(a.second);
    g.nodes.push_back(std::move(node));
  }
  for (const auto& [name, list] : sets) g.*list = parse_indices(root[name], g.nodes.size());
  return g;
}

}  // namespace

std::string to_text(const graph::Graph& g) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "format" << YAML::Value << format;
  out << YAML::Key << "nodes" << YAML::Value << YAML::BeginSeq;
  for (const graph::Node& n : g.nodes) {
    out << YAML::BeginMap;
    out << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted << n.name;
    out << YAML::Key << "operation" << YAML::Value << YAML::DoubleQuoted << n.operation;
    out << YAML::Key << "inputs" << YAML::Value;
    emit_indices(out, n.inputs);
    out << YAML::Key << "attributes" << YAML::Value << YAML::Flow << YAML::BeginMap;
    for (const auto& [key, value] : n.attributes) {
      out << YAML::Key << YAML::DoubleQuoted << key << YAML::Value;
      std::visit(EmitAttribute{out}, value);
    }
    out << YAML::EndMap << YAML::EndMap;
  }
  out << YAML::EndSeq;
  for (const auto& [name, list] : sets) {
    out << YAML::Key << name << YAML::Value;
    emit_indices(out, g.*list);
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

graph::Graph parse_graph(const std::string& text, const std::string& from) {
  try {
    return parse(text);
  } catch (const YAML::Exception& e) {
    throw Error(fmt::format("reading the network in '{}': {}", from, e.what()));
  }
}

}  // namespace tutti
