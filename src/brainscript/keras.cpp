// SPDX-License-Identifier: Apache-2.0
// KerasNetworkBuilder: inputs, labels and criteria around the layers of a Keras model.
#include "brainscript/keras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "brainscript/network.h"
#include "graph/image_geometry.h"

namespace tutti::brainscript::keras {

void Options::describe(config::Fields& f) {
  f("file", file, "the architecture as model.to_json() of Keras writes it");
  f.required("file");
  f("loss", loss, "categorical_crossentropy, binary_crossentropy or mse; default: by the last activation");
  f("features", features, "name of the input; a model with several inputs has Keras' names");
  f("labels", labels, "name of the input that holds the labels");
  f("imageLayout", image_layout,
    "order in which images come from the reader: CHW (as ImageReader) or HWC (as Keras with channels_last); default: "
    "that of the model");
}

namespace {

bool is_model(const std::string& kind) { return kind == "Sequential" || kind == "Model" || kind == "Functional"; }

bool has_recurrent(const Model& m) {
  return std::any_of(m.layers.begin(), m.layers.end(), [&](const Layer& l) {
    return is_recurrent(l.kind) || (is_model(l.kind) && has_recurrent(inner_model(l, m.source)));
  });
}

// The layers of one model; an application is processed when something needs it.
class Translation {
 public:
  Translation(Writer& writer, const Model& model, std::map<std::string, Tensor> inputs)
      : writer_(writer), model_(model), inputs_(std::move(inputs)) {}

  Tensor tensor(const Reference& r) {
    if (const auto found = inputs_.find(r.layer); found != inputs_.end()) return found->second;
    const auto key = std::pair(r.layer, r.application);
    if (const auto found = done_.find(key); found != done_.end()) return found->second;
    const Layer& l = model_.layer(r.layer);
    if (!active_.insert(key).second) fail(l, "reads what it makes itself");
    if (r.application >= l.applications.size()) fail(l, fmt::format("is not applied {} times", r.application + 1));
    std::vector<Tensor> in;
    for (const auto& input : l.applications[r.application]) in.push_back(tensor(input));
    const Tensor made = is_model(l.kind) ? inner(l, in) : apply(writer_, l, in);
    active_.erase(key);
    return done_[key] = made;
  }

 private:
  Tensor inner(const Layer& l, const std::vector<Tensor>& in) {
    const Model& model = models_.try_emplace(l.name, inner_model(l, model_.source)).first->second;
    if (model.inputs.size() != in.size() || model.outputs.size() != 1)
      fail(l,
           fmt::format("has {} inputs and {} outputs and is given {} inputs", model.inputs.size(), model.outputs.size(),
                       in.size()),
           "models inside of models have one output");
    std::map<std::string, Tensor> inputs;
    for (std::size_t i = 0; i < in.size(); ++i) inputs[model.inputs[i].layer] = in[i];
    const std::string before = writer_.prefix;
    writer_.prefix += l.name + "_";
    const Tensor made = Translation(writer_, model, std::move(inputs)).tensor(model.outputs[0]);
    writer_.prefix = before;
    return made;
  }

  Writer& writer_;
  const Model& model_;
  std::map<std::string, Tensor> inputs_;
  std::map<std::pair<std::string, std::size_t>, Tensor> done_;
  std::set<std::pair<std::string, std::size_t>> active_;
  std::map<std::string, Model> models_;
};

class Description {
 public:
  Description(const Model& model, const Options& options, std::int64_t minibatch, const BuildContext& context)
      : model_(model), options_(options), writer_(minibatch, context.notices) {
    writer_.set_recurrent(has_recurrent(model));
  }

  std::string text() {
    writer_.text() = "{\n";
    if (writer_.recurrent()) writer_.text() += "  _time = DynamicAxis {}\n";
    std::map<std::string, Tensor> inputs;
    for (const auto& r : model_.inputs) inputs[r.layer] = input(model_.layer(r.layer));
    Translation layers(writer_, model_, inputs);
    for (const auto& r : model_.outputs) outputs_.push_back(layers.tensor(r));
    criteria();
    return writer_.text() + "}\n";
  }

