// SPDX-License-Identifier: Apache-2.0
// The JSON of a Keras model (versions 1, 2 and 3; Sequential, Model, Functional) -> layers and what they read.
#include <fmt/format.h>

#include <algorithm>

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

}  // namespace tutti::brainscript::keras
