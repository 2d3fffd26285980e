// SPDX-License-Identifier: Apache-2.0
// Builds features -> layers -> criterion with the names and seeds that semantics 7.1 fixes.
#include "brainscript/simple_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tutti::brainscript {
namespace {

constexpr std::size_t most_layers = 10'000;

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

struct LayerType {
  std::string_view word, operation;
};
constexpr std::array<LayerType, 4> layer_kinds = {
    {{"Sigmoid", "Sigmoid"}, {"RectifiedLinear", "RectifiedLinear"}, {"Tanh", "Tanh"}, {"None", ""}}};

const LayerType* layer_type(std::string_view word) {
  const auto found =
      std::find_if(layer_kinds.begin(), layer_kinds.end(), [&](const auto& k) { return same_word(k.word, word); });
  return found == layer_kinds.end() ? nullptr : &*found;
}

std::string operation_of(SimpleCriterion c) {
  switch (c) {
    case SimpleCriterion::cross_entropy_with_softmax:
      return "CrossEntropyWithSoftmax";
    case SimpleCriterion::square_error:
      return "SquareError";
    case SimpleCriterion::logistic:
      return "Logistic";
    case SimpleCriterion::classification_error:
      return "ClassificationError";
  }
  return {};
}

class SimpleBuilder {
 public:
  SimpleBuilder(const SimpleNetworkOptions& options, const SourcePos& where, bool constant_seed)
      : o_(options), where_(where), constant_seed_(constant_seed) {}

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
  std::string name_of(std::size_t i) const { return g_.nodes[i].name; }

  std::size_t node(std::string name, std::string operation, std::vector<std::size_t> inputs,
                   std::map<std::string, graph::Attribute> attributes = {}) {
    g_.nodes.push_back({std::move(name), std::move(operation), std::move(inputs), std::move(attributes), where_, {}});
    return g_.nodes.size() - 1;
  }

  std::size_t input(std::string name, std::int64_t dim) {
    return node(std::move(name), "InputValue", {},
                {{"dims", std::vector<double>{static_cast<double>(dim)}}, {"sparse", false}});
  }

  std::size_t parameter(std::string name, std::int64_t rows, std::int64_t columns, bool random) {
    std::map<std::string, graph::Attribute> a;
    a["dims"] = std::vector<double>{static_cast<double>(rows), static_cast<double>(columns)};
    a["learningRateMultiplier"] = 1.0;
    if (random) {
      a["init"] = std::string(o_.uniform_init ? "uniform" : "gaussian");
      a["initValueScale"] = o_.init_value_scale;
      a["randomSeed"] = static_cast<double>(constant_seed_ ? 1 : seed_++);
    } else {
      a["init"] = std::string("fixedValue");
      a["value"] = 0.0;
    }
    return node(std::move(name), "LearnableParameter", {}, std::move(a));
  }

