// SPDX-License-Identifier: Apache-2.0
// Shape rules of the operations on images, and what they infer about their parameters.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "graph/image_geometry.h"
#include "graph/shape_rules.h"

namespace tutti::graph {
namespace {

Shape with_channels_last(const Node& node, const Shape& image) {
  return channels_first(node) ? channels_to_back(image) : image;
}
Shape as_written(const Node& node, const Shape& image) {
  return channels_first(node) ? channels_to_front(image) : image;
}

// The one dim of 0 becomes what makes `elements` of the others.
Shape completed(Shape s, std::size_t elements) {
  std::size_t known = 1, zeros = 0;
  for (const auto d : s.dims) d == 0 ? ++zeros : known *= d;
  if (zeros == 1 && elements % known == 0)
    for (auto& d : s.dims)
      if (d == 0) d = elements / known;
  return s;
}

// [kernel..., channels, positions without sharing..., maps] in all its dims, or a matrix of as many elements.
Shape infer_weight(const Node& node, const Shape& weight, const Shape& image) {
  const ImageGeometry g = convolution_geometry(node, with_channels_last(node, image), weight);
  Shape full;
  for (std::size_t axis = 0; axis < g.window.rank; ++axis) full.dims.push_back(g.window.kernel[axis]);
  full.dims.push_back(g.transposed ? g.maps : g.channels / g.groups);
  for (std::size_t axis = 0; axis < g.window.rank; ++axis)
    if (g.own[axis]) full.dims.push_back(g.window.out[axis]);
  full.dims.push_back(g.transposed ? g.channels : g.maps);
  if (weight.rank() != full.rank()) return completed(weight, full.elements());
  return filled(weight, full);
}

std::size_t normalized_channels(const Node& node, const Shape& image) {
  const Shape s = with_channels_last(node, image);
  return flag(node, "spatial", false) && s.rank() > 0 ? s.dims.back() : s.elements();
}

Shape infer_normalizer(const Node& node, const Shape& parameter, const Shape& image) {
  if (has_unknown(image)) return parameter;
  if (parameter.rank() == image.rank() && !flag(node, "spatial", false)) return filled(parameter, image);
  return completed(parameter, normalized_channels(node, image));
}

}  // namespace

Shape convolution_shape(const ShapeCall& c) {
  const Shape& image = c.in[1];
  if (has_unknown(image)) return image;
  const ImageGeometry g = convolution_geometry(c.node, with_channels_last(c.node, image), c.in[0]);
  const std::size_t wanted = g.weights_per_map() * (g.transposed ? g.channels : g.maps);
  if (!has_unknown(c.in[0]) && c.in[0].elements() != wanted)
    c.fail(fmt::format("the weight {} has {} elements, but {} {} over {} channels in {} maps has {}", c.operand(0),
                       c.in[0].elements(),
                       g.kernels() > 1 ? fmt::format("for {} windows a kernel", g.kernels()) : "a kernel",
                       fmt::join(numbers(c.node, "kernelDims"), " x "), g.channels / g.groups, g.maps, wanted),
           g.kernels() > 1
               ? "the weight is [kernel..., input channels, windows along the axes without sharing..., output maps]; a "
                 "dimension of 0 is inferred"
               : "the weight is [kernel..., input channels / groups, output maps]; a dimension of 0 is inferred");
  return as_written(c.node, g.result());
}

Shape pooling_shape(const ShapeCall& c) {
  const std::string type = text(c.node, "poolingType", "max");
  if (type != "max" && type != "average")
    c.fail(fmt::format("there is no poolingType '{}'", type), "use \"max\" or \"average\"");
  if (has_unknown(c.in[0])) return c.in[0];
  const ImageGeometry g = pooling_geometry(c.node, with_channels_last(c.node, c.in[0]));
  return as_written(c.node, g.result());
}

Shape unpooling_shape(const ShapeCall& c) {
  if (has_unknown(c.in[1])) return c.in[1];
  const ImageGeometry g = pooling_geometry(c.node, with_channels_last(c.node, c.in[1]));
  const Shape small = as_written(c.node, g.result());
  if (!has_unknown(c.in[0]) && c.in[0] != small)
    c.fail(fmt::format("{} is not the result of pooling {}, which is {}", c.operand(0), c.operand(1), to_string(small)),
           "unpooling undoes a max pooling of its second operand with the same window");
  return c.in[1];
}

Shape roi_pooling_shape(const ShapeCall& c) {
  const auto shape = numbers(c.node, "shape");
  if (shape.size() != 2 || !(shape[0] >= 1) || !(shape[1] >= 1))
    c.fail("shape must have two sizes", "give the size of the result of a region, such as shape = (6:6)");
  if (c.node.attributes.contains("spatialScale") && !(number(c.node, "spatialScale", 0) > 0))
    c.fail(fmt::format("spatialScale cannot be {}", number(c.node, "spatialScale", 0)),
           "give the size of the image relative to that of the picture, such as 1/16, or leave spatialScale out");
  const Shape &image = c.in[0], &regions = c.in[1];
  if (has_unknown(image) || has_unknown(regions)) return image;
  if (image.rank() != 3) c.fail(fmt::format("{} is not an image [W, H, C]", c.operand(0)), "pool images");
  if (regions[0] != 4 || regions.rank() > 2)
    c.fail(fmt::format("{} does not hold regions", c.operand(1)),
           "regions are [4, number]: x, y, width, height, or x1, y1, x2, y2 with spatialScale");
  return Shape{{static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), image[2], regions[1]}};
}

