// SPDX-License-Identifier: Apache-2.0
// image_geometry.h -- converts the attributes of Convolution, Pooling and MaxUnpooling into a window over an
// image: spatial axes, sizes, strides, padding.
#pragma once

#include "graph/shapes.h"
#include "tutti/image_ops.h"

namespace tutti::graph {

// An attribute of Convolution and Pooling: the kernel may be as large as the padded image, as in Keras. Without it the
// image itself is the limit, as in CNTK.
constexpr const char* fits_padded_image = "fitsPaddedImage";

// Images are [W, H, ..., C], or [C, W, H, ...] with imageLayout="HWC".
bool channels_first(const Node& node);
// [C, W, H] -> [W, H, C] and back.
Shape channels_to_back(const Shape&);
Shape channels_to_front(const Shape&);

struct ImageGeometry {
  ImageWindow window;        // of a transposed convolution: the window of the convolution whose gradient it is
  std::size_t channels = 1;  // of the input
  bool channel_axis = true;  // false: all axes of the input are spatial, with one channel
  std::size_t maps = 1;      // channels of the result
  std::size_t groups = 1;
  bool transposed = false;
  std::array<bool, ImageWindow::max_rank> own{};  // axes along which every window has its own weights
  ImageWindow::Sizes skip{0, 0, 0};               // pixels before the first window that no window covers

  bool skips() const { return skip != ImageWindow::Sizes{0, 0, 0}; }
  // The number of windows with their own weights.
  std::size_t kernels() const;
  // The shape of the result: spatial axes, then channels.
  Shape result() const;
  // Elements per output channel, over all windows.
  std::size_t weights_per_map() const;
};

// `in` has its channels last. `weight` gives the number of maps if mapDims does not; its dims may be 0.
ImageGeometry convolution_geometry(const Node& node, const Shape& in, const Shape& weight);
ImageGeometry pooling_geometry(const Node& node, const Shape& in);

}  // namespace tutti::graph
