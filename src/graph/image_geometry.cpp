// SPDX-License-Identifier: Apache-2.0
#include "graph/image_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::graph {
namespace {

// An attribute by axis: a list of one element stands for all axes, missing ones are `otherwise`.
class PerAxis {
 public:
  PerAxis(const Node& node, const char* name, double least, double otherwise)
      : values_(numbers(node, name)), otherwise_(otherwise) {
    for (const double v : values_)
      if (!(v >= least) || v != std::floor(v) || v > 1e9)
        fail(node, fmt::format("{} cannot be {}", name, v),
             fmt::format("{} is a list of whole numbers from {}", name, least));
  }
  double operator[](std::size_t axis) const {
    return values_.size() == 1 ? values_[0] : axis < values_.size() ? values_[axis] : otherwise_;
  }
  std::size_t size() const { return values_.size(); }
  double last() const { return values_.back(); }
  double given(std::size_t axis, double otherwise) const { return axis < values_.size() ? values_[axis] : otherwise; }

 private:
  std::vector<double> values_;
  double otherwise_;
};

std::size_t whole(double v) { return static_cast<std::size_t>(v); }

// Number and place of the windows along one axis, from the sizes of the image.
void place_windows(const Node& node, ImageGeometry& g, std::size_t axis, bool automatic, std::size_t lower,
                   std::size_t upper) {
  ImageWindow& w = g.window;
  const auto in = static_cast<long>(w.in[axis]), kernel = static_cast<long>(w.kernel[axis]),
             stride = static_cast<long>(w.stride[axis]);
  const long most = flag(node, fits_padded_image, false) ? in + static_cast<long>(lower + upper) : in;
  if (kernel > most)
    fail(node, fmt::format("the kernel is larger than the input: {} against {} along axis {}", kernel, most, axis + 1),
         "use a smaller kernel, or fewer layers that shrink the image before it");
  long pad = static_cast<long>(lower);
  const long rounded_up = flag(node, "ceilOutDim", false) ? stride - 1 : 0;
  long out = (in + static_cast<long>(lower + upper) - kernel + rounded_up) / stride + 1;
  if (automatic) {
    out = (in - 1 + rounded_up) / stride + 1;
    pad = (kernel - 1) / 2 - (in - ((out - 1) * stride + 1)) / 2;
  } else if (lower >= w.kernel[axis] || upper >= w.kernel[axis]) {
    fail(node,
         fmt::format("padding of {} and {} is too large for a kernel of {} along axis {}", lower, upper, kernel,
                     axis + 1),
         "every window must overlap the image: pad with less than the size of the kernel");
  }
  if ((out - 1) * stride - pad >= in)
    fail(node, fmt::format("with ceilOutDim, the last window lies outside the image along axis {}", axis + 1),
         "use a smaller stride, or leave ceilOutDim out");
  w.out[axis] = static_cast<std::size_t>(out);
  if (pad < 0) {
    g.skip[axis] = static_cast<std::size_t>(-pad);
    w.in[axis] -= g.skip[axis];
    pad = 0;
  }
  w.pad[axis] = static_cast<std::size_t>(pad);
}

struct Padding {
  explicit Padding(const Node& node)
      : automatic(node, "autoPadding", 0, 0), lower(node, "lowerPad", 0, 0), upper(node, "upperPad", 0, 0) {}
  PerAxis automatic, lower, upper;
};

// The axes that windows slide along: all but the channels.
std::size_t spatial_rank(const Node& node, const Shape& in, bool channel_axis) {
  const std::size_t rank = in.rank() - (channel_axis ? 1 : 0);
  if (rank > ImageWindow::max_rank)
    fail(node, fmt::format("the image {} has {} spatial axes", to_string(in), rank),
         "images have up to three spatial axes and then their channels");
  return rank;
}

// Sizes of the image that a transposed convolution makes of one with `small` cells.
void widen(const Node& node, ImageGeometry& g, std::size_t axis, const Padding& padding, const PerAxis& wanted) {
  ImageWindow& w = g.window;
  const std::size_t small = w.in[axis];
  const bool automatic = padding.automatic[axis] != 0;
  const std::size_t lower = whole(padding.lower[axis]), upper = whole(padding.upper[axis]);
  const std::size_t cut = automatic ? w.kernel[axis] - 1 : lower + upper;
  std::size_t wide = (small - 1) * w.stride[axis] + w.kernel[axis];
  wide = wide > cut ? wide - cut : 0;
  if (const double given = wanted.given(axis, 0); given > 0) wide = whole(given);
  if (wide == 0)
    fail(node, fmt::format("padding leaves nothing of axis {}", axis + 1), "pad less, or use a larger kernel");
  w.in[axis] = wide;
  place_windows(node, g, axis, automatic, lower, upper);
  if (w.out[axis] != small || g.skip[axis] != 0)
    fail(node,
         fmt::format("a convolution with these strides and paddings cannot produce {} pixels along axis {} from {}",
                     small, axis + 1, wide),
         "choose an outputShape that this convolution maps back to the size of the input");
}

}  // namespace

bool channels_first(const Node& node) {
  const std::string layout = text(node, "imageLayout", "CHW");
  if (layout == "CHW" || layout == "cudnn") return false;
  if (layout == "HWC" || layout == "legacy") return true;
  fail(node, fmt::format("there is no imageLayout '{}'", layout), "use \"CHW\" (or \"cudnn\") or \"HWC\" (\"legacy\")");
}

Shape channels_to_back(const Shape& s) {
  Shape turned = s;
  std::rotate(turned.dims.begin(), turned.dims.begin() + (turned.rank() > 0), turned.dims.end());
  return turned;
}
Shape channels_to_front(const Shape& s) {
  Shape turned = s;
  std::rotate(turned.dims.begin(), turned.dims.end() - (turned.rank() > 0), turned.dims.end());
  return turned;
}

