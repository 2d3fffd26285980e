// SPDX-License-Identifier: Apache-2.0
// keras.h -- KerasNetworkBuilder: builds a network from the architecture of a Keras model in JSON. The file is parsed
// (keras_model.cpp), every layer is written as definitions of BrainScript (keras_layers.cpp, keras_images.cpp,
// keras_sequences.cpp, with library_builders.cpp), and inputs, labels and criteria are added (keras.cpp).
#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/builder.h"

namespace tutti::brainscript::keras {

struct Options {
  std::string file, loss, features = "features", labels = "labels", image_layout;
  void describe(config::Fields&);
};

// The output of a layer; a layer that is applied several times has several outputs.
struct Reference {
  std::string layer;
  std::size_t application = 0;
};

struct Layer {
  std::string name, kind;  // Keras' name and class
  YAML::Node config;
  std::vector<std::vector<Reference>> applications;  // the inputs of each application
  SourcePos where;
};

struct Model {
  std::string name;
  std::vector<Layer> layers;
  std::vector<Reference> inputs, outputs;
  std::shared_ptr<const Source> source;
  const Layer& layer(const std::string& name) const;
};

Model read_model(const config::Value& file);
// A model used as a layer of another one.
Model inner_model(const Layer&, const std::shared_ptr<const Source>&);

// The value of a definition. Shapes are those of Keras, without the axes of samples and of time.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  bool sequence = false;
  // An image whose axes were brought into the order of this program (width, height, ..., channels), although Keras has
  // the channels last; see `as_image`.
  bool reordered = false;
  bool not_negative = false;
  std::vector<std::pair<std::size_t, std::size_t>> padding;  // padding of the image, added by the next layer itself
  std::string before_softmax, before_sigmoid;                // the same without the last activation
};

// Collects the text of the network. Layers write their parameters once, and an application for each use.
class Writer {
 public:
  Writer(std::int64_t minibatch, config::Notices* notices) : minibatch_(minibatch), notices_(notices) {}

  // name = expression; makes the name unique.
  std::string define(const std::string& name, const std::string& expression);
  // The function of a layer, written at its first use.
  std::string function(const Layer&, const std::string& expression);
  void notice(const Layer&, const std::string& what);
  std::int64_t minibatch() const { return minibatch_; }
  bool recurrent() const { return recurrent_; }
  void set_recurrent(bool yes) { recurrent_ = yes; }
  std::string& text() { return text_; }
  std::string prefix;  // of layers in an inner model

 private:
  std::string unique(const std::string& name);
  std::string text_;
  std::map<std::string, int> names_;
  std::map<std::string, std::string> functions_;
  std::int64_t minibatch_;
  config::Notices* notices_;
  bool recurrent_ = false;
};

// A setting of a layer under one of its names (Keras 1 and later differ), or a null node.
using Names = std::initializer_list<const char*>;
using Sizes = std::vector<std::size_t>;
YAML::Node setting(const Layer&, Names);
[[noreturn]] void fail(const Layer&, std::string message, std::string fix = {});
std::vector<std::size_t> shape_of(const Layer&, const YAML::Node& shape, std::size_t leave_out);
bool is_recurrent(const std::string& kind);

// One application of a layer that is not a model itself.
Tensor apply(Writer&, const Layer&, const std::vector<Tensor>& inputs);
// Converts an image to this program's order, and back to that of Keras.
Tensor as_image(Writer&, const Layer&, Tensor, bool channels_last);
Tensor as_in_keras(Writer&, const Tensor&);
std::string dims_text(const Tensor&);  // of the definition

// Settings under the first of the names that is there; an error without one, unless `otherwise` stands in.
double number(const Layer&, Names, std::optional<double> otherwise = {});
std::size_t count(const Layer&, Names, std::optional<double> otherwise = {});
bool flag(const Layer&, Names, bool otherwise);
std::string text(const Layer&, Names, const std::string& otherwise);
// "ReLU" or { class_name: "ReLU", ... } or { class_name: "function", config: "relu" }, in small letters without '_'.
std::string plain_name(const YAML::Node&);

struct Initial {
  std::string init;
  double scale = 1, value = 0;
  std::string text(const Layer&) const;  // as arguments of a layer
};
Initial initial(const Layer&, Names, const std::string& otherwise);
double constant_initial(const Layer&, Names);

// Keras' name of an activation, and the function of the network language.
std::string activation_name(const Layer&, Names, const std::string& otherwise);
const std::string& activation_function(const std::string& name);
Tensor activate(Writer&, const Layer&, Tensor, const std::string& name);

// Everything that Keras can add to a layer's loss or gradient and that is not done here is said.
void note_ignored(Writer&, const Layer&);
using Inputs = std::vector<Tensor>;
// The value `expression` in the shape of x. `suffix` is that of the definition's name.
Tensor made(Writer&, const Layer&, const Tensor& x, const std::string& expression, const char* suffix = "_output");
void need_no_padding(const Layer&, const Tensor&);
const Tensor& only(const Layer&, const Inputs&);
const Tensor& unpadded(const Layer&, const Inputs&);  // the only input
Tensor one_vector(Writer&, const Layer&, const Inputs&);

Tensor merged(Writer&, const Layer&, Inputs, const std::string& mode, long axis);
// keras_images.cpp
Tensor convolution(Writer&, const Layer&, const Inputs&);
Tensor pooling(Writer&, const Layer&, const Inputs&);
Tensor global_pooling(Writer&, const Layer&, const Inputs&);
Tensor zero_padding(Writer&, const Layer&, const Inputs&);
// keras_sequences.cpp
Tensor embedding(Writer&, const Layer&, const Inputs&);
Tensor recurrent(Writer&, const Layer&, const Inputs&);
Tensor bidirectional(Writer&, const Layer&, const Inputs&);
Tensor time_distributed(Writer&, const Layer&, const Inputs&);

graph::Graph build(const Options&, const config::Record& command, const BuildContext&);

}  // namespace tutti::brainscript::keras
