// SPDX-License-Identifier: Apache-2.0
// Settings of Keras layers (numbers and words, initialisers, activations), and the Writer of their definitions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "brainscript/keras.h"

namespace tutti::brainscript::keras {

std::string Writer::unique(const std::string& name) {
  static const std::set<std::string> keywords = {"include", "new",  "with", "true", "false",
                                                 "if",      "then", "else", "array"};
  std::string id;
  for (const char c : name) id += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  // Names of the language begin with a capital and must keep their meaning.
  if (id.empty() || !std::islower(static_cast<unsigned char>(id[0])) || keywords.contains(id)) id = "layer_" + id;
  const int n = ++names_[id];
  return n == 1 ? id : unique(fmt::format("{}_{}", id, n));
}

std::string Writer::define(const std::string& name, const std::string& expression) {
  const std::string id = unique(prefix + name);
  text_ += fmt::format("  {} = {}\n", id, expression);
  return id;
}

std::string Writer::function(const Layer& layer, const std::string& expression) {
  std::string& id = functions_[prefix + layer.name];
  if (id.empty()) id = define(layer.name, expression);
  return id;
}

void Writer::notice(const Layer& layer, const std::string& what) {
  if (notices_)
    notices_->add({layer.where, fmt::format("{} '{}': {}", layer.kind, layer.name, what), ""}, "warning", true);
}

YAML::Node setting(const Layer& layer, Names names) {
  if (layer.config.IsMap())
    for (const char* name : names)
      if (const YAML::Node n = layer.config[name]; n && !n.IsNull()) return n;
  return YAML::Node(YAML::NodeType::Undefined);
}

void fail(const Layer& layer, std::string message, std::string fix) {
  throw ConfigError(layer.where, fmt::format("{} '{}': {}", layer.kind, layer.name, message), std::move(fix));
}

std::vector<std::size_t> shape_of(const Layer& layer, const YAML::Node& shape, std::size_t leave_out) {
  std::vector<std::size_t> dims;
  for (std::size_t i = leave_out; i < shape.size(); ++i) {
    const auto n = shape[i].IsNull() ? 0 : shape[i].as<long long>(-1);
    if (n < 1) fail(layer, "an axis of its input has no size", "give the sizes of images and vectors in the model");
    dims.push_back(static_cast<std::size_t>(n));
  }
  if (dims.empty()) fail(layer, "its input has no axis", "give the sizes of images and vectors in the model");
  return dims;
}

// ---- settings: numbers and words

double number(const Layer& l, Names names, std::optional<double> otherwise) {
  const YAML::Node n = setting(l, names);
  if (!n && otherwise) return *otherwise;
  if (!n || !n.IsScalar()) fail(l, fmt::format("has no '{}'", *names.begin()));
  return n.as<double>();
}
std::size_t count(const Layer& l, Names names, std::optional<double> otherwise) {
  const double n = number(l, names, otherwise);
  if (n < 1 || n != std::floor(n) || n > 1e9) fail(l, fmt::format("{} = {} is not a size", *names.begin(), n));
  return static_cast<std::size_t>(n);
}
bool flag(const Layer& l, Names names, bool otherwise) {
  const YAML::Node n = setting(l, names);
  return n ? n.as<bool>() : otherwise;
}
std::string text(const Layer& l, Names names, const std::string& otherwise) {
  const YAML::Node n = setting(l, names);
  if (n && !n.IsScalar()) fail(l, fmt::format("'{}' must be a word", *names.begin()));
  return n ? n.Scalar() : otherwise;
}

std::string plain_name(const YAML::Node& n) {
  std::string name = n.IsScalar() ? n.Scalar() : std::string();
  if (n.IsMap()) {
    const YAML::Node config = n["config"];
    name = config && config.IsScalar() ? config.Scalar() : n["class_name"] ? n["class_name"].Scalar() : std::string();
  }
  std::string plain;
  for (const char c : name)
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

// ---- initial values

std::string Initial::text(const Layer& l) const {
  if (init == "fixedValue" && value != 0) fail(l, fmt::format("its weights cannot begin with {} everywhere", value));
  return init == "fixedValue" ? "init='zero'" : fmt::format("init='{}', initValueScale={}", init, scale);
}

namespace {

Initial variance_scaling(const Layer& l, const YAML::Node& config) {
  const std::string mode = config["mode"] ? config["mode"].Scalar() : "fan_in";
  const std::string shape = config["distribution"] ? config["distribution"].Scalar() : "truncated_normal";
  const double gain = std::sqrt(config["scale"] ? config["scale"].as<double>() : 1.0);
  const bool uniform = shape == "uniform";
  if (mode == "fan_avg") return {uniform ? "glorotUniform" : "glorotNormal", gain};
  if (mode == "fan_in") return uniform ? Initial{"xavier", gain} : Initial{"gaussian", 5 * gain};
  fail(l, fmt::format("the initialiser VarianceScaling with mode {} is not known here", mode), "use fan_in or fan_avg");
}

Initial named_initialiser(const Layer& l, const YAML::Node& n) {
  static const std::map<std::string, Initial> table = {{"glorotuniform", {"glorotUniform"}},
                                                       {"glorotnormal", {"glorotNormal"}},
                                                       {"heuniform", {"heUniform"}},
                                                       {"henormal", {"heNormal"}},
                                                       {"lecununiform", {"xavier"}},
                                                       {"lecunnormal", {"gaussian", 5}},
                                                       {"uniform", {"uniform"}},
                                                       {"randomuniform", {"uniform"}},
                                                       {"normal", {"normal", 0.05}},
                                                       {"randomnormal", {"normal", 0.05}},
                                                       {"truncatednormal", {"normal", 0.05}},
                                                       {"orthogonal", {"orthogonal"}},
                                                       {"zeros", {"fixedValue"}},
                                                       {"zero", {"fixedValue"}},
                                                       {"ones", {"fixedValue", 1, 1}},
                                                       {"one", {"fixedValue", 1, 1}},
                                                       {"constant", {"fixedValue"}}};
  const std::string name = plain_name(n);
  const YAML::Node config =
      n.IsMap() && n["config"] && n["config"].IsMap() ? n["config"] : YAML::Node(YAML::NodeType::Map);
  if (name == "variancescaling") return variance_scaling(l, config);
  const auto found = table.find(name);
  if (found == table.end())
    fail(l, fmt::format("the initialiser '{}' is not known here", name),
         "use glorot, he or lecun, uniform or normal, orthogonal, zeros, ones or a constant");
  Initial i = found->second;
  const auto given = [&](const char* key) { return config[key] && config[key].IsScalar() && !config[key].IsNull(); };
  if (name == "constant" && given("value")) i.value = config["value"].as<double>();
  if (i.init == "normal" && given("stddev")) i.scale = config["stddev"].as<double>();
  if (name == "orthogonal" && given("gain")) i.scale = config["gain"].as<double>();
  if (i.init == "normal" && given("mean") && config["mean"].as<double>() != 0)
    fail(l, "an initialiser with a mean is not known here");
  if (i.init == "uniform" && given("maxval") && given("minval")) {
    const double low = config["minval"].as<double>(), high = config["maxval"].as<double>();
    if (low != -high) fail(l, fmt::format("initial values from {} to {} are not centerd at 0", low, high));
    i.scale = high / 0.05;
  }
  return i;
}

const std::map<std::string, std::string>& activations() {
  static const std::map<std::string, std::string> table = {
      {"linear", "_Keras.Linear"},
      {"relu", "ReLU"},
      {"sigmoid", "Sigmoid"},
      {"tanh", "Tanh"},
      {"softmax", "Softmax"},
      {"logsoftmax", "LogSoftmax"},
      {"exponential", "Exp"},
      {"hardsigmoid", "_Keras.HardSigmoid"},
      {"elu", "(x => _Keras.Elu (x, 1))"},
      {"selu", "_Keras.Selu"},
      {"softplus", "_Keras.Softplus"},
      {"softsign", "_Keras.Softsign"},
      {"swish", "_Keras.Swish"},
      {"silu", "_Keras.Swish"},
      {"relu6", "(x => _Keras.Capped (x, 6))"},
  };
  return table;
}

}  // namespace

Initial initial(const Layer& l, Names names, const std::string& otherwise) {
  const YAML::Node n = setting(l, names);
  return named_initialiser(l, n ? n : YAML::Node(otherwise));
}

double constant_initial(const Layer& l, Names names) {
  const Initial i = initial(l, names, "zeros");
  if (i.init != "fixedValue") fail(l, fmt::format("the bias can begin with a constant only, not with {}", i.init));
  return i.value;
}

// ---- activations

const std::string& activation_function(const std::string& name) { return activations().at(name); }

std::string activation_name(const Layer& l, Names names, const std::string& otherwise) {
  const YAML::Node n = setting(l, names);
  const std::string name = n ? plain_name(n) : otherwise;
  if (!activations().contains(name)) {
    std::vector<std::string> known;
    for (const auto& [key, value] : activations()) known.push_back(key);
    fail(l, fmt::format("the activation '{}' is not known here", name),
         fmt::format("there are {}", fmt::join(known, ", ")));
  }
  return name;
}

Tensor activate(Writer& w, const Layer& l, Tensor x, const std::string& name) {
  if (name == "linear") return x;
  if (name.ends_with("softmax") && x.shape.size() > 1)
    fail(l, "a softmax over images is not known here", "flatten them first");
  Tensor y = made(w, l, x, fmt::format("{} ({})", activations().at(name), x.name));
  if (name == "softmax") y.before_softmax = x.name;
  if (name == "sigmoid") y.before_sigmoid = x.name;
  y.not_negative = name == "relu" || name == "relu6" || name == "sigmoid" || name == "softmax";
  return y;
}

Tensor made(Writer& w, const Layer& l, const Tensor& x, const std::string& expression, const char* suffix) {
  Tensor y = x;
  y.name = w.define(l.name + suffix, expression);
  y.not_negative = false;
  y.before_softmax.clear(), y.before_sigmoid.clear();
  return y;
}

void need_no_padding(const Layer& l, const Tensor& x) {
  if (!x.padding.empty())
    fail(l, "cannot follow zero padding here", "let a convolution follow, or a pooling behind ReLU");
}

const Tensor& only(const Layer& l, const Inputs& in) {
  if (in.size() != 1) fail(l, fmt::format("takes one input, not {}", in.size()));
  return in[0];
}

const Tensor& unpadded(const Layer& l, const Inputs& in) {
  need_no_padding(l, only(l, in));
  return in[0];
}

Tensor one_vector(Writer& w, const Layer& l, const Inputs& in) { return as_in_keras(w, unpadded(l, in)); }

}  // namespace tutti::brainscript::keras
