// SPDX-License-Identifier: Apache-2.0
// The block SimpleNetworkBuilder=[...], and its network: a call of _SimpleNetwork (library_builders.cpp).
#include "brainscript/simple_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "brainscript/network.h"
#include "config/text.h"

namespace tutti::brainscript {
namespace {

constexpr std::size_t most_layers = 10'000;
constexpr std::int64_t largest_layer = 1'000'000'000;
const std::string class_criterion = "ClassBasedCrossEntropyWithSoftmax";
const std::vector<std::string> layer_kinds = {"Sigmoid", "RectifiedLinear", "Tanh", "None"};
using Words = std::vector<std::pair<std::string, std::string>>;

bool has_classes(const std::string& type) { return type == "CLASSLM" || type == "CLASSLSTM" || type == "CLSTM"; }
bool has_lstm(const std::string& type) { return type == "LSTM" || type == "CLASSLSTM" || type == "CLSTM"; }
bool has_lookup_table(const std::string& type) { return has_lstm(type) || type == "LBLM"; }

void describe_sizes(SimpleNetworkOptions& o, config::Fields& f) {
  f("layerSizes", o.layer_sizes, "features : hidden ... : outputs, such as 784:400*2:10");
  f.required("layerSizes");
  if (!f.given("layerSizes")) return;
  if (o.layer_sizes.size() < 2)
    f.problem("layerSizes", "layerSizes needs at least two sizes", "write features:hidden:outputs");
  if (o.layer_sizes.size() > most_layers)
    f.problem("layerSizes", fmt::format("layerSizes has {} sizes", o.layer_sizes.size()),
              fmt::format("up to {} are possible", most_layers));
  for (const auto n : o.layer_sizes.values)
    if (n < 1 || n > largest_layer)
      f.problem("layerSizes", fmt::format("a layer of size {} is not possible", n), "sizes begin at 1");
}

void describe_layer_types(SimpleNetworkOptions& o, config::Fields& f) {
  f("layerTypes", o.layer_types, "one per hidden layer, the last repeats: Sigmoid, RectifiedLinear, Tanh or None");
  if (o.layer_types.empty()) f.problem("layerTypes", "layerTypes is empty", "leave it out for Sigmoid");
  for (auto& word : o.layer_types) {
    const auto known = std::ranges::find_if(layer_kinds, [&](const auto& k) { return config::equal_keys(k, word); });
    if (known == layer_kinds.end())
      f.problem("layerTypes", fmt::format("there is no layer type '{}'", word),
                did_you_mean(word, layer_kinds, "known: Sigmoid, RectifiedLinear, Tanh, None"));
    else
      word = *known;
  }
}

void describe_criteria(SimpleNetworkOptions& o, config::Fields& f) {
  Words training = {{"CrossEntropyWithSoftmax", "CrossEntropyWithSoftmax"},
                    {"SquareError", "SquareError"},
                    {"Logistic", "Logistic"},
                    {"ClassCrossEntropyWithSoftmax", class_criterion}};
  for (const char* absent : {"SequenceWithSoftmax", "NCECrossEntropyWithSoftmax", "CRF", "CTCwithSoftmax"})
    training.emplace_back(absent, "");
  Words evaluation = {{"ClassificationError", "ClassificationError"}, {"ErrorPrediction", "ClassificationError"}};
  evaluation.insert(evaluation.end(), training.begin(), training.end());
  f.choice("trainingCriterion", o.training_criterion, training, "what is minimised");
  f.required("trainingCriterion");
  f.choice("evalCriterion", o.eval_criterion, evaluation, "the evaluation to report");
  f.required("evalCriterion");
  const bool classes = has_classes(o.type);
  for (const auto& [key, c] :
       {std::pair{"trainingCriterion", o.training_criterion}, std::pair{"evalCriterion", o.eval_criterion}})
    if (f.given(key) && c.empty())
      f.problem(key,
                "this version has no criteria over lattices, label paths or noise (SequenceWithSoftmax, "
                "CTCwithSoftmax, CRF, NCECrossEntropyWithSoftmax)",
                fmt::format("train step by step: {} = \"CrossEntropyWithSoftmax\"", key));
    else if (f.given(key) && (c == class_criterion) != classes)
      f.problem(key,
                classes ? "the labels of this rnnType are words and their classes"
                        : "only the rnnTypes with word classes have this criterion",
                classes ? fmt::format("{} = \"ClassCrossEntropyWithSoftmax\"", key)
                        : "rnnType = \"CLASSLM\" or \"CLASSLSTM\", or another criterion");
}

void describe_type(SimpleNetworkOptions& o, config::Fields& f) {
  const Words types = {{"SIMPLENET", "SIMPLENET"},
                       {"SIMPLERNN", "SIMPLERNN"},
                       {"SIMPLERECURRENT", "SIMPLERNN"},
                       {"DEEPRNN", "SIMPLERNN"},
                       {"LSTM", "LSTM"},
                       {"CLASSLM", "CLASSLM"},
                       {"CLASSENTROPY", "CLASSLM"},
                       {"CLASSLSTM", "CLASSLSTM"},
                       {"CLSTM", "CLSTM"},
                       {"LBLM", "LBLM"},
                       {"NPLM", "NPLM"},
                       {"NCELSTM", "NCELSTM"},
                       {"CRF", "CRF"},
                       {"RCRF", "CRF"}};
  f.choice("rnnType", o.type, types,
           "SIMPLENET: dense layers; recurrent networks: SIMPLERNN, LSTM; language models with word classes: CLASSLM, "
           "CLASSLSTM, CLSTM; language models over all words: LBLM, NPLM");
  if (o.type == "NCELSTM")
    f.problem("rnnType", "this version has no noise contrastive estimation",
              "CLASSLSTM makes large vocabularies cheap, too, through word classes");
  if (o.type == "CRF")
    f.problem("rnnType", "this version has no conditional random fields, nor had the releases of the original",
              "LSTM labels each word by itself");
}

// Layers of a language model and what its criterion needs.
void check_recurrent(SimpleNetworkOptions& o, config::Fields& f) {
  const auto hidden = static_cast<std::int64_t>(o.layer_sizes.size()) - 2;
  if (!f.given("layerSizes") || hidden < 0) return;
  const std::int64_t order = o.lookup_table_order;
  if (hidden == 0)
    f.problem("layerSizes", "a recurrent network needs a hidden layer", "layerSizes = features:hidden:outputs");
  if (order > 0 && has_lookup_table(o.type)) {
    if (o.layer_sizes.values.front() % order != 0)
      f.problem("lookupTableOrder",
                fmt::format("{} features are not {} vectors of one length", o.layer_sizes.values.front(), order),
                "the first of layerSizes is lookupTableOrder times the number of words");
    if (hidden == 1)
      f.problem("layerSizes", "a lookup table is a layer, and none is left behind it",
                "layerSizes = features:embedding:hidden:outputs");
  }
  if (order == 0 && (o.type == "CLASSLSTM" || o.type == "CLSTM"))
    f.problem("lookupTableOrder", "this rnnType begins with a lookup table of words",
              "lookupTableOrder = 1 ; layerSizes = words:embedding:hidden:words");
  if (o.type == "NPLM" && (o.recurrent_layers.values.empty() || o.recurrent_layers.values.front() != 1))
    f.problem("recurrentLayer", "NPLM looks at the last words in its first hidden layer", "recurrentLayer = 1");
  for (const auto layer : o.recurrent_layers.values)
    if (layer < 1 || layer > hidden)
      f.problem("recurrentLayer", fmt::format("there is no hidden layer {}", layer),
                fmt::format("hidden layers are 1 to {}", hidden));
  if (!has_classes(o.type)) return;
  const std::int64_t words = o.layer_sizes.values.back();
  if (o.classes < 1 || o.classes > words)
    f.problem("nbrClass", "nbrClass is the number of word classes", "as in writeWordAndClass, nbrClass = 50");
  if ((o.type == "CLASSLM" || f.given("vocabSize")) && o.vocabulary != words)
    f.problem("vocabSize", fmt::format("the last of layerSizes has {} words, vocabSize says {}", words, o.vocabulary),
              "the two are the same number");
}

void note_without_effect(SimpleNetworkOptions& o, config::Fields& f) {
  const std::string& t = o.type;
  const auto useless = [&](const char* key, bool useful) {
    if (!useful && f.given(key)) o.without_effect.emplace_back(key);
  };
  const bool loops = t != "SIMPLENET";
  useless("recurrentLayer", loops && t != "CLASSLSTM" && t != "CLSTM");
  useless("defaultHiddenActivity", loops);
  useless("lookupTableOrder", has_lookup_table(t));
  useless("maOrder", t == "LBLM");
  useless("vocabSize", has_classes(t)), useless("nbrClass", has_classes(t));
  useless("auxFeatDim", t == "CLSTM");
  for (const char* key : {"constInputGateValue", "constForgetGateValue", "constOutputGateValue", "inputGateInitVal",
                          "forgetGateInitVal", "outputGateInitVal"})
    useless(key, has_lstm(t));
  useless("sparseinput", t == "LSTM");
  if (o.need_prior && loops && t != "LSTM") o.without_effect.emplace_back("needPrior");
}

// Whether hidden layer i, from 0, loops. The layers that recurrentLayer lists are taken one by one; the last one stays.
std::vector<bool> loops_of(const SimpleNetworkOptions& o) {
  const std::size_t hidden = o.layer_sizes.size() - 2, lookup = o.lookup_table_order > 0 ? 1 : 0;
  const bool lstm = o.type == "LSTM";
  const auto& listed = o.recurrent_layers.values;
  std::vector<bool> loops(hidden, o.type == "CLASSLSTM" || o.type == "CLSTM");
  for (std::size_t taken = 0, i = lstm ? 1 + lookup : o.type == "LBLM" ? lookup : 0; i < hidden && !listed.empty(); ++i)
    if (listed[std::min(taken, listed.size() - 1)] == static_cast<std::int64_t>(lstm ? i : i + 1))
      loops[i] = true, ++taken;
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

void SimpleNetworkOptions::describe(config::Fields& f) {
  describe_type(*this, f);
  describe_sizes(*this, f);
  describe_layer_types(*this, f);
  describe_criteria(*this, f);
  f("initValueScale", init_value_scale, "factor on random initial weights");
  f("randomSeedOffset", seed_offset, "added to the seeds 1, 2, 3, ... of the initial weights");
  f("uniformInit", uniform_init, "weights begin uniform in +-0.05; false: gaussian with deviation 0.2/sqrt(inputs)");
  f("applyMeanVarNorm", apply_mean_var_norm, "normalise the features by mean and deviation of the training data");
  f("needPrior", need_prior, "subtract the logarithm of the label frequencies from the output");
  f("addDropoutNodes", add_dropout_nodes, "dropout behind the features and each hidden layer (rate: SGD dropoutRate)");
  f("recurrentLayer", recurrent_layers, "which hidden layers are recurrent, from 1: 1:2");
  f("defaultHiddenActivity", default_hidden_activity, "hidden state before the first word");
  f("lookupTableOrder", lookup_table_order, "number of words in the features, each with its own embedding; 0 = none");
  f("maOrder", moving_average_order, "LBLM: number of previous words in the input");
  f("vocabSize", vocabulary, "number of words, the last of layerSizes");
  f("nbrClass", classes, "number of word classes");
  f("auxFeatDim", extra_features, "CLSTM: numbers of the input binaryFeature");
  f("constInputGateValue", constant_input_gate, "LSTM without input gate");
  f("constForgetGateValue", constant_forget_gate, "LSTM without forget gate");
  f("constOutputGateValue", constant_output_gate, "LSTM without output gate");
  f("inputGateInitVal", input_gate_bias, "initial bias of input gates");
  f("forgetGateInitVal", forget_gate_bias, "initial bias of forget gates");
  f("outputGateInitVal", output_gate_bias, "initial bias of output gates");
  f("sparseinput", sparse_input, "LSTM: the features are sparse, such as one-hot words");
  if (lookup_table_order < 0) f.problem("lookupTableOrder", "the order is a number of words", "0 is no lookup table");
  if (moving_average_order < 0) f.problem("maOrder", "the order is a number of words", "0 looks at no earlier word");
  if (extra_features < 1) f.problem("auxFeatDim", "an input has at least one number", "auxFeatDim = 20");
  if (type != "SIMPLENET") check_recurrent(*this, f);
  without_effect.clear();
  note_without_effect(*this, f);
  for (const char* key : {"noise_number", "directConnect"})
    f.no_effect(key, "it belongs to NCELSTM, a type that this version does not have");
  for (const char* key : {"streamSizes", "lookupTableOrderSizes", "labelEmbeddingSize", "word2cls", "cls2index"})
    f.no_effect(key, "no network of the original looks at it either");
  f.no_effect("outputLayerSize", "it belongs to model files of a tool called DBN");
  f.no_effect("addPrior", "the key is needPrior");
  f.no_effect("nodeType", "the key is layerTypes");
}

graph::Graph build_simple_network(const SimpleNetworkOptions& options, const config::Record& command,
                                  const BuildContext& given) {
  const SourcePos where = command.block("SimpleNetworkBuilder").where();
  for (const std::string& key : options.without_effect)
    given.notices->lines.push_back(fmt::format("'{}' in SimpleNetworkBuilder has no effect with this rnnType", key));
  BuildContext context = given;
  std::int64_t seed = 1 + options.seed_offset;  // they begin there in every network
  context.seed = &seed;
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
