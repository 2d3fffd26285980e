// SPDX-License-Identifier: Apache-2.0
// The JSON of a Keras model (versions 1, 2 and 3; Sequential, Model, Functional) -> layers and what they read; the
// settings of layers: numbers and words, initialisers, activations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "brainscript/keras.h"
#include "brainscript/ndl.h"

namespace tutti::brainscript::keras {
namespace {

SourcePos place(const std::shared_ptr<const Source>& source, const YAML::Mark& mark) {
  if (mark.is_null()) return {source, 0, 0};
  return {source, std::min(static_cast<std::size_t>(std::max(mark.pos, 0)), source->text.size()), 1};
}

[[noreturn]] void wrong(const std::shared_ptr<const Source>& source, const YAML::Node& at, std::string message) {
  throw ConfigError(place(source, at.Mark()), std::move(message),
                    "the file must be what Keras writes: open(path, 'w').write(model.to_json())");
}

std::string scalar(const YAML::Node& n, const std::string& otherwise = {}) {
  return n && n.IsScalar() ? n.Scalar() : otherwise;
}

// ["name", node, tensor, ...] or { ... "keras_history": ["name", node, tensor] }.
void add_reference(const YAML::Node& n, std::vector<Reference>& all) {
  if (n.IsMap()) {
    const YAML::Node history = n["config"] && n["config"].IsMap() ? n["config"]["keras_history"] : YAML::Node();
    if (history && history.IsSequence()) return add_reference(history, all);
    for (const auto& inner : n) add_reference(inner.second, all);
    return;
  }
  if (!n.IsSequence()) return;
  if (n.size() >= 2 && n[0].IsScalar() && n[1].IsScalar()) {
    all.push_back({n[0].Scalar(), n[1].as<std::size_t>(0)});
    return;
  }
  for (const auto& inner : n) add_reference(inner, all);
}

std::vector<Reference> references(const YAML::Node& n) {
  std::vector<Reference> all;
  if (n) add_reference(n, all);
  return all;
}

Layer read_layer(const YAML::Node& n, const std::shared_ptr<const Source>& source, std::size_t index) {
  if (!n.IsMap() || !n["class_name"]) wrong(source, n, "a layer without class_name");
  Layer l;
  l.kind = scalar(n["class_name"]);
  if (n["config"]) l.config.reset(n["config"]);
  l.where = place(source, n["class_name"].Mark());
  l.where.length = l.kind.size();
  l.name = scalar(n["name"]);
  if (l.name.empty() && l.config.IsMap()) l.name = scalar(l.config["name"]);
  if (l.name.empty()) l.name = fmt::format("{}_{}", l.kind, index + 1);
  if (const YAML::Node inbound = n["inbound_nodes"]; inbound && inbound.IsSequence())
    for (const auto& application : inbound) {
      // Keras 3 writes {args, kwargs}, earlier ones a list of references.
      const YAML::Node args = application.IsMap() ? application["args"] : application;
      l.applications.push_back(references(args));
    }
  return l;
}

// A chain: every layer reads the one before it.
void chain(Model& m) {
  const bool has_input = !m.layers.empty() && m.layers[0].kind == "InputLayer";
  if (!has_input) {
    if (m.layers.empty()) return;
    Layer input;
    input.kind = "InputLayer";
    input.name = m.layers[0].name + "_input";
    input.where = m.layers[0].where;
    input.config.reset(m.layers[0].config);
    // Assigning a YAML node would write into the one it refers to, as insert() does.
    std::vector<Layer> all;
    all.reserve(m.layers.size() + 1);
    all.push_back(std::move(input));
    for (auto& l : m.layers) all.push_back(std::move(l));
    m.layers.swap(all);
  }
  for (std::size_t i = 1; i < m.layers.size(); ++i) m.layers[i].applications = {{{m.layers[i - 1].name, 0}}};
  m.inputs = {{m.layers[0].name, 0}};
  m.outputs = {{m.layers.back().name, 0}};
}

Model read(const YAML::Node& root, const std::shared_ptr<const Source>& source) {
  if (!root.IsMap() || !root["class_name"]) wrong(source, root, "this is no Keras model: it has no class_name");
  Model m;
  m.source = source;
  const std::string kind = scalar(root["class_name"]);
  const YAML::Node config = root["config"];
  const YAML::Node layers = config && config.IsMap() ? config["layers"] : config;
  if (!layers || !layers.IsSequence() || layers.size() == 0) wrong(source, root, "this model has no layers");
  m.name = config.IsMap() ? scalar(config["name"], "model") : "model";
  for (std::size_t i = 0; i < layers.size(); ++i) m.layers.push_back(read_layer(layers[i], source, i));
  if (kind == "Sequential") {
    chain(m);
  } else if (kind == "Model" || kind == "Functional") {
    m.inputs = references(config["input_layers"]);
    m.outputs = references(config["output_layers"]);
  } else {
    wrong(source, root["class_name"], fmt::format("'{}' is no kind of model that is known here", kind));
  }
  if (m.inputs.empty() || m.outputs.empty()) wrong(source, root, "this model names no inputs or outputs");
  for (std::size_t i = 0; i < m.layers.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (m.layers[k].name == m.layers[i].name)
        throw ConfigError(m.layers[i].where, fmt::format("two layers are called '{}'", m.layers[i].name));
  return m;
}

}  // namespace

const Layer& Model::layer(const std::string& wanted) const {
  for (const auto& l : layers)
    if (l.name == wanted) return l;
  std::vector<std::string> known;
  for (const auto& l : layers) known.push_back(l.name);
  throw ConfigError({source, 0, 0}, fmt::format("the model '{}' has no layer '{}', which it refers to", name, wanted),
                    nearest(wanted, known));
}

Model read_model(const config::Value& file) {
  const auto source = ndl::text_of_file(file, "model").source;
  try {
    return read(YAML::Load(source->text), source);
  } catch (const YAML::Exception& e) {
    throw ConfigError(place(source, e.mark), fmt::format("this is no JSON: {}", e.msg),
                      "the file must be what Keras writes: open(path, 'w').write(model.to_json())");
  }
}

Model inner_model(const Layer& layer, const std::shared_ptr<const Source>& source) {
  YAML::Node root;
  root["class_name"] = layer.kind;
  root["config"] = layer.config;
  return read(root, source);
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

namespace {

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

void note_ignored(Writer& w, const Layer& l) {
  for (const char* key : {"kernel_regularizer", "W_regularizer", "recurrent_regularizer", "U_regularizer",
                          "bias_regularizer", "b_regularizer", "activity_regularizer", "kernel_constraint",
                          "W_constraint", "bias_constraint", "b_constraint", "recurrent_constraint"})
    if (setting(l, {key}))
      w.notice(l, fmt::format("'{}' has no effect; L2RegWeight and L1RegWeight of SGD hold for all weights", key));
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
