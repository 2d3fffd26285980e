// SPDX-License-Identifier: Apache-2.0
#include "cntk/model_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "graph/shapes.h"
#include "tutti/error.h"

namespace tutti::cntk {
namespace {

constexpr const char* rate = "learningRateMultiplier";

bool is_parameter(const graph::Node& n) { return n.operation == "LearnableParameter"; }

class GraphMaker {
 public:
  GraphMaker(FileNodes file, const std::string& path) : file_(std::move(file)), path_(path) {
    model_.version = file_.version;
    model_.double_precision = file_.double_precision;
  }

  Model run() {
    for (FileNode& n : file_.nodes) adjust(n.node);
    check_inputs();
    take_over_nodes();
    take_over_sets();
    turned_ = filters_with_maps_first(model_.graph);
    turn_filters();
    reconcile();
    check_statistics();
    if (model_.double_precision) model_.notes.push_back("the values are double; they are read as float32");
    return std::move(model_);
  }

 private:
  graph::Node& node(std::size_t n) { return file_.nodes[n].node; }

  [[noreturn]] void fail(const graph::Node& n, const std::string& what, const std::string& fix) const {
    const std::size_t at = file_.nodes[file_.place.at(n.name)].offset;
    throw Error(fmt::format("'{}', byte {}, node '{}' ({}): {}\nfix: {}", path_, at, n.name, n.operation, what, fix));
  }

  void adjust(graph::Node& n) {
    if (n.operation == "ClassificationError" && n.inputs.size() == 3) {
      n.attributes["topN"] = constant(n, 2, "topN");
      n.inputs.resize(2);
    } else if (n.operation == "CosDistanceWithNegativeSamples" && n.inputs.size() == 4) {
      n.attributes["shift"] = constant(n, 2, "the shift");
      n.attributes["negatives"] = constant(n, 3, "the number of negative samples");
      n.inputs.resize(2);
    } else if (n.operation == "Logistic" && n.inputs.size() == 3) {
      n.operation = "WeightedLogistic";
    } else if (n.operation == "BatchNormalization" && n.inputs.size() == 5) {
      convert_normalization(n);
    }
  }

  // An input that is one number.
  double constant(const graph::Node& n, std::size_t input, const char* what) {
    const graph::Node& value = node(n.inputs[input]);
    if (!is_parameter(value) || value.start->size() != 1)
      fail(n, fmt::format("{} ('{}') is not a constant number", what, value.name), "write it as a Constant");
    return value.start->front();
  }

  // Running statistics are not trained, whatever their multiplier. Before version 13 the fifth input is the inverse of
  // the deviation; the original converts it to 1 / v^2 + epsilon, and adds epsilon again when it normalises.
  void convert_normalization(graph::Node& n) {
    for (const std::size_t k : {3, 4})
      if (is_parameter(node(n.inputs[k]))) node(n.inputs[k]).attributes[rate] = 0.0;
    graph::Node& variance = node(n.inputs[4]);
    if (file_.version >= 13 || !is_parameter(variance) || !converted_.insert(n.inputs[4]).second) return;
    const auto epsilon = static_cast<float>(graph::number(n, "epsilon", 0));
    auto values = std::make_shared<std::vector<float>>(*variance.start);
    constexpr float least = 1e-30f;  // below which the original's inverse is that of this number
    for (float& v : *values) v = 1 / std::max(v * v, least) + epsilon;
    variance.start = std::move(values);
  }

  void turn_filters() {
    for (auto& n : model_.graph.nodes) {
      const auto found = n.start ? turned_.find(n.name) : turned_.end();
      if (found != turned_.end())
        n.start = std::make_shared<std::vector<float>>(with_maps_last(*n.start, found->second));
    }
  }

  void check_inputs() {
    for (const FileNode& n : file_.nodes) {
      const auto* const info = graph::find_operation(n.node.operation);
      if (!info) continue;  // left out
      const auto inputs = static_cast<int>(n.node.inputs.size());
      if (inputs < info->min_inputs || (info->max_inputs >= 0 && inputs > info->max_inputs))
        fail(n.node, fmt::format("it has {} inputs", inputs), "copy the file again from where it was made");
    }
  }

  void take_over_nodes() {
    const std::size_t converted = converted_.size();
    for (std::size_t n = 0; n < file_.nodes.size(); ++n) {
      if (left_out(n)) continue;
      after_[n] = model_.graph.nodes.size();
      model_.graph.nodes.push_back(node(n));
    }
    for (auto& n : model_.graph.nodes)
      for (auto& in : n.inputs) {
        if (left_out(in))
          fail(node(in),
               fmt::format("'{}' needs it, but it is not supported: {}", n.name, file_.nodes[in].type->left_out),
               "train with a criterion that the network computes");
        in = after_.at(in);
      }
    for (const FileNode& n : file_.nodes)
      if (!n.type->left_out.empty() && n.node.operation != "DynamicAxis")
        model_.notes.push_back(
            fmt::format("the node '{}' ({}) is left out: {}", n.node.name, n.node.operation, n.type->left_out));
    if (converted > 0)
      model_.notes.push_back(fmt::format(
          "format version {}: {} running deviation{} converted to variances, approximately, as CNTK does; samples seen "
          "are taken for 16 in each minibatch",
          file_.version, converted, converted == 1 ? " was" : "s were"));
  }

