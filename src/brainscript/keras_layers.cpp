// SPDX-License-Identifier: Apache-2.0
// The layers of Keras, each as definitions of the network language. One function per kind of layer, one table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "brainscript/keras.h"

namespace tutti::brainscript::keras {
namespace {

using Names = std::initializer_list<const char*>;
using Sizes = std::vector<std::size_t>;

double number(const Layer& l, Names names, std::optional<double> otherwise = {}) {
  const YAML::Node n = setting(l, names);
  if (!n && otherwise) return *otherwise;
  if (!n || !n.IsScalar()) fail(l, fmt::format("has no '{}'", *names.begin()));
  return n.as<double>();
}
std::size_t count(const Layer& l, Names names, std::optional<double> otherwise = {}) {
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

// "ReLU" or { class_name: "ReLU", ... } or { class_name: "function", config: "relu" }, in small letters without '_'.
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

struct Initial {
  std::string init;
  double scale = 1, value = 0;
  std::string text(const Layer& l) const {
    if (init == "fixedValue" && value != 0) fail(l, fmt::format("its weights cannot begin with {} everywhere", value));
    return init == "fixedValue" ? "init='zero'" : fmt::format("init='{}', initValueScale={}", init, scale);
  }
};

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
    if (low != -high) fail(l, fmt::format("initial values from {} to {} are not centred at 0", low, high));
    i.scale = high / 0.05;
  }
  return i;
}

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
  Tensor y = x;
  y.before_softmax = name == "softmax" ? x.name : "";
  y.before_sigmoid = name == "sigmoid" ? x.name : "";
  y.not_negative = name == "relu" || name == "relu6" || name == "sigmoid" || name == "softmax";
  y.name = w.define(l.name + "_output", fmt::format("{} ({})", activations().at(name), x.name));
  return y;
}

// Everything that Keras can add to a layer's loss or gradient and that is not done here is said.
void note_ignored(Writer& w, const Layer& l) {
  for (const char* key : {"kernel_regularizer", "W_regularizer", "recurrent_regularizer", "U_regularizer",
                          "bias_regularizer", "b_regularizer", "activity_regularizer", "kernel_constraint",
                          "W_constraint", "bias_constraint", "b_constraint", "recurrent_constraint"})
    if (setting(l, {key}))
      w.notice(l, fmt::format("'{}' has no effect; L2RegWeight and L1RegWeight of SGD hold for all weights", key));
}

Tensor named(Tensor t, std::string name) {
  t.name = std::move(name);
  t.not_negative = false;
  t.before_softmax.clear(), t.before_sigmoid.clear();
  return t;
}

void need_no_padding(const Layer& l, const Tensor& x) {
  if (!x.padding.empty())
    fail(l, "cannot follow zero padding here", "let a convolution follow, or a pooling behind ReLU");
}

const Tensor& only(const Layer& l, const std::vector<Tensor>& in) {
  if (in.size() != 1) fail(l, fmt::format("takes one input, not {}", in.size()));
  return in[0];
}

Tensor one_vector(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  need_no_padding(l, only(l, in));
  return as_in_keras(w, in[0]);
}

// ---- dense and elementwise layers

Tensor dense(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor x = one_vector(w, l, in);
  note_ignored(w, l);
  const std::size_t units = count(l, {"units", "output_dim"});
  const bool bias = flag(l, {"use_bias", "bias"}, true);
  const std::string f =
      w.function(l, fmt::format("LinearLayer {{{}, bias={}, {}, inputRank=1, initBias={}}}", units, bias,
                                initial(l, {"kernel_initializer", "init"}, "glorot_uniform").text(l),
                                constant_initial(l, {"bias_initializer"})));
  Tensor y = named(x, w.define(l.name + "_sum", fmt::format("{} ({})", f, x.name)));
  y.shape.back() = units;
  return activate(w, l, y, activation_name(l, {"activation"}, "linear"));
}

Tensor activation(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  need_no_padding(l, only(l, in));
  return activate(w, l, in[0], activation_name(l, {"activation"}, "linear"));
}

