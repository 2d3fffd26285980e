// SPDX-License-Identifier: Apache-2.0
// The layers of Keras, each as definitions of the network language. One function per kind of layer, one table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "brainscript/keras.h"

namespace tutti::brainscript::keras {

void note_ignored(Writer& w, const Layer& l) {
  for (const char* key : {"kernel_regularizer", "W_regularizer", "recurrent_regularizer", "U_regularizer",
                          "bias_regularizer", "b_regularizer", "activity_regularizer", "kernel_constraint",
                          "W_constraint", "bias_constraint", "b_constraint", "recurrent_constraint"})
    if (setting(l, {key}))
      w.notice(l, fmt::format("'{}' has no effect; L2RegWeight and L1RegWeight of SGD hold for all weights", key));
}

Tensor merged(Writer& w, const Layer& l, std::vector<Tensor> in, const std::string& mode, long axis) {
  if (in.size() < 2) fail(l, "joins at least two inputs");
  for (auto& t : in) {
    need_no_padding(l, t);
    if (t.reordered != in[0].reordered) t = as_in_keras(w, t), in[0] = as_in_keras(w, in[0]);
    if (t.sequence != in[0].sequence || t.shape.size() != in[0].shape.size())
      fail(l, "its inputs are of different kinds");
  }
  for (auto& t : in)
    if (t.reordered != in[0].reordered) t = as_in_keras(w, t);
  std::vector<std::size_t> shape = in[0].shape;
  std::string expression = in[0].name;
  if (mode == "concat") {
    const auto rank = static_cast<long>(shape.size());
    if (in[0].sequence && axis > 0) --axis;
    if (axis < 0) axis += rank + 1;
    if (axis < 1 || axis > rank) fail(l, fmt::format("cannot join along axis {}", axis));
    auto& size = shape[static_cast<std::size_t>(axis - 1)];
    for (std::size_t i = 1; i < in.size(); ++i)
      size += in[i].shape[static_cast<std::size_t>(axis - 1)], expression += " : " + in[i].name;
    // Axes of a definition run the other way; a reordered image has its channels last.
    const long from_front = rank - axis + 1;
    const long place = !in[0].reordered ? from_front : from_front == 1 ? rank : from_front - 1;
    expression = fmt::format("Splice (({}), axis={})", expression, place);
  } else {
    static const std::map<std::string, std::string> operations = {
        {"sum", "Plus"}, {"ave", "Plus"}, {"mul", "ElementTimes"}, {"sub", "Minus"}, {"max", "_Keras.Larger"}};
    const auto found = operations.find(mode);
    if (found == operations.end()) fail(l, fmt::format("merging by '{}' is not known here", mode));
    for (std::size_t i = 1; i < in.size(); ++i)
      expression = fmt::format("{} ({}, {})", found->second, expression, in[i].name);
    if (mode == "ave") expression = fmt::format("({}) * {}", expression, 1.0 / static_cast<double>(in.size()));
  }
  Tensor y = made(w, l, in[0], expression);
  y.shape = shape;
  return y;
}

namespace {

Tensor dense(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor x = one_vector(w, l, in);
  note_ignored(w, l);
  const std::size_t units = count(l, {"units", "output_dim"});
  const bool bias = flag(l, {"use_bias", "bias"}, true);
  const std::string f =
      w.function(l, fmt::format("LinearLayer {{{}, bias={}, {}, inputRank=1, initBias={}}}", units, bias,
                                initial(l, {"kernel_initializer", "init"}, "glorot_uniform").text(l),
                                constant_initial(l, {"bias_initializer"})));
  Tensor y = made(w, l, x, fmt::format("{} ({})", f, x.name), "_sum");
  y.shape.back() = units;
  return activate(w, l, y, activation_name(l, {"activation"}, "linear"));
}

Tensor activation(Writer& w, const Layer& l, const Inputs& in) {
  return activate(w, l, unpadded(l, in), activation_name(l, {"activation"}, "linear"));
}

Tensor dropout(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = unpadded(l, in);
  const double rate = number(l, {"rate", "p"});
  if (!(rate >= 0 && rate < 1)) fail(l, fmt::format("rate cannot be {}", rate), "a rate is in [0, 1)");
  if (rate == 0) return x;
  Tensor y = made(w, l, x, fmt::format("Dropout ({}, rate={})", x.name, rate));
  y.not_negative = x.not_negative;
  return y;
}

Tensor pass(Writer&, const Layer& l, const Inputs& in) { return only(l, in); }

Tensor flatten(Writer& w, const Layer& l, const Inputs& in) {
  Tensor x = one_vector(w, l, in);
  if (x.sequence)
    fail(l, "sequences have any length here and cannot be flattened", "let a recurrent layer give its last state");
  std::size_t n = 1;
  for (const auto d : x.shape) n *= d;
  if (x.shape.size() == 1) return x;
  x.shape = {n};
  x.name = w.define(l.name + "_output", fmt::format("NewReshape ({}, {})", x.name, n));
  return x;
}

Tensor reshape(Writer& w, const Layer& l, const Inputs& in) {
  Tensor x = one_vector(w, l, in);
  const YAML::Node target = setting(l, {"target_shape"});
  if (!target || !target.IsSequence() || target.size() == 0) fail(l, "has no target_shape");
  std::size_t n = 1, known = 1;
  for (const auto d : x.shape) n *= d;
  Sizes shape;
  for (const auto& d : target) {
    const auto size = d.as<long long>();
    shape.push_back(size < 0 ? 0 : static_cast<std::size_t>(size));
    if (size > 0) known *= shape.back();
  }
  for (auto& d : shape)
    if (d == 0) d = n / known, known *= d;
  if (known != n) fail(l, fmt::format("cannot make {} elements of {}", known, n));
  x.shape = shape;
  x.name = w.define(l.name + "_output", fmt::format("NewReshape ({}, ({}))", x.name, dims_text(x)));
  return x;
}

Tensor leaky(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = unpadded(l, in);
  return made(w, l, x, fmt::format("_Keras.Leaky ({}, {})", x.name, number(l, {"alpha", "negative_slope"}, 0.3)));
}

Tensor elu(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = unpadded(l, in);
  return made(w, l, x, fmt::format("_Keras.Elu ({}, {})", x.name, number(l, {"alpha"}, 1)));
}

Tensor relu(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = unpadded(l, in);
  if (number(l, {"threshold"}, 0) != 0) fail(l, "a threshold is not known here");
  const double slope = number(l, {"negative_slope"}, 0), most = number(l, {"max_value"}, -1);
  if (slope != 0 && most >= 0) fail(l, "negative_slope together with max_value is not known here");
  Tensor y = made(w, l, x,
                  most >= 0    ? fmt::format("_Keras.Capped ({}, {})", x.name, most)
                  : slope != 0 ? fmt::format("_Keras.Leaky ({}, {})", x.name, slope)
                               : fmt::format("ReLU ({})", x.name));
  y.not_negative = slope == 0;
  return y;
}

Tensor prelu(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor x = one_vector(w, l, in);
  note_ignored(w, l);
  Tensor alpha = x;
  if (const YAML::Node shared = setting(l, {"shared_axes"}))
    for (const auto& axis : shared)
      if (const auto a = axis.as<std::size_t>(); a >= 1 && a <= alpha.shape.size()) alpha.shape[a - 1] = 1;
  const Initial i = initial(l, {"alpha_initializer", "init"}, "zeros");
  const std::string f =
      w.function(l, fmt::format("_Keras.Prelu {{({}), '{}', {}, {}}}", dims_text(alpha), i.init, i.scale, i.value));
  return made(w, l, x, fmt::format("{} ({})", f, x.name));
}

Tensor softmax(Writer& w, const Layer& l, const Inputs& in) { return activate(w, l, unpadded(l, in), "softmax"); }

Tensor normalization(Writer& w, const Layer& l, const Inputs& in) {
  Tensor x = unpadded(l, in);
  note_ignored(w, l);
  if (number(l, {"mode"}, 0) == 1) fail(l, "mode 1 is not known here", "use mode 0 or 2");
  const YAML::Node named_axis = setting(l, {"axis"});
  const auto rank = static_cast<long>(x.shape.size());
  long axis = !named_axis ? -1 : named_axis.IsSequence() ? named_axis[0].as<long>() : named_axis.as<long>();
  if (x.sequence && axis > 0) --axis;  // Keras counts the axis of time
  if (axis < 0) axis += rank + 1;
  if (rank > 1 && axis != 1 && axis != rank)
    fail(l, fmt::format("cannot normalise along axis {}", axis), "use the axis of channels");
  if (rank > 1) x = as_image(w, l, x, axis == rank);
  const double momentum = number(l, {"momentum"}, 0.99);
  if (!(momentum >= 0 && momentum < 1)) fail(l, fmt::format("momentum = {} is not in [0, 1)", momentum));
  const double constant = momentum == 0 ? 0 : -static_cast<double>(w.minibatch()) / std::log(momentum);
  const std::string dims = rank > 1 ? fmt::format("Repeat ({}, 1) : Inferred", rank - 1) : "Inferred";
  const std::string f = w.function(l, fmt::format("_Keras.Normalization {{{}, {}, {}, {}, {}, {}, {}}}", dims, rank > 1,
                                                  flag(l, {"scale"}, true), flag(l, {"center"}, true), constant,
                                                  number(l, {"epsilon"}, 1e-3), flag(l, {"synchronized"}, false)));
  return made(w, l, x, fmt::format("{} ({})", f, x.name));
}

const std::map<std::string, std::string> merge_modes = {{"Add", "sum"},      {"Concatenate", "concat"},
                                                        {"Multiply", "mul"}, {"Average", "ave"},
                                                        {"Maximum", "max"},  {"Subtract", "sub"}};

Tensor merge(Writer& w, const Layer& l, const Inputs& in) {
  const auto found = merge_modes.find(l.kind);
  const std::string mode = found != merge_modes.end() ? found->second : text(l, {"mode"}, "sum");
  return merged(w, l, in, mode, static_cast<long>(number(l, {"axis", "concat_axis"}, -1)));
}

using Apply = Tensor (*)(Writer&, const Layer&, const Inputs&);
// Layers of 1 to 3 axes have their number as a suffix.
const std::map<std::string, Apply>& table() {
  static const std::map<std::string, Apply> all = [] {
    std::map<std::string, Apply> layers = {{"Dense", dense},
                                           {"Activation", activation},
                                           {"Dropout", dropout},
                                           {"Flatten", flatten},
                                           {"Reshape", reshape},
                                           {"Masking", pass},
                                           {"ActivityRegularization", pass},
                                           {"LeakyReLU", leaky},
                                           {"ELU", elu},
                                           {"ReLU", relu},
                                           {"PReLU", prelu},
                                           {"Softmax", softmax},
                                           {"BatchNormalization", normalization},
                                           {"DepthwiseConv2D", convolution},
                                           {"Merge", merge},
                                           {"Embedding", embedding},
                                           {"Bidirectional", bidirectional},
                                           {"TimeDistributed", time_distributed}};
    for (const auto& [kind, mode] : merge_modes) layers[kind] = merge;
    for (const char* kind : {"LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU"}) layers[kind] = recurrent;
    const std::pair<const char*, Apply> of_images[] = {
        {"Conv", convolution},        {"Convolution", convolution},         {"MaxPooling", pooling},
        {"AveragePooling", pooling},  {"GlobalMaxPooling", global_pooling}, {"GlobalAveragePooling", global_pooling},
        {"ZeroPadding", zero_padding}};
    for (const auto& [kind, apply] : of_images)
      for (const char* axes : {"1D", "2D", "3D"}) layers[kind + std::string(axes)] = apply;
    return layers;
  }();
  return all;
}

}  // namespace

Tensor apply(Writer& w, const Layer& l, const Inputs& in) {
  const auto found = table().find(l.kind);
  if (found == table().end()) {
    std::vector<std::string> known;
    for (const auto& [name, f] : table()) known.push_back(name);
    const std::string near = nearest(l.kind, known);
    fail(l, "this layer is not known here",
         near.empty() ? fmt::format("there are {}", fmt::join(known, ", ")) : fmt::format("there is {}", near));
  }
  return found->second(w, l, in);
}

std::string dims_text(const Tensor& t) {
  Sizes dims(t.shape.rbegin(), t.shape.rend());
  if (t.reordered) std::rotate(dims.begin(), dims.begin() + 1, dims.end());
  return fmt::format("{}", fmt::join(dims, ":"));
}

}  // namespace tutti::brainscript::keras
