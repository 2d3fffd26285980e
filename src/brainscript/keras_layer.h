// SPDX-License-Identifier: Apache-2.0
// keras_layer.h -- what the functions that write layers share: settings, initial values, activations
// (keras_settings.cpp), and the layers by their kind (keras_layers.cpp, keras_images.cpp, keras_sequences.cpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brainscript/keras.h"

namespace tutti::brainscript::keras {

using Names = std::initializer_list<const char*>;
using Sizes = std::vector<std::size_t>;

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
Tensor named(Tensor, std::string name);
void need_no_padding(const Layer&, const Tensor&);
const Tensor& only(const Layer&, const std::vector<Tensor>&);
Tensor one_vector(Writer&, const Layer&, const std::vector<Tensor>&);

using Inputs = std::vector<Tensor>;
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

}  // namespace tutti::brainscript::keras