  std::size_t layer(std::size_t k, std::size_t x, bool last) {
    const auto& sizes = o_.layer_sizes.values;
    const std::size_t w = parameter(fmt::format("W{}", k), sizes[k + 1], sizes[k], true);
    const std::size_t b = parameter(fmt::format("B{}", k), sizes[k + 1], 1, false);
    const std::size_t product = node(name_of(w) + "*" + name_of(x), "Times", {w, x}, {{"outputRank", 1.0}});
    const std::string sum_name = last ? "HLast" : name_of(product) + "+" + name_of(b);
    std::size_t h = node(sum_name, "Plus", {product, b});
    if (last) return h;
    const std::string& word = o_.layer_types[std::min(k, o_.layer_types.size() - 1)];
    const std::string name = fmt::format("H{}", k + 1);
    const std::string operation(layer_type(word)->operation);
    if (operation.empty())
      g_.nodes[h].name = name;
    else
      h = node(name, operation, {h});
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

  const SimpleNetworkOptions& o_;
  SourcePos where_;
  bool constant_seed_;
  std::int64_t seed_ = 1;
  graph::Graph g_;
};

}  // namespace

void SimpleNetworkOptions::describe(config::Fields& f) {
  using C = SimpleCriterion;
  const std::vector<std::pair<std::string, C>> training = {{"CrossEntropyWithSoftmax", C::cross_entropy_with_softmax},
                                                           {"SquareError", C::square_error},
                                                           {"Logistic", C::logistic}};
  std::vector<std::pair<std::string, C>> evaluation = {{"ClassificationError", C::classification_error},
                                                       {"ErrorPrediction", C::classification_error}};
  evaluation.insert(evaluation.end(), training.begin(), training.end());
  f("layerSizes", layer_sizes, "features : hidden ... : outputs, such as 784:400*2:10");
  f.required("layerSizes");
  if (f.given("layerSizes")) {
    if (layer_sizes.size() < 2)
      f.problem("layerSizes", "layerSizes needs at least two sizes", "write features:hidden:outputs");
    if (layer_sizes.size() > most_layers)
      f.problem("layerSizes", fmt::format("layerSizes has {} sizes", layer_sizes.size()),
                fmt::format("up to {} are possible", most_layers));
    for (const auto n : layer_sizes.values)
      if (n < 1 || n > 1'000'000'000)
        f.problem("layerSizes", fmt::format("a layer of size {} is not possible", n), "sizes begin at 1");
  }
  f("layerTypes", layer_types, "one per hidden layer, the last repeats: Sigmoid, RectifiedLinear, Tanh or None");
  if (layer_types.empty()) f.problem("layerTypes", "layerTypes is empty", "leave it out for Sigmoid");
  for (const auto& word : layer_types)
    if (!layer_type(word)) {
      std::vector<std::string> known;
      for (const auto& k : layer_kinds) known.emplace_back(k.word);
      const std::string near = nearest(word, known);
      f.problem("layerTypes", fmt::format("there is no layer type '{}'", word),
                near.empty() ? "known: Sigmoid, RectifiedLinear, Tanh, None" : fmt::format("did you mean '{}'?", near));
    }
  f.choice("trainingCriterion", training_criterion, training, "what is minimised");
  f.required("trainingCriterion");
  f.choice("evalCriterion", eval_criterion, evaluation, "what is reported beside it");
  f.required("evalCriterion");
  f("initValueScale", init_value_scale, "factor on the random initial weights");
  f("uniformInit", uniform_init, "weights begin uniform in +-0.05; false: gaussian with deviation 0.2/sqrt(inputs)");
  f("applyMeanVarNorm", apply_mean_var_norm, "normalise the features by mean and deviation of the training data");
  f("needPrior", need_prior, "subtract the logarithm of the label frequencies from the output");
  f("addDropoutNodes", add_dropout_nodes, "dropout behind the features and each hidden layer (rate: SGD dropoutRate)");
  f("rnnType", rnn_type, "SIMPLENET, a feed-forward network, is the only type of this version");
  if (!same_word(rnn_type, "SIMPLENET"))
    f.problem("rnnType", fmt::format("this version builds no networks of type '{}'", rnn_type),
              "use SIMPLENET or leave rnnType out");
  for (const char* key :
       {"recurrentLayer", "lookupTableOrder", "vocabSize", "nbrClass", "noise_number", "directConnect", "streamSizes",
        "sparseinput", "outputLayerSize", "defaultHiddenActivity", "constForgetGateValue", "constInputGateValue",
        "constOutputGateValue", "forgetGateInitVal", "inputGateInitVal", "outputGateInitVal"})
    f.no_effect(key, "it belongs to recurrent network types");
}

graph::Graph build_simple_network(const SimpleNetworkOptions& options, const SourcePos& where,
                                  const BuildContext& context) {
  return SimpleBuilder(options, where, context.force_constant_seed).run();
}

}  // namespace tutti::brainscript