 private:
  // The Embedding that reads this input, if there is one: the inputs are then indices.
  const Layer* embedding(const Layer& in) const {
    for (const auto& l : model_.layers)
      for (const auto& a : l.applications)
        for (const auto& r : a)
          if (r.layer == in.name && l.kind == "Embedding") return &l;
    return nullptr;
  }

  Tensor input(const Layer& l) {
    Tensor t;
    const std::string name = model_.inputs.size() == 1 ? options_.features : l.name;
    if (const Layer* table = embedding(l)) {
      const YAML::Node words = setting(*table, {"input_dim"});
      if (!words) fail(*table, "has no input_dim");
      t.sequence = true;
      t.shape = {words.as<std::size_t>()};
    } else {
      t.shape = input_shape(l, t.sequence);
    }
    const bool sparse = embedding(l) || (setting(l, {"sparse"}) && setting(l, {"sparse"}).as<bool>());
    if (t.shape.size() > 1 && !options_.image_layout.empty()) arrange(l, t);
    t.name = writer_.define(name, fmt::format("{}Input {{({}){}}}", sparse ? "Sparse" : "", dims_text(t),
                                              t.sequence ? ", dynamicAxis=_time" : ""));
    if (t.name != name)
      fail(l, fmt::format("'{}' cannot be the name of an input", name),
           "choose one in KerasNetworkBuilder: features = \"features\"");
    features_.push_back(t.name);
    return t;
  }

  std::vector<std::size_t> input_shape(const Layer& l, bool& sequence) const {
    const YAML::Node with_batch = setting(l, {"batch_input_shape", "batch_shape"}),
                     without = setting(l, {"input_shape"});
    const YAML::Node shape = with_batch ? with_batch : without;
    if (!shape) {
      if (const YAML::Node dim = setting(l, {"input_dim"})) return {dim.as<std::size_t>()};
      fail(l, "the shape of the input is not in the file",
           "give the first layer its input_shape, or build the model before saving it");
    }
    if (!shape.IsSequence()) fail(l, "the shape of the input is no list");
    const std::size_t batch = with_batch ? 1 : 0;
    sequence = writer_.recurrent() && shape.size() >= batch + 2;
    return shape_of(l, shape, batch + (sequence ? 1 : 0));
  }

  // The reader decides whether images have the axes in Keras' order.
  void arrange(const Layer& l, Tensor& t) const {
    bool last = true;
    for (const auto& layer : model_.layers)
      if (const YAML::Node format = setting(layer, {"data_format", "dim_ordering"}))
        last = format.Scalar() != "channels_first" && format.Scalar() != "th";
    if (options_.image_layout != "CHW" && options_.image_layout != "HWC")
      fail(l, fmt::format("there is no imageLayout '{}'", options_.image_layout), "it is CHW or HWC");
    if (options_.image_layout == "HWC" && !last)
      fail(l, "the model has the channels first, so images must come as CHW", "leave imageLayout out");
    t.reordered = options_.image_layout == "CHW" && last;
  }

  std::string loss_of(const Tensor& y) const {
    std::string loss = options_.loss;
    if (loss.empty())
      loss = !y.before_softmax.empty()   ? "categorical_crossentropy"
             : !y.before_sigmoid.empty() ? "binary_crossentropy"
                                         : "mse";
    if (loss == "sparse_categorical_crossentropy") loss = "categorical_crossentropy";
    if (loss == "mean_squared_error") loss = "mse";
    return loss;
  }

