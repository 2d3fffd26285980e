// SPDX-License-Identifier: Apache-2.0
// Image operations as the kernels want them: channels last, every window inside of the padded image.
#include <fmt/format.h>

#include <algorithm>

#include "graph/image_geometry.h"
#include "graph/lowering.h"

namespace tutti::graph {
namespace {

bool turned(const Lowering& l) {
  return channels_first(l.node()) && (l.node().operation != "BatchNormalization" || flag(l.node(), "spatial", false));
}
Operand swapped(Lowering& l, Operand x, std::size_t axis) {
  return l.emit("TransposeDimensions", {std::move(x)},
                {{"axis1", static_cast<double>(axis)}, {"axis2", static_cast<double>(axis + 1)}});
}
// [C, W, H] -> [W, H, C] where the node has its channels first.
Operand channels_last(Lowering& l, Operand x) {
  for (std::size_t axis = 1; axis < x.shape.rank() && turned(l); ++axis) x = swapped(l, std::move(x), axis);
  return x;
}
Operand channels_first_again(Lowering& l, Operand x) {
  for (std::size_t axis = x.shape.rank(); axis-- > 1 && turned(l);) x = swapped(l, std::move(x), axis);
  return x;
}

std::map<std::string, Attribute> attributes_of(const Node& node) {
  auto attributes = node.attributes;
  attributes.erase("imageLayout");
  attributes.erase("tag");
  return attributes;
}

// Cells that no window covers are cut off; padding is then written out.
Operand cut_off(Lowering& l, Operand x, const ImageGeometry& g, std::map<std::string, Attribute>& attributes) {
  if (!g.skips()) return x;
  std::vector<double> lower, upper;
  const ImageWindow& w = g.window;
  for (std::size_t axis = 0; axis < w.rank; ++axis) {
    if (g.skip[axis] > 0)
      x = l.emit("Slice", {std::move(x)},
                 {{"begin", static_cast<double>(g.skip[axis])}, {"end", 0.0}, {"axis", static_cast<double>(axis + 1)}});
    lower.push_back(static_cast<double>(w.pad[axis]));
    const std::size_t covered = (w.out[axis] - 1) * w.stride[axis] + w.kernel[axis], given = w.in[axis] + w.pad[axis];
    upper.push_back(covered > given ? static_cast<double>(covered - given) : 0.0);
  }
  // One more, so that a list of one is not taken for all axes.
  for (auto* list : {&lower, &upper}) list->push_back(0);
  attributes["lowerPad"] = lower, attributes["upperPad"] = upper;
  attributes["autoPadding"] = std::vector<double>{0};
  attributes.erase("ceilOutDim");
  return x;
}

}  // namespace

Operand lower_convolution(Lowering& l) {
  const Operand x = channels_last(l, l.input(1));
  const ImageGeometry g = convolution_geometry(l.node(), x.shape, l.input(0).shape);
  auto attributes = attributes_of(l.node());
  attributes["mapDims"] = std::vector<double>{static_cast<double>(g.maps)};
  attributes["channelAxis"] = g.channel_axis;
  if (g.transposed && g.channel_axis)  // the channels are said by mapDims now
    attributes["kernelDims"] =
        std::vector<double>(g.window.kernel.begin(), g.window.kernel.begin() + static_cast<long>(g.window.rank));
  const Operand cut = cut_off(l, x, g, attributes);
  const Operand y = l.emit("Convolution", {l.input(0), cut}, std::move(attributes));
  if (g.kernels() > 1) l.run_as("LocalConvolution");
  return channels_first_again(l, y);
}

Operand lower_pooling(Lowering& l) {
  const Operand x = channels_last(l, l.input(0));
  const ImageGeometry g = pooling_geometry(l.node(), x.shape);
  auto attributes = attributes_of(l.node());
  const Operand cut = cut_off(l, x, g, attributes);
  return channels_first_again(l, l.emit("Pooling", {cut}, std::move(attributes)));
}

Operand lower_unpooling(Lowering& l) {
  const Operand values = channels_last(l, l.input(0));
  const Operand image = channels_last(l, l.input(1));
  if (pooling_geometry(l.node(), image.shape).skips())
    fail(l.node(), "these strides leave out the first cells of the image",
         "use a stride that is not larger than the window");
  return channels_first_again(l, l.emit("MaxUnpooling", {values, image}, attributes_of(l.node())));
}

Operand lower_roi_pooling(Lowering& l) {
  return l.emit("ROIPooling", {l.input(0), l.input(1)}, attributes_of(l.node()));
}

Operand lower_batch_normalization(Lowering& l) {
  for (std::size_t k = 3; k < 5; ++k)
    if (!l.stored(l.input(k)) || l.trained(l.input(k)))
      fail(l.node(), "the running statistics must be parameters that are not trained",
           "declare them with learningRateMultiplier = 0");
  const Operand x = channels_last(l, l.input(0));
  auto attributes = attributes_of(l.node());
  attributes["training"] = l.training();
  const Operand y =
      l.emit("BatchNormalization", {x, l.input(1), l.input(2), l.input(3), l.input(4)}, std::move(attributes));
  l.append_input(l.state(2));
  return channels_first_again(l, y);
}

}  // namespace tutti::graph
