// SPDX-License-Identifier: Apache-2.0
// Builds features -> layers -> criterion with the names and seeds that semantics 7.1 fixes.
#include "brainscript/simple_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "brainscript/simple_parts.h"

namespace tutti::brainscript {
namespace {

class FeedForward : public SimpleParts {
 public:
  using SimpleParts::SimpleParts;

  graph::Graph run() {
    const auto& sizes = o_.layer_sizes.values;
    const std::size_t features = input("features", sizes.front());
    g_.features = {features};
    std::size_t x = features;
    if (o_.apply_mean_var_norm) {
      const std::size_t mean = node("MeanOfFeatures", "Mean", {x});
      const std::size_t deviation = node("InvStdOfFeatures", "InvStdDev", {x});
      x = node("MVNormalizedFeatures", "PerDimMeanVarNormalization", {x, mean, deviation});
    }
    if (o_.add_dropout_nodes) x = node("Drop" + name_of(x), "Dropout", {x});
    const std::size_t layers = sizes.size() - 1;
    for (std::size_t k = 0; k < layers; ++k) x = layer(k, x, k + 1 == layers);
    const std::size_t labels = input("labels", sizes.back());
    g_.labels = {labels};
    criteria(labels, x);
    outputs(labels, x);
    return std::move(g_);
  }

 private:
  std::size_t layer(std::size_t k, std::size_t x, bool last) {
    const auto& sizes = o_.layer_sizes.values;
    const std::size_t w = random_parameter(fmt::format("W{}", k), sizes[k + 1], sizes[k]);
    const std::size_t b = constant_parameter(fmt::format("B{}", k), sizes[k + 1], 1);
    const std::size_t product = node(name_of(w) + "*" + name_of(x), "Times", {w, x}, {{"outputRank", 1.0}});
    const std::string sum_name = last ? "HLast" : name_of(product) + "+" + name_of(b);
    const std::size_t sum = node(sum_name, "Plus", {product, b});
    if (last) return sum;
    const std::string name = fmt::format("H{}", k + 1);
    const std::size_t h = nonlinearity(k, sum, name);
    return o_.add_dropout_nodes ? node("Drop" + name, "Dropout", {h}) : h;
  }

  std::size_t criterion(SimpleCriterion c, const std::string& prefix, std::size_t labels, std::size_t last) {
    const std::string operation = operation_of(c);
    // Logistic compares probabilities, the others take the last layer as it is.
    std::size_t z = last;
    if (c == SimpleCriterion::logistic) z = node(prefix + "LogisticProb", "Sigmoid", {last});
    return node(prefix + operation, operation, {labels, z});
  }

  void criteria(std::size_t labels, std::size_t last) {
    g_.criteria = {criterion(o_.training_criterion, "", labels, last)};
    g_.evaluations = {criterion(o_.eval_criterion, "Eval", labels, last)};
  }

  void outputs(std::size_t labels, std::size_t last) {
    if (o_.need_prior) {
      const std::size_t prior = node("Prior", "Mean", {labels});
      const std::size_t log = node("LogOfPrior", "Log", {prior});
      g_.outputs = {node("ScaledLogLikelihood", "Minus", {last, log})};
    } else {
      g_.outputs = {last};
    }
    node("PosteriorProb", "Softmax", {last});
  }
};

}  // namespace

std::size_t SimpleParts::node(std::string name, std::string operation, std::vector<std::size_t> inputs,
                              std::map<std::string, graph::Attribute> attributes) {
  if (name.empty()) name = fmt::format("AutoName{}", unnamed_++);
  g_.nodes.push_back({std::move(name), std::move(operation), std::move(inputs), std::move(attributes), where_, {}});
  return g_.nodes.size() - 1;
}

std::size_t SimpleParts::input(std::string name, std::int64_t dim, bool sparse) {
  return node(std::move(name), "InputValue", {},
              {{"dims", std::vector<double>{static_cast<double>(dim)}}, {"sparse", sparse}});
}

std::size_t SimpleParts::random_parameter(std::string name, std::int64_t rows, std::int64_t columns) {
  return node(std::move(name), "LearnableParameter", {},
              {{"dims", std::vector<double>{static_cast<double>(rows), static_cast<double>(columns)}},
               {"learningRateMultiplier", 1.0},
               {"init", std::string(o_.uniform_init ? "uniform" : "gaussian")},
               {"initValueScale", o_.init_value_scale},
               {"randomSeed", static_cast<double>(constant_seed_ ? 1 : seed_++)}});
}

std::size_t SimpleParts::constant_parameter(std::string name, std::int64_t rows, std::int64_t columns, double value) {
  return node(std::move(name), "LearnableParameter", {},
              {{"dims", std::vector<double>{static_cast<double>(rows), static_cast<double>(columns)}},
               {"learningRateMultiplier", 1.0},
               {"init", std::string("fixedValue")},
               {"value", value}});
}

std::size_t SimpleParts::nonlinearity(std::size_t layer, std::size_t x, std::string name) {
  const std::string operation(simple_layer_type(o_.layer_types[std::min(layer, o_.layer_types.size() - 1)])->operation);
  if (!operation.empty()) return node(std::move(name), operation, {x});
  if (!name.empty()) g_.nodes[x].name = std::move(name);
  return x;
}

graph::Graph build_simple_network(const SimpleNetworkOptions& options, const SourcePos& where,
                                  const BuildContext& context) {
  for (const std::string& key : options.without_effect)
    context.notices->lines.push_back(fmt::format("'{}' in SimpleNetworkBuilder has no effect with this rnnType", key));
  if (options.type != SimpleType::feed_forward)
    return build_simple_recurrent(options, where, context.force_constant_seed);
  return FeedForward(options, where, context.force_constant_seed).run();
}

}  // namespace tutti::brainscript
