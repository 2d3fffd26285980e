// SPDX-License-Identifier: Apache-2.0
// Keras layers on images.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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
  return Sizes(x.shape.rbegin() + (last ? 1 : 0), x.shape.rend() - (last ? 0 : 1));
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
    if (const std::size_t most = std::max(v.lower[a], v.upper[a]); most >= v.kernel[a])
      fail(l, fmt::format("its padding of {} is not less than its window of {}", most, v.kernel[a]),
           "every window must overlap the image: pad less, or use a larger window");
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
  const Sizes kernel = per_axis(l, {"kernel_size"}, rank, {},
                                rank == 1   ? Names{"filter_length"}
                                : rank == 2 ? Names{"nb_row", "nb_col"}
                                            : Names{"kernel_dim1", "kernel_dim2", "kernel_dim3"});
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