Shape ImageGeometry::result() const {
  Shape s;
  const auto& sizes = transposed ? window.in : window.out;
  s.dims.assign(sizes.begin(), sizes.begin() + static_cast<long>(window.rank));
  if (channel_axis)
    s.dims.push_back(maps);
  else
    s.dims.back() *= maps;
  return s;
}

std::size_t ImageGeometry::weights_per_map() const {
  return ImageWindow::product(window.kernel) * (transposed ? maps : channels / groups) * kernels();
}

std::size_t ImageGeometry::kernels() const {
  std::size_t n = 1;
  for (std::size_t axis = 0; axis < window.rank; ++axis) n *= own[axis] ? window.out[axis] : 1;
  return n;
}

ImageGeometry convolution_geometry(const Node& node, const Shape& in, const Shape& weight) {
  const PerAxis sharing(node, "sharing", 0, 1), kernel(node, "kernelDims", 1, 1), stride(node, "stride", 1, 1),
      maps(node, "mapDims", 0, 0), wanted(node, "outputShape", 0, 0);
  const Padding padding(node);
  if (kernel.size() == 0) fail(node, "kernelDims are missing", "give the size of the kernel, such as (5:5)");
  if (kernel.size() > in.rank())
    fail(node, fmt::format("the kernel has {} axes, the image {} only {}", kernel.size(), to_string(in), in.rank()),
         "an image has its spatial axes first and then its channels: Input (w:h:1) for grey ones");
  ImageGeometry g;
  g.transposed = flag(node, "transpose", false);
  // The original describes a transposed convolution by the one whose gradient it is: the kernel goes over the channels
  // of the result, and mapDims are the channels of the input.
  const bool of_original = g.transposed && in.rank() > 1 && kernel.size() == in.rank() && maps.size() > 0 &&
                           maps.last() == static_cast<double>(in.dims.back());
  g.groups = whole(number(node, "groups", 1));
  // A kernel may name the channels that it sees, those of a group.
  const auto seen = static_cast<double>(in.dims.back()) / std::max(1.0, static_cast<double>(g.groups));
  g.channel_axis = in.rank() > 1 && (of_original || kernel.size() < in.rank() || kernel.last() == seen ||
                                     kernel.last() == static_cast<double>(in.dims.back()));
  g.window.rank = spatial_rank(node, in, g.channel_axis);
  g.channels = g.channel_axis ? in.dims.back() : 1;
  for (std::size_t axis = 0; axis < g.window.rank; ++axis) {
    ImageWindow& w = g.window;
    w.in[axis] = in[axis];
    w.kernel[axis] = whole(kernel.given(axis, static_cast<double>(in[axis])));
    w.stride[axis] = whole(stride[axis]);
    g.own[axis] = sharing[axis] == 0;
    if (g.transposed)
      widen(node, g, axis, padding, wanted);
    else
      place_windows(node, g, axis, axis < kernel.size() && padding.automatic[axis] != 0, whole(padding.lower[axis]),
                    whole(padding.upper[axis]));
  }
  g.maps = of_original ? whole(kernel.last()) : maps.size() > 0 ? whole(maps.last()) : 0;
  if (g.groups < 1 || g.channels % g.groups != 0 || g.maps % g.groups != 0 || (g.groups > 1 && g.transposed))
    fail(node, fmt::format("groups = {} do not divide {} channels and {} maps", g.groups, g.channels, g.maps),
         "groups must divide both; a transposed convolution has one");
  if (g.groups > 1 && std::count(g.own.begin(), g.own.end(), true) > 0)
    fail(node, fmt::format("groups = {} with sharing = false", g.groups), "use one group, or sharing = true");
  if (g.maps == 0) {
    // From the weight: [kernel..., channels, positions..., maps], or [kernel..., maps, positions..., channels] when
    // transposed. There are positions where weights are not shared.
    const std::size_t behind =
        g.transposed ? 2 + static_cast<std::size_t>(std::count(g.own.begin(), g.own.end(), true)) : 1;
    const std::size_t axis = weight.rank() >= std::max<std::size_t>(behind, 2) ? weight.rank() - behind : 0;
    g.maps = weight.rank() == 0 ? 0 : weight[axis];
    if (g.maps == 0) fail(node, "neither mapDims nor the weight gives the number of output maps", "give mapDims");
  }
  return g;
}

ImageGeometry pooling_geometry(const Node& node, const Shape& in) {
  const PerAxis kernel(node, "kernelDims", 1, 1), stride(node, "stride", 1, 1);
  const Padding padding(node);
  if (in.rank() == 0) fail(node, "the input has no axes", "pooling takes images");
  ImageGeometry g;
  if (kernel.size() > in.rank())
    fail(node, fmt::format("the window has {} axes, the image {} only {}", kernel.size(), to_string(in), in.rank()),
         "an image has its spatial axes first and then its channels");
  g.channel_axis = in.rank() > 1 && (kernel.size() < in.rank() || kernel.last() == 1);
  g.window.rank = spatial_rank(node, in, g.channel_axis);
  g.channels = g.maps = g.channel_axis ? in.dims.back() : 1;
  for (std::size_t axis = 0; axis < g.window.rank; ++axis) {
    g.window.in[axis] = in[axis];
    g.window.kernel[axis] = whole(kernel.given(axis, 1));
    const bool covered = axis < kernel.size();
    g.window.stride[axis] = covered ? whole(stride[axis]) : 1;
    place_windows(node, g, axis, covered && padding.automatic[axis] != 0, covered ? whole(padding.lower[axis]) : 0,
                  covered ? whole(padding.upper[axis]) : 0);
  }
  return g;
}

}  // namespace tutti::graph
