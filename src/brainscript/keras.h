// SPDX-License-Identifier: Apache-2.0
// keras.h -- KerasNetworkBuilder: the architecture of a Keras model, as Keras writes it in JSON, becomes a network. The
// file is read (keras_model.cpp), every layer is written as definitions of the network language (keras_layers.cpp,
// with library_keras.cpp), and inputs, labels and criteria are put around them (keras.cpp).
#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/builder.h"

namespace tutti::brainscript::keras {

struct Options {
  std::string file, loss, features = "features", labels = "labels", image_layout;
  void describe(config::Fields&);
};

// The output of a layer; a layer that is applied several times has several.
struct Reference {
  std::string layer;
  std::size_t application = 0;
};

struct Layer {
  std::string name, kind;  // Keras' name and class
  YAML::Node config;
  std::vector<std::vector<Reference>> applications;  // what each application reads
  SourcePos where;
};

struct Model {
  std::string name;
  std::vector<Layer> layers;
  std::vector<Reference> inputs, outputs;
  std::shared_ptr<const Source> source;
  const Layer& layer(const std::string& name) const;
};

// `file` may be named in the config, at `named_at`.
Model read_model(const std::string& file, const SourcePos& named_at);
// A model that stands as a layer in another one.
Model inner_model(const Layer&, const std::shared_ptr<const Source>&);

// What a definition stands for. Shapes are Keras' own, without the axis of samples and, of sequences, that of time.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  bool sequence = false;
  // An image whose axes have been put in the order of this program (width, height, ..., channels) although Keras has
  // the channels last; see `as_image`.
  bool reordered = false;
  bool not_negative = false;
  std::vector<std::pair<std::size_t, std::size_t>> padding;  // zeros around the image that the next layer adds itself
  std::string before_softmax, before_sigmoid;                // the same without the last activation
};

// Collects the text of the network. Layers write their parameters once, applications as often as they occur.
class Writer {
 public:
  Writer(std::int64_t minibatch, config::Notices* notices) : minibatch_(minibatch), notices_(notices) {}

  // name = expression; the name is made unique.
  std::string define(const std::string& name, const std::string& expression);
  // The function of a layer: written at its first use.
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

// A setting of a layer under one of its names (Keras 1 and later ones differ), or a null node.
YAML::Node setting(const Layer&, std::initializer_list<const char*> names);
[[noreturn]] void fail(const Layer&, std::string message, std::string fix = {});
std::vector<std::size_t> shape_of(const Layer&, const YAML::Node& shape, std::size_t leave_out);
bool is_recurrent(const std::string& kind);

// One application of a layer that is no model itself.
Tensor apply(Writer&, const Layer&, const std::vector<Tensor>& inputs);
// An image in this program's order, and back in Keras' own.
Tensor as_image(Writer&, const Layer&, Tensor, bool channels_last);
Tensor as_in_keras(Writer&, const Tensor&);
std::string dims_text(const Tensor&);  // of the definition

graph::Graph build(const config::Record& command, const BuildContext&);

}  // namespace tutti::brainscript::keras