  bool left_out(std::size_t n) const { return !file_.nodes[n].type->left_out.empty(); }

  // Inputs that are labels are not features as well.
  void take_over_sets() {
    graph::Graph& g = model_.graph;
    const std::set<std::size_t> labels(file_.labels.begin(), file_.labels.end());
    std::erase_if(file_.features, [&](std::size_t n) { return labels.contains(n); });
    for (const auto& [from, to] :
         {std::pair(&file_.features, &g.features), std::pair(&file_.labels, &g.labels),
          std::pair(&file_.criteria, &g.criteria), std::pair(&file_.evaluations, &g.evaluations),
          std::pair(&file_.outputs, &g.outputs)})
      for (const auto n : *from)
        if (const auto found = after_.find(n); found != after_.end()) to->push_back(found->second);
  }

  // As in the original, operands may be on the axis of a Where and on that of an input if their sequences are equal.
  void reconcile() {
    constexpr std::size_t most = 64;
    for (const Diagnostic& d : graph::reconcile_axes(model_.graph, most))
      model_.notes.push_back(d.message + "; the run ends at the first minibatch in which their sequences differ");
  }

  // Memory for a statistic is taken by the shape of its input, so that must be as large as the file says.
  void check_statistics() {
    std::vector<std::size_t> inputs;
    for (const graph::Node& n : model_.graph.nodes)
      if (graph::is_statistic(n)) inputs.push_back(n.inputs[0]);
    if (inputs.empty()) return;
    graph::Graph copy = model_.graph;
    const auto values = graph::infer_graph(copy, graph::evaluation_order(copy, inputs));
    for (const graph::Node& n : model_.graph.nodes) {
      if (!graph::is_statistic(n) || !n.start) continue;
      const Shape& shape = values[n.inputs[0]].shape;
      if (n.start->size() != shape.elements())
        fail(n, fmt::format("it has {} values for {}", n.start->size(), to_string(shape)),
             "copy the file again from where it was made");
    }
  }

  FileNodes file_;
  const std::string& path_;
  Model model_;
  std::unordered_map<std::size_t, std::size_t> after_;  // places in the graph
  std::set<std::size_t> converted_;
  std::map<std::string, MapsFirst> turned_;
};

}  // namespace

std::vector<std::string> trained_parameters(const graph::Graph& g) {
  std::vector<bool> seen(g.nodes.size(), g.criteria.empty());
  std::vector<std::size_t> open;
  const auto visit = [&](std::size_t n) {
    if (!seen[n]) seen[n] = true, open.push_back(n);
  };
  if (!g.criteria.empty()) visit(g.criteria[0]);
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    for (const auto in : g.nodes[n].inputs) visit(in);
  }
  std::vector<std::string> names;
  for (std::size_t n = 0; n < g.nodes.size(); ++n)
    if (seen[n] && is_parameter(g.nodes[n]) && graph::number(g.nodes[n], rate, 1) != 0)
      names.push_back(g.nodes[n].name);
  std::ranges::sort(names);
  return names;
}

std::map<std::string, MapsFirst> filters_with_maps_first(const graph::Graph& g) {
  std::map<std::string, MapsFirst> all;
  for (const graph::Node& n : g.nodes) {
    if (n.operation != "Convolution" || graph::text(n, "imageLayout", "CHW") != "HWC") continue;
    const graph::Node& filter = g.nodes[n.inputs[0]];
    double maps = 1, values = 1;
    for (const double d : graph::numbers(n, "mapDims")) maps *= d;
    for (const double d : graph::numbers(filter, "dims")) values *= d;
    if (is_parameter(filter) && maps >= 1 && std::fmod(values, maps) == 0)
      all[filter.name] = {static_cast<std::size_t>(maps), static_cast<std::size_t>(values / maps)};
  }
  return all;
}

std::vector<float> with_maps_last(const std::vector<float>& values, const MapsFirst& stored) {
  std::vector<float> turned(values.size());
  for (std::size_t m = 0; m < stored.maps; ++m)
    for (std::size_t k = 0; k < stored.kernel; ++k) turned[m * stored.kernel + k] = values[k * stored.maps + m];
  return turned;
}

Model to_model(FileNodes file, const std::string& path) {
  try {
    return GraphMaker(std::move(file), path).run();
  } catch (const ConfigError& e) {
    throw Error(fmt::format("the network in '{}': {}", path, e.what()));
  }
}

}  // namespace tutti::cntk
