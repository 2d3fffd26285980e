// SPDX-License-Identifier: Apache-2.0
// Keras layers on images and on sequences.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "brainscript/keras.h"

namespace tutti::brainscript::keras {
namespace {

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

// 'same' puts the odd pixel of the padding behind the image.
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

}  // namespace

Tensor convolution(Writer& w, const Layer& l, const Inputs& in) {
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
  Tensor y = made(w, l, x, fmt::format("{} ({})", f, x.name), "_sum");
  y.padding.clear();
  y.shape = keras_shape(v.out, filters, last);
  return activate(w, l, y, activation_name(l, {"activation"}, "linear"));
}

Tensor pooling(Writer& w, const Layer& l, const Inputs& in) {
  const std::size_t rank = rank_of(l);
  const bool last = channels_last(l), maximum = l.kind.starts_with("Max");
  const Tensor x = image_input(w, l, in, rank, last);
  if (!x.padding.empty() && !(maximum && x.not_negative)) need_no_padding(l, x);
  const Sizes size = per_axis(l, {"pool_size", "pool_length"}, rank, Sizes(rank, 2));
  const Window v = window(l, x, size, per_axis(l, {"strides", "stride"}, rank, size), last);
  Tensor y = made(w, l, x,
                  fmt::format("{}PoolingLayer {{({}), {}}} ({})", maximum ? "Max" : "Average", fmt::join(v.kernel, ":"),
                              v.text(), x.name));
  y.not_negative = x.not_negative;
  y.padding.clear();
  y.shape = keras_shape(v.out, last ? x.shape.back() : x.shape.front(), last);
  return y;
}

Tensor global_pooling(Writer& w, const Layer& l, const Inputs& in) {
  const bool last = channels_last(l);
  const Tensor x = image_input(w, l, in, rank_of(l), last);
  need_no_padding(l, x);
  const std::size_t channels = last ? x.shape.back() : x.shape.front();
  const char* kind = l.kind.starts_with("GlobalMax") ? "max" : "average";
  const std::string pooled =
      fmt::format("Pooling ({}, '{}', ({}), autoPadding=false)", x.name, kind, fmt::join(image_of(x, last), ":"));
  if (flag(l, {"keepdims"}, false)) fail(l, "keepdims is not known here", "put a Reshape behind it");
  Tensor y = made(w, l, x, fmt::format("NewReshape ({}, {})", pooled, channels));
  y.shape = {channels};
  y.reordered = false;
  return y;
}

Tensor zero_padding(Writer& w, const Layer& l, const Inputs& in) {
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

// ---- layers on sequences

namespace {

struct Recurrent {
  std::string function;
  std::size_t units = 0;
  bool sequences = false, backwards = false;
};

// The bias of a layer with `gates` blocks as an array, or 0 where there is none. Block `one`, if it is one of them,
// begins at 1.
std::string bias_text(const Layer& l, std::size_t units, std::size_t gates, std::size_t one) {
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
  const std::string activation = activation_function(activation_name(l, {"activation"}, "tanh"));
  const std::string gate = activation_function(
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
    r.function = w.function(l, fmt::format("_Keras.Lstm {{{}, ({}), {}, {}, {}, {}}}", r.units,
                                           bias_text(l, r.units, 4, forget ? 2 : 4), activation, gate, weights, plain));
  } else if (kind == "GRU") {
    r.function =
        w.function(l, fmt::format("_Keras.Gru {{{}, ({}), {}, {}, {}, {}, {}}}", r.units, bias_text(l, r.units, 3, 3),
                                  activation, gate, weights, flag(l, {"reset_after"}, l.kind != kind), plain));
  } else {
    r.function = w.function(l, fmt::format("_Keras.Simple {{{}, ({}), {}, {}}}", r.units, bias_text(l, r.units, 1, 1),
                                           activation, weights));
  }
  return r;
}

Tensor recurrent_input(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = only(l, in);
  if (!x.sequence || x.shape.size() != 1)
    fail(l, "needs sequences of vectors", "the layer in front must give sequences: return_sequences = true");
  const double rate = number(l, {"dropout", "dropout_W"}, 0);
  return rate > 0 ? made(w, l, x, fmt::format("Dropout ({}, rate={})", x.name, rate), "_input") : x;
}

// The states of all steps, or the last one where the layer gives no sequences. `turned`: it runs the other way.
Tensor states(Writer& w, const Layer& l, const Inputs& in, bool turned, bool* backwards = nullptr) {
  const Tensor x = recurrent_input(w, l, in);
  const Recurrent r = recurrent_function(w, l, turned);
  if (backwards) *backwards = r.backwards;
  Tensor h = made(w, l, x, fmt::format("{} ({})", r.function, x.name), "_states");
  h.shape = {r.units};
  if (r.sequences) return h;
  h.sequence = false;
  h.name = w.define(l.name + "_output", fmt::format("ReconcileDynamicAxis (BS.Sequences.{} ({}), _labels)",
                                                    r.backwards ? "First" : "Last", h.name));
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

}  // namespace

Tensor embedding(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = only(l, in);
  note_ignored(w, l);
  const std::size_t width = count(l, {"output_dim"});
  const std::string f = w.function(l, fmt::format("EmbeddingLayer {{{}, {}}}", width,
                                                  initial(l, {"embeddings_initializer", "init"}, "uniform").text(l)));
  Tensor y = made(w, l, x, fmt::format("{} ({})", f, x.name));
  y.shape = {width};
  return y;
}

Tensor recurrent(Writer& w, const Layer& l, const Inputs& in) {
  bool backwards = false;
  Tensor h = states(w, l, in, false, &backwards);
  // Keras returns the states of a reversed layer in the order in which it computed them.
  if (h.sequence && backwards) h.name = w.define(l.name + "_output", fmt::format("TimeReverse ({})", h.name));
  return h;
}

Tensor bidirectional(Writer& w, const Layer& l, const Inputs& in) {
  const Layer ahead = inner_layer(l, "forward"), back = inner_layer(l, "backward");
  if (!is_recurrent(ahead.kind) || ahead.kind == "Bidirectional")
    fail(l, fmt::format("cannot turn a {} around", ahead.kind));
  const std::string mode = text(l, {"merge_mode"}, "concat");
  const Tensor first = states(w, ahead, in, false), second = states(w, back, in, true);
  return merged(w, l, {first, second}, mode, -1);
}

Tensor time_distributed(Writer& w, const Layer& l, const Inputs& in) {
  Layer inner = inner_layer(l, "");
  if (!only(l, in).sequence) fail(l, "needs sequences");
  Tensor step = in[0];
  step.sequence = false;
  step = apply(w, inner, {step});
  step.sequence = true;
  return step;
}

}  // namespace tutti::brainscript::keras