Shape batch_normalization_shape(const ShapeCall& c) {
  if (has_unknown(c.in[0])) return c.in[0];
  const std::size_t channels = normalized_channels(c.node, c.in[0]);
  static constexpr const char* parts[] = {"", "scale", "bias", "running mean", "running variance"};
  for (std::size_t k = 1; k < c.in.size(); ++k)
    if (!has_unknown(c.in[k]) && c.in[k].elements() != channels)
      c.fail(
          fmt::format("the {} {} has {} elements where {} {} to be normalised", parts[k], c.operand(k),
                      c.in[k].elements(), channels, flag(c.node, "spatial", false) ? "channels are" : "elements are"),
          "give 0 to infer the dimension; spatial = true normalises per channel");
  if (!(number(c.node, "epsilon", 1e-5) > 0)) c.fail("epsilon must be positive", "use 0.00001");
  if (!(number(c.node, "blendTimeConstant", 0) >= 0))
    c.fail("blendTimeConstant must not be negative", "use 0 for the statistics of the minibatch");
  return c.in[0];
}

Shape response_normalization_shape(const ShapeCall& c) {
  const double radius = number(c.node, "depthRadius", 0);
  if (!(radius >= 0) || radius != std::floor(radius) || radius > 64)
    c.fail(fmt::format("depthRadius = {} is not a number of channels", radius), "use 0, 1, 2, ... up to 64");
  constexpr std::size_t most = 2048;  // what the backends take
  if (c.in[0].rank() > 0 && c.in[0].dims.back() > most)
    c.fail(fmt::format("{} has more than {} channels", c.operand(0), most), "channels are the last axis");
  if (!(number(c.node, "bias", 1) > 0) || !(number(c.node, "alpha", 1) >= 0))
    c.fail("bias must be positive and alpha must not be negative", "the usual values are bias = 1, alpha = 0.0001");
  return c.in[0];
}

std::optional<Shape> infer_image_operand(const Node& node, std::size_t operand, std::span<const Shape> inputs) {
  if (node.operation == "Convolution") {
    if (operand != 0 || inputs.size() < 2 || has_unknown(inputs[1])) return inputs[operand];
    return infer_weight(node, inputs[0], inputs[1]);
  }
  if (node.operation == "BatchNormalization")
    return operand == 0 ? inputs[0] : infer_normalizer(node, inputs[operand], inputs[0]);
  return std::nullopt;
}

}  // namespace tutti::graph