Tensor dropout(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor& x = only(l, in);
  need_no_padding(l, x);
  const double rate = number(l, {"rate", "p"});
  if (!(rate >= 0 && rate < 1)) fail(l, fmt::format("rate = {} is no probability", rate), "rates are in [0, 1)");
  if (rate == 0) return x;
  Tensor y = x;
  y.name = w.define(l.name + "_output", fmt::format("Dropout ({}, rate={})", x.name, rate));
  y.before_softmax.clear(), y.before_sigmoid.clear();
  return y;
}

Tensor pass(Writer&, const Layer& l, const std::vector<Tensor>& in) { return only(l, in); }

Tensor flatten(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
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

Tensor reshape(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  Tensor x = one_vector(w, l, in);
  const YAML::Node target = setting(l, {"target_shape"});
  if (!target || !target.IsSequence()) fail(l, "has no target_shape");
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

Tensor leaky(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor& x = only(l, in);
  need_no_padding(l, x);
  return named(x, w.define(l.name + "_output",
                           fmt::format("_Keras.Leaky ({}, {})", x.name, number(l, {"alpha", "negative_slope"}, 0.3))));
}

Tensor elu(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor& x = only(l, in);
  need_no_padding(l, x);
  return named(x, w.define(l.name + "_output", fmt::format("_Keras.Elu ({}, {})", x.name, number(l, {"alpha"}, 1))));
}

Tensor relu(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor& x = only(l, in);
  need_no_padding(l, x);
  if (number(l, {"threshold"}, 0) != 0) fail(l, "a threshold is not known here");
  const double slope = number(l, {"negative_slope"}, 0), most = number(l, {"max_value"}, -1);
  if (slope != 0 && most >= 0) fail(l, "negative_slope together with max_value is not known here");
  Tensor y = named(x, w.define(l.name + "_output", most >= 0    ? fmt::format("_Keras.Capped ({}, {})", x.name, most)
                                                   : slope != 0 ? fmt::format("_Keras.Leaky ({}, {})", x.name, slope)
                                                                : fmt::format("ReLU ({})", x.name)));
  y.not_negative = slope == 0;
  return y;
}

Tensor prelu(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor x = one_vector(w, l, in);
  note_ignored(w, l);
  Tensor alpha = x;
  if (const YAML::Node shared = setting(l, {"shared_axes"}))
    for (const auto& axis : shared)
      if (const auto a = axis.as<std::size_t>(); a >= 1 && a <= alpha.shape.size()) alpha.shape[a - 1] = 1;
  const Initial i = initial(l, {"alpha_initializer", "init"}, "zeros");
  const std::string f =
      w.function(l, fmt::format("_Keras.Prelu {{({}), '{}', {}, {}}}", dims_text(alpha), i.init, i.scale, i.value));
  return named(x, w.define(l.name + "_output", fmt::format("{} ({})", f, x.name)));
}

Tensor softmax(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  need_no_padding(l, only(l, in));
  return activate(w, l, in[0], "softmax");
}

Tensor normalization(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  Tensor x = only(l, in);
  need_no_padding(l, x);
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
  const std::string f = w.function(
      l, fmt::format("_Keras.Normalization {{{}, {}, {}, {}, {}, {}}}", dims, rank > 1, flag(l, {"scale"}, true),
                     flag(l, {"center"}, true), constant, number(l, {"epsilon"}, 1e-3)));
  return named(x, w.define(l.name + "_output", fmt::format("{} ({})", f, x.name)));
}

// ---- images

bool channels_last(const Layer& l) {
  const std::string format = text(l, {"data_format", "dim_ordering"}, "channels_last");
  if (format == "channels_last" || format == "tf" || format == "default") return true;
  if (format == "channels_first" || format == "th") return false;
  fail(l, fmt::format("there is no data_format '{}'", format), "it is channels_last or channels_first");
}

// One number for each axis of the image, in this program's order (width first).
Sizes per_axis(const Layer& l, Names names, std::size_t rank, const Sizes& otherwise, const Names& single = {}) {
  YAML::Node n = setting(l, names);
  if (!n && single.size() > 0) {  // Keras 1: a setting for each axis
    Sizes all;
    for (const char* name : single)
      if (const YAML::Node one = setting(l, {name})) all.push_back(one.as<std::size_t>());
    if (all.size() == rank) return {all.rbegin(), all.rend()};
  }
  if (!n) {
    if (otherwise.empty()) fail(l, fmt::format("has no '{}'", *names.begin()));
    return otherwise;
  }
  if (n.IsScalar()) return Sizes(rank, n.as<std::size_t>());
  if (n.size() != rank) fail(l, fmt::format("'{}' needs {} numbers", *names.begin(), rank));
  Sizes all;
  for (std::size_t i = rank; i > 0; --i) all.push_back(n[i - 1].as<std::size_t>());
  for (const auto s : all)
    if (s == 0) fail(l, fmt::format("'{}' has a 0", *names.begin()));
  return all;
}

struct Window {
  Sizes kernel, stride, lower, upper, out;
  std::string text() const {
    return fmt::format("stride=({}), pad=false, lowerPad=({}), upperPad=({})", fmt::join(stride, ":"),
                       fmt::join(lower, ":"), fmt::join(upper, ":"));
  }
};

// Sizes of the image in this program's order.
Sizes image_of(const Tensor& x, bool last) {
  Sizes image(x.shape.rbegin() + (last ? 1 : 0), x.shape.rend() - (last ? 0 : 1));
  return image;
}
Sizes keras_shape(const Sizes& image, std::size_t channels, bool last) {
  Sizes shape(image.rbegin(), image.rend());
  shape.insert(last ? shape.end() : shape.begin(), channels);
  return shape;
}

// 'same' puts the odd cell of the padding behind the image.
Window window(const Layer& l, const Tensor& x, Sizes kernel, Sizes stride, bool last) {
  Window v{std::move(kernel), std::move(stride), {}, {}, {}};
  const std::string padding = text(l, {"padding", "border_mode"}, "valid");
  if (padding != "valid" && padding != "same")
    fail(l, fmt::format("padding '{}' is not known here", padding), "use valid or same");
  const Sizes image = image_of(x, last);
  for (std::size_t a = 0; a < image.size(); ++a) {
    const auto [before, behind] = x.padding.empty() ? std::pair<std::size_t, std::size_t>{} : x.padding[a];
    const std::size_t in = image[a] + before + behind;
    std::size_t lower = 0, upper = 0, out = 0;
    if (padding == "same") {
      out = (in + v.stride[a] - 1) / v.stride[a];
      const std::size_t covered = (out - 1) * v.stride[a] + v.kernel[a], total = covered > in ? covered - in : 0;
      lower = total / 2, upper = total - lower;
    } else {
      if (v.kernel[a] > in) fail(l, fmt::format("its window of {} is larger than the image of {}", v.kernel[a], in));
      out = (in - v.kernel[a]) / v.stride[a] + 1;
    }
    v.lower.push_back(lower + before), v.upper.push_back(upper + behind), v.out.push_back(out);
  }
  return v;
}

Tensor image_input(Writer& w, const Layer& l, const std::vector<Tensor>& in, std::size_t rank, bool last) {
  const Tensor& x = only(l, in);
  if (x.shape.size() != rank + 1)
    fail(l, fmt::format("takes images with {} axes, not {}", rank + 1, x.shape.size()),
         x.sequence ? "convolutions along time are not known here where the model has recurrent layers" : "");
  return as_image(w, l, x, last);
}

std::size_t rank_of(const Layer& l) {
  const auto digit = std::find_if(l.kind.begin(), l.kind.end(), [](char c) { return c >= '1' && c <= '3'; });
  return digit == l.kind.end() ? 2 : static_cast<std::size_t>(*digit - '0');
}

Tensor convolution(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const std::size_t rank = rank_of(l);
  const bool last = channels_last(l), by_channel = l.kind.starts_with("Depthwise");
  const Tensor x = image_input(w, l, in, rank, last);
  note_ignored(w, l);
  const std::size_t channels = last ? x.shape.back() : x.shape.front();
  Sizes kernel;
  if (rank == 1)
    kernel = per_axis(l, {"kernel_size"}, 1, {}, {"filter_length"});
  else if (rank == 2)
    kernel = per_axis(l, {"kernel_size"}, 2, {}, {"nb_row", "nb_col"});
  else
    kernel = per_axis(l, {"kernel_size"}, 3, {}, {"kernel_dim1", "kernel_dim2", "kernel_dim3"});
  for (const auto d : per_axis(l, {"dilation_rate", "atrous_rate"}, rank, Sizes(rank, 1)))
    if (d != 1) fail(l, "dilated convolutions are not known here");
  const Window v =
      window(l, x, kernel, per_axis(l, {"strides", "subsample", "subsample_length"}, rank, Sizes(rank, 1)), last);
  const std::size_t filters =
      by_channel ? channels * count(l, {"depth_multiplier"}, 1) : count(l, {"filters", "nb_filter"});
  const std::size_t groups = by_channel ? channels : count(l, {"groups"}, 1);
  const std::string f = w.function(
      l, fmt::format("ConvolutionalLayer {{{}, ({}), bias={}, {}, initBias={}, {}, groups={}}}", filters,
                     fmt::join(v.kernel, ":"), flag(l, {"use_bias", "bias"}, true),
                     initial(l, by_channel ? Names{"depthwise_initializer"} : Names{"kernel_initializer", "init"},
                             "glorot_uniform")
                         .text(l),
                     constant_initial(l, {"bias_initializer"}), v.text(), groups));
  Tensor y = named(x, w.define(l.name + "_sum", fmt::format("{} ({})", f, x.name)));
  y.padding.clear();
  y.shape = keras_shape(v.out, filters, last);
  return activate(w, l, y, activation_name(l, {"activation"}, "linear"));
}

Tensor pooling(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const std::size_t rank = rank_of(l);
  const bool last = channels_last(l), maximum = l.kind.starts_with("Max");
  const Tensor x = image_input(w, l, in, rank, last);
  if (!x.padding.empty() && !(maximum && x.not_negative)) need_no_padding(l, x);
  const Sizes size = per_axis(l, {"pool_size", "pool_length"}, rank, Sizes(rank, 2));
  const Window v = window(l, x, size, per_axis(l, {"strides", "stride"}, rank, size), last);
  Tensor y = x;
  y.before_softmax.clear(), y.before_sigmoid.clear(), y.padding.clear();
  y.shape = keras_shape(v.out, last ? x.shape.back() : x.shape.front(), last);
  y.name = w.define(l.name + "_output", fmt::format("{}PoolingLayer {{({}), {}}} ({})", maximum ? "Max" : "Average",
                                                    fmt::join(v.kernel, ":"), v.text(), x.name));
  return y;
}

Tensor global_pooling(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const bool last = channels_last(l);
  const Tensor x = image_input(w, l, in, rank_of(l), last);
  need_no_padding(l, x);
  Tensor y = named(x, "");
  const std::size_t channels = last ? x.shape.back() : x.shape.front();
  y.shape = {channels};
  y.reordered = false;
  const char* kind = l.kind.starts_with("GlobalMax") ? "max" : "average";
  const std::string pooled =
      fmt::format("Pooling ({}, '{}', ({}), autoPadding=false)", x.name, kind, fmt::join(image_of(x, last), ":"));
  if (flag(l, {"keepdims"}, false)) fail(l, "keepdims is not known here", "put a Reshape behind it");
  y.name = w.define(l.name + "_output", fmt::format("NewReshape ({}, {})", pooled, channels));
  return y;
}

Tensor zero_padding(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const std::size_t rank = rank_of(l);
  Tensor x = image_input(w, l, in, rank, channels_last(l));
  need_no_padding(l, x);
  const YAML::Node padding = setting(l, {"padding"});
  for (std::size_t a = 0; a < rank; ++a) {
    if (!padding) {
      x.padding.emplace_back(1, 1);
    } else if (padding.IsScalar()) {
      x.padding.emplace_back(padding.as<std::size_t>(), padding.as<std::size_t>());
    } else if (rank == 1) {
      x.padding.emplace_back(padding[0].as<std::size_t>(), padding[padding.size() - 1].as<std::size_t>());
    } else if (padding.size() == rank) {  // Keras names the height first
      const YAML::Node one = padding[rank - 1 - a];
      x.padding.emplace_back((one.IsSequence() ? one[0] : one).as<std::size_t>(),
                             (one.IsSequence() ? one[1] : one).as<std::size_t>());
    } else if (padding.size() == 2 * rank) {  // Keras 1: top, bottom, left, right
      x.padding.emplace_back(padding[2 * (rank - 1 - a)].as<std::size_t>(),
                             padding[2 * (rank - 1 - a) + 1].as<std::size_t>());
    } else {
      fail(l, fmt::format("'padding' needs {} numbers", rank));
    }
  }
  return x;
}

// ---- several inputs

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
  Tensor y = named(in[0], "");
  std::string expression = in[0].name;
  if (mode == "concat") {
    const auto rank = static_cast<long>(y.shape.size());
    if (y.sequence && axis > 0) --axis;
    if (axis < 0) axis += rank + 1;
    if (axis < 1 || axis > rank) fail(l, fmt::format("cannot join along axis {}", axis));
    auto& size = y.shape[static_cast<std::size_t>(axis - 1)];
    for (std::size_t i = 1; i < in.size(); ++i)
      size += in[i].shape[static_cast<std::size_t>(axis - 1)], expression += " : " + in[i].name;
    // Axes of a definition run the other way; a reordered image has its channels last.
    const long from_front = rank - axis + 1;
    const long place = !y.reordered ? from_front : from_front == 1 ? rank : from_front - 1;
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
  y.name = w.define(l.name + "_output", expression);
  return y;
}

Tensor merge(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  static const std::map<std::string, std::string> modes = {{"Add", "sum"},      {"Concatenate", "concat"},
                                                           {"Multiply", "mul"}, {"Average", "ave"},
                                                           {"Maximum", "max"},  {"Subtract", "sub"}};
  const auto found = modes.find(l.kind);
  const std::string mode = found != modes.end() ? found->second : text(l, {"mode"}, "sum");
  return merged(w, l, in, mode, static_cast<long>(number(l, {"axis", "concat_axis"}, -1)));
}

// ---- sequences

Tensor embedding(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor& x = only(l, in);
  note_ignored(w, l);
  const std::size_t width = count(l, {"output_dim"});
  const std::string f = w.function(l, fmt::format("EmbeddingLayer {{{}, {}}}", width,
                                                  initial(l, {"embeddings_initializer", "init"}, "uniform").text(l)));
  Tensor y = named(x, w.define(l.name + "_output", fmt::format("{} ({})", f, x.name)));
  y.shape = {width};
  return y;
}

struct Recurrent {
  std::string function;
  std::size_t units = 0;
  bool sequences = false, backwards = false;
};

// The bias of a layer with `gates` blocks as an array, or 0 where there is none.
std::string bias_text(const Layer& l, std::size_t units, std::size_t gates, std::optional<std::size_t> one) {
  if (!flag(l, {"use_bias"}, true)) return "0";
  const double value = constant_initial(l, {"bias_initializer"});
  std::string all;
  for (std::size_t g = 0; g < gates; ++g)
    all += fmt::format("{}Repeat ({}, {})", g ? " : " : "", units, one == g ? 1.0 : value);
  return all;
}

Recurrent recurrent_function(Writer& w, const Layer& l, bool turned) {
  Recurrent r;
  r.units = count(l, {"units", "output_dim"});
  r.sequences = flag(l, {"return_sequences"}, false);
  r.backwards = flag(l, {"go_backwards"}, false) != turned;
  for (const char* key : {"stateful", "return_state"})
    if (flag(l, {key}, false)) fail(l, fmt::format("{} = true is not known here", key));
  for (const char* key : {"recurrent_dropout", "dropout_U"})
    if (number(l, {key}, 0) != 0)
      fail(l, "dropout inside of the recurrence is not known here", "put a Dropout layer in front");
  note_ignored(w, l);
  const std::string kind = l.kind.starts_with("CuDNN") ? l.kind.substr(5) : l.kind;
  const std::string activation = activations().at(activation_name(l, {"activation"}, "tanh"));
  const std::string gate = activations().at(
      activation_name(l, {"recurrent_activation", "inner_activation"}, l.kind == kind ? "hardsigmoid" : "sigmoid"));
  const bool plain = activation == "Tanh" && gate == "Sigmoid";
  const Initial first = initial(l, {"kernel_initializer", "init"}, "glorot_uniform");
  const Initial inner = initial(l, {"recurrent_initializer", "inner_init"}, "orthogonal");
  for (const Initial* i : {&first, &inner})
    if (i->init == "fixedValue") fail(l, "its weights cannot begin with a constant");
  const std::string weights =
      fmt::format("'{}', {}, '{}', {}, {}", first.init, first.scale, inner.init, inner.scale, r.backwards);
  if (kind == "LSTM") {
    const bool forget = setting(l, {"forget_bias_init"}) ? plain_name(setting(l, {"forget_bias_init"})) == "one"
                                                         : flag(l, {"unit_forget_bias"}, true);
    r.function =
        w.function(l, fmt::format("_Keras.Lstm {{{}, ({}), {}, {}, {}, {}}}", r.units,
                                  bias_text(l, r.units, 4, forget ? std::optional<std::size_t>(2) : std::nullopt),
                                  activation, gate, weights, plain));
  } else if (kind == "GRU") {
    r.function =
        w.function(l, fmt::format("_Keras.Gru {{{}, ({}), {}, {}, {}, {}}}", r.units, bias_text(l, r.units, 3, {}),
                                  activation, gate, weights, flag(l, {"reset_after"}, l.kind != kind)));
  } else {
    r.function = w.function(l, fmt::format("_Keras.Simple {{{}, ({}), {}, {}}}", r.units, bias_text(l, r.units, 1, {}),
                                           activation, weights));
  }
  return r;
}

Tensor recurrent_input(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  Tensor x = only(l, in);
  if (!x.sequence || x.shape.size() != 1)
    fail(l, "needs sequences of vectors", "the layer in front must give sequences: return_sequences = true");
  const double rate = number(l, {"dropout", "dropout_W"}, 0);
  if (rate > 0) x = named(x, w.define(l.name + "_input", fmt::format("Dropout ({}, rate={})", x.name, rate)));
  return x;
}

Tensor last_state(Writer& w, const Layer& l, Tensor h, bool backwards) {
  h.sequence = false;
  h.name = w.define(l.name + "_output", fmt::format("ReconcileDynamicAxis (BS.Sequences.{} ({}), _labels)",
                                                    backwards ? "First" : "Last", h.name));
  return h;
}

Tensor recurrent(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Tensor x = recurrent_input(w, l, in);
  const Recurrent r = recurrent_function(w, l, false);
  Tensor h = named(x, w.define(l.name + "_states", fmt::format("{} ({})", r.function, x.name)));
  h.shape = {r.units};
  if (!r.sequences) return last_state(w, l, h, r.backwards);
  // Keras gives the states of a reversed layer in the order in which it made them.
  if (r.backwards) h.name = w.define(l.name + "_output", fmt::format("TimeReverse ({})", h.name));
  return h;
}

Layer inner_layer(const Layer& l, const std::string& prefix) {
  const YAML::Node inner = setting(l, {"layer"});
  if (!inner || !inner.IsMap() || !inner["class_name"]) fail(l, "has no layer inside");
  Layer one;
  one.kind = inner["class_name"].Scalar();
  one.config.reset(inner["config"]);
  one.where = l.where;
  one.name = prefix.empty() ? l.name : l.name + "_" + prefix;
  return one;
}

Tensor bidirectional(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const Layer ahead = inner_layer(l, "forward"), back = inner_layer(l, "backward");
  if (!is_recurrent(ahead.kind) || ahead.kind == "Bidirectional")
    fail(l, fmt::format("cannot turn a {} around", ahead.kind));
  const std::string mode = text(l, {"merge_mode"}, "concat");
  std::vector<Tensor> both;
  for (const Layer* one : {&ahead, &back}) {
    const Tensor x = recurrent_input(w, *one, in);
    const Recurrent r = recurrent_function(w, *one, one == &back);
    Tensor h = named(x, w.define(one->name + "_states", fmt::format("{} ({})", r.function, x.name)));
    h.shape = {r.units};
    both.push_back(r.sequences ? h : last_state(w, *one, h, r.backwards));
  }
  return merged(w, l, both, mode, -1);
}

Tensor time_distributed(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  Layer inner = inner_layer(l, "");
  if (!only(l, in).sequence) fail(l, "needs sequences");
  Tensor step = in[0];
  step.sequence = false;
  step = apply(w, inner, {step});
  step.sequence = true;
  return step;
}

using Apply = Tensor (*)(Writer&, const Layer&, const std::vector<Tensor>&);
const std::map<std::string, Apply>& table() {
  static const std::map<std::string, Apply> all = {
      {"Dense", dense},
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
      {"Conv1D", convolution},
      {"Conv2D", convolution},
      {"Conv3D", convolution},
      {"DepthwiseConv2D", convolution},
      {"Convolution1D", convolution},
      {"Convolution2D", convolution},
      {"Convolution3D", convolution},
      {"MaxPooling1D", pooling},
      {"MaxPooling2D", pooling},
      {"MaxPooling3D", pooling},
      {"AveragePooling1D", pooling},
      {"AveragePooling2D", pooling},
      {"AveragePooling3D", pooling},
      {"GlobalMaxPooling1D", global_pooling},
      {"GlobalMaxPooling2D", global_pooling},
      {"GlobalMaxPooling3D", global_pooling},
      {"GlobalAveragePooling1D", global_pooling},
      {"GlobalAveragePooling2D", global_pooling},
      {"GlobalAveragePooling3D", global_pooling},
      {"ZeroPadding1D", zero_padding},
      {"ZeroPadding2D", zero_padding},
      {"ZeroPadding3D", zero_padding},
      {"Add", merge},
      {"Concatenate", merge},
      {"Multiply", merge},
      {"Average", merge},
      {"Maximum", merge},
      {"Subtract", merge},
      {"Merge", merge},
      {"Embedding", embedding},
      {"LSTM", recurrent},
      {"GRU", recurrent},
      {"SimpleRNN", recurrent},
      {"CuDNNLSTM", recurrent},
      {"CuDNNGRU", recurrent},
      {"Bidirectional", bidirectional},
      {"TimeDistributed", time_distributed},
  };
  return all;
}

}  // namespace

bool is_recurrent(const std::string& kind) {
  static const std::vector<std::string> kinds = {"LSTM",     "GRU",           "SimpleRNN",       "CuDNNLSTM",
                                                 "CuDNNGRU", "Bidirectional", "TimeDistributed", "Embedding"};
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Tensor apply(Writer& w, const Layer& l, const std::vector<Tensor>& in) {
  const auto found = table().find(l.kind);
  if (found == table().end()) {
    std::vector<std::string> known;
    for (const auto& [name, f] : table())
      if (f) known.push_back(name);
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

Tensor as_image(Writer& w, const Layer& l, Tensor x, bool last) {
  if (last == x.reordered) return x;
  if (x.reordered)
    fail(l, "takes images with the channels first, but the layer in front gives them last",
         "use one data_format in the whole model");
  for (std::size_t axis = 1; axis < x.shape.size(); ++axis)
    x.name = w.define(l.name + "_image", fmt::format("TransposeDimensions ({}, {}, {})", x.name, axis, axis + 1));
  x.reordered = true;
  return x;
}

Tensor as_in_keras(Writer& w, const Tensor& image) {
  if (!image.reordered) return image;
  Tensor x = image;
  for (std::size_t axis = x.shape.size(); axis > 1; --axis)
    x.name = w.define(image.name + "_turned", fmt::format("TransposeDimensions ({}, {}, {})", x.name, axis - 1, axis));
  x.reordered = false;
  return x;
}

}  // namespace tutti::brainscript::keras
