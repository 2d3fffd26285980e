// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling and normalisation. An image [width, height, channels] is (channels, height, width) in ONNX, as
// its operations want it; axes of windows are listed in reverse.
#include <algorithm>
#include <numeric>

#include "graph/image_geometry.h"
#include "interchange/onnx/node_export.h"

namespace tutti::interchange {
namespace {

using graph::ImageGeometry;

// [C, W, H], which is (H, W, C), to (C, H, W) and back; behind one axis of the batch.
std::string moved_channels(NodeExport& n, const std::string& x, std::size_t rank, bool to_front) {
  Ints axes(rank + 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (to_front)
    std::rotate(axes.begin() + 1, axes.end() - 1, axes.end());
  else
    std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return n.op("Transpose", {x}, {{"perm", axes}});
}

template <class Sizes>
Ints window_sizes(const ImageGeometry& g, const Sizes& sizes) {
  Ints reversed(g.window.rank);
  for (std::size_t axis = 0; axis < g.window.rank; ++axis)
    reversed[g.window.rank - 1 - axis] = static_cast<std::int64_t>(sizes[axis]);
  return reversed;
}

// The image as (batch, channels, ..., height, width), without the cells in front of the first window.
std::string plain_image(NodeExport& n, const OnnxOperand& x, const ImageGeometry& g) {
  Ints dims = onnx_dims(x.shape);
  if (!g.channel_axis) dims.insert(dims.begin(), 1);
  std::string image = n.together(x, dims);
  if (graph::channels_first(n.node)) image = moved_channels(n, image, x.shape.rank(), true);
  for (std::size_t axis = 0; axis < g.window.rank; ++axis)
    if (g.skip[axis] > 0)
      image = n.builder.slice(image, static_cast<std::int64_t>(g.skip[axis]), to_the_end,
                              -static_cast<std::int64_t>(axis) - 1);
  return image;
}

std::string result_image(NodeExport& n, const std::string& y, const OnnxOperand& x, const ImageGeometry& g) {
  const Ints dims = onnx_dims(n.value.shape);
  if (graph::channels_first(n.node)) {
    const std::string turned = moved_channels(n, y, n.value.shape.rank(), false);
    return n.builder.batch_axes() == 1 && x.per_sample ? turned : n.apart(turned, x, dims);
  }
  return g.channel_axis && x.per_sample && n.builder.batch_axes() == 1 ? y : n.apart(y, x, dims);
}

// Padding in front of all axes, then behind them. Behind, what the last window needs: cells that no window reaches do
// not count. `surplus` gets what is negative.
Ints paddings(const ImageGeometry& g, Ints* surplus = nullptr) {
  Ints front = window_sizes(g, g.window.pad), behind;
  for (std::size_t axis = g.window.rank; axis-- > 0;) {
    const auto at = [&](const auto& sizes) { return static_cast<std::int64_t>(sizes[axis]); };
    const std::int64_t covered = (at(g.window.out) - 1) * at(g.window.stride) + at(g.window.kernel);
    const std::int64_t missing = covered - at(g.window.in) - at(g.window.pad);
    behind.push_back(std::max<std::int64_t>(missing, 0));
    if (surplus) surplus->push_back(std::max<std::int64_t>(-missing, 0));
  }
  front.insert(front.end(), behind.begin(), behind.end());
  return front;
}

Shape channels_last(const NodeExport& n, const Shape& image) {
  return graph::channels_first(n.node) ? graph::channels_to_back(image) : image;
}

std::string convolution(NodeExport& n) {
  const OnnxOperand &w = n.in[0], &x = n.in[1];
  const ImageGeometry g = graph::convolution_geometry(n.node, channels_last(n, x.shape), w.shape);
  if (g.kernels() > 1) n.refuse("windows with weights of their own (sharing = false)");
  if (w.per_sample) n.refuse("a kernel that is computed from the sample");
  const auto maps = static_cast<std::int64_t>(g.maps), channels = static_cast<std::int64_t>(g.channels),
             groups = static_cast<std::int64_t>(g.groups);
  Ints kernel = g.transposed ? Ints{channels, maps} : Ints{maps, channels / groups};
  const Ints sizes = window_sizes(g, g.window.kernel);
  kernel.insert(kernel.end(), sizes.begin(), sizes.end());
  Ints surplus;
  OnnxAttributes attributes = {{"kernel_shape", sizes},
                               {"strides", window_sizes(g, g.window.stride)},
                               {"pads", paddings(g, &surplus)},
                               {"group", groups}};
  if (g.transposed) attributes.emplace_back("output_padding", surplus);
  const std::vector<std::string> inputs = {plain_image(n, x, g), n.reshaped(w, kernel)};
  return result_image(n, n.op(g.transposed ? "ConvTranspose" : "Conv", inputs, attributes), x, g);
}

std::string pooling(NodeExport& n) {
  const OnnxOperand& x = n.in[0];
  const ImageGeometry g = graph::pooling_geometry(n.node, channels_last(n, x.shape));
  const bool max = graph::text(n.node, "poolingType", "max") == "max";
  OnnxAttributes attributes = {{"kernel_shape", window_sizes(g, g.window.kernel)},
                               {"strides", window_sizes(g, g.window.stride)},
                               {"pads", paddings(g)}};
  // Without includePad, the mean is over the cells inside of the image.
  if (!max) attributes.emplace_back("count_include_pad", std::int64_t{graph::flag(n.node, "includePad", false)});
  return result_image(n, n.op(max ? "MaxPool" : "AveragePool", {plain_image(n, x, g)}, attributes), x, g);
}

std::string batch_normalization(NodeExport& n) {
  const OnnxOperand& x = n.in[0];
  const bool spatial = graph::flag(n.node, "spatial", false), turned = spatial && graph::channels_first(n.node);
  const std::size_t rank = x.shape.rank();
  Ints dims = spatial && rank > 0 ? onnx_dims(x.shape) : Ints{static_cast<std::int64_t>(x.shape.elements())};
  std::string image = n.together(x, dims);
  if (turned) image = moved_channels(n, image, rank, true);
  const auto channels = turned ? dims.back() : dims.front();
  std::vector<std::string> inputs = {image};
  for (std::size_t k = 1; k < n.in.size(); ++k) inputs.push_back(n.reshaped(n.in[k], {channels}));
  std::string y =
      n.op("BatchNormalization", inputs, {{"epsilon", static_cast<float>(graph::number(n.node, "epsilon", 1e-5))}});
  if (turned) y = moved_channels(n, y, rank, false);
  const bool same = n.builder.batch_axes() == 1 && x.per_sample && dims == onnx_dims(x.shape);
  return same ? y : n.apart(y, x, onnx_dims(n.value.shape));
}

std::string response_normalization(NodeExport& n) {
  const OnnxOperand& x = n.in[0];
  const auto channels = static_cast<std::int64_t>(x.shape.rank() > 0 ? x.shape.dims.back() : 1);
  const auto pixels = static_cast<std::int64_t>(x.shape.elements()) / std::max<std::int64_t>(channels, 1);
  const auto size = 2 * static_cast<std::int64_t>(graph::number(n.node, "depthRadius", 0)) + 1;
  const auto real = [&](const char* name, double otherwise) {
    return static_cast<float>(graph::number(n.node, name, otherwise));
  };
  // ONNX divides alpha by the number of channels in the window.
  const std::string y = n.op("LRN", {n.together(x, {channels, pixels, 1})},
                             {{"size", size},
                              {"alpha", real("alpha", 1) * static_cast<float>(size)},
                              {"beta", real("beta", 0.75)},
                              {"bias", real("bias", 1)}});
  return n.apart(y, x, onnx_dims(x.shape));
}

}  // namespace

void list_image_translations(NodeTranslations& all) {
  all.insert({{"Convolution", convolution},
              {"Pooling", pooling},
              {"BatchNormalization", batch_normalization},
              {"LocalResponseNormalization", response_normalization}});
}

}  // namespace tutti::interchange