  void criteria() {
    std::vector<std::string> losses, errors, label_names, all;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      Tensor& y = outputs_[i];
      const Layer& last = model_.layer(model_.outputs[i].layer);
      if (y.shape.size() != 1 || !y.padding.empty())
        fail(last, "the output must be a vector", "flatten it, or pool it globally");
      const std::string own = outputs_.size() == 1 ? options_.labels : fmt::format("{}_{}", options_.labels, last.name);
      const std::string labels =
          writer_.define(own, fmt::format("Input {{{}{}}}", y.shape[0], y.sequence ? ", dynamicAxis=_time" : ""));
      if (i == 0) writer_.text() += fmt::format("  _labels = {}\n", labels);
      label_names.push_back(labels), all.push_back(y.name);
      const std::string suffix = outputs_.size() == 1 ? "" : "_" + last.name;
      const std::string loss = loss_of(y);
      if (loss == "categorical_crossentropy") {
        const bool raw = !y.before_softmax.empty();
        const std::string& z = raw ? y.before_softmax : y.name;
        losses.push_back(writer_.define(
            "loss" + suffix, fmt::format("{} ({}, {})", raw ? "CrossEntropyWithSoftmax" : "CrossEntropy", labels, z)));
        errors.push_back(writer_.define("errs" + suffix, fmt::format("ClassificationError ({}, {})", labels, z)));
      } else if (loss == "binary_crossentropy") {
        losses.push_back(writer_.define("loss" + suffix, fmt::format("Logistic ({}, {})", labels, y.name)));
        errors.push_back(
            writer_.define("errs" + suffix, fmt::format("SquareError ({}, Greater ({}, 0.5))", labels, y.name)));
      } else if (loss == "mse") {
        const double scale = 1 / std::sqrt(static_cast<double>(y.shape[0]));
        losses.push_back(writer_.define("loss" + suffix,
                                        fmt::format("SquareError ({0} .* {1}, {0} .* {2})", scale, labels, y.name)));
      } else {
        fail(last, fmt::format("the loss '{}' is not known here", loss),
             "there are categorical_crossentropy, binary_crossentropy and mse");
      }
    }
    const std::string sum =
        outputs_.size() > 1 ? writer_.define("loss", fmt::format("{}", fmt::join(losses, " + "))) : losses[0];
    writer_.text() +=
        fmt::format("  featureNodes = ({})\n  labelNodes = ({})\n  criterionNodes = ({})\n  outputNodes = ({})\n",
                    fmt::join(features_, " : "), fmt::join(label_names, " : "), sum, fmt::join(all, " : "));
    if (!errors.empty()) writer_.text() += fmt::format("  evaluationNodes = ({})\n", fmt::join(errors, " : "));
  }

  const Model& model_;
  const Options& options_;
  Writer writer_;
  std::vector<std::string> features_;
  std::vector<Tensor> outputs_;
};

// Samples of a minibatch, from the SGD block where there is one.
std::int64_t minibatch_of(const config::Record& command) {
  std::int64_t n = 256;
  if (!command.is_block("SGD")) return n;
  const auto sizes = command.block("SGD").strings("minibatchSize");
  if (!sizes.empty()) std::from_chars(sizes[0].data(), sizes[0].data() + sizes[0].size(), n);
  return std::max<std::int64_t>(n, 1);
}

}  // namespace

graph::Graph build(const Options& options, const config::Record& command, const BuildContext& context) {
  const Model model = read_model(command.block("KerasNetworkBuilder").value("file"));
  std::string text;
  try {
    text = Description(model, options, minibatch_of(command), context).text();
  } catch (const YAML::Exception& e) {
    throw ConfigError({model.source, static_cast<std::size_t>(std::max(e.mark.pos, 0)), 1},
                      fmt::format("a setting of the model cannot be understood: {}", e.msg));
  }
  const auto source = std::make_shared<Source>(Source{fmt::format("<network of {}>", options.file), text, nullptr});
  graph::Graph graph = build_network(NetworkText{{text, source, 0, false}, {}, {}}, context);
  for (graph::Node& node : graph.nodes)
    if (node.operation == "Convolution" || node.operation == "Pooling")
      node.attributes[graph::fits_padded_image] = true;
  return graph;
}

}  // namespace tutti::brainscript::keras
