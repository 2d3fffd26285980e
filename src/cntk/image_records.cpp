// SPDX-License-Identifier: Apache-2.0
// Records of convolutions, poolings and batch normalisation.
#include <fmt/format.h>

#include "cntk/records.h"
#include "graph/kernel.h"

namespace tutti::cntk {
namespace {

void set_layout(ByteReader& r, std::size_t at, std::int64_t layout, Node& n) {
  if (layout != 0 && layout != 1) r.fail(at, fmt::format("the image layout is {} instead of 0 or 1", layout));
  if (layout == 0) n.attributes["imageLayout"] = std::string("HWC");
}

void read_layout(ByteReader& r, Node& n) {
  const std::size_t at = r.offset();
  set_layout(r, at, r.number<std::int32_t>("an image layout"), n);
}

// The window of a convolution or pooling. Returns the kind of the pooling.
std::int32_t read_window(ByteReader& r, const FileFormat& f, Node& n) {
  n.attributes["kernelDims"] = r.shape("a kernel");
  n.attributes["mapDims"] = r.shape("the number of maps");
  n.attributes["stride"] = r.shape("a stride");
  n.attributes["sharing"] = r.flags("the sharing of a kernel");
  n.attributes["autoPadding"] = r.flags("the padding of a window");
  n.attributes["lowerPad"] = r.shape("the lower padding");
  n.attributes["upperPad"] = r.shape("the upper padding");
  const auto pooling = r.number<std::int32_t>("the kind of a pooling");
  read_layout(r, n);
  read_size(r, "the memory of a convolution");
  n.attributes["transpose"] = f.version >= 9 && r.flag("whether a convolution is transposed");
  return pooling;
}

void read_plane_pooling(ByteReader& r, Node& n, const char* type) {
  const double width = r.number<std::uint32_t>("the width of a window");
  const std::size_t at = r.offset();
  set_layout(r, at, r.number<std::uint32_t>("an image layout"), n);
  const double height = read_size(r, "the height of a window");
  const double across = read_size(r, "a stride"), down = read_size(r, "a stride");
  n.attributes["poolingType"] = std::string(type);
  n.attributes["kernelDims"] = List{width, height};
  n.attributes["stride"] = List{across, down};
  n.attributes["autoPadding"] = List{0};
}

}  // namespace

void read_convolution(ByteReader& r, const FileFormat& f, Node& n) {
  read_window(r, f, n);
  r.flag("whether a convolution was written in two dimensions");
  if (f.version < 18) return;
  const std::size_t at = r.offset();
  for (const double d : r.shape("a dilation"))
    if (d != 1) r.fail(at, "a convolution is dilated, which no version of the original computes");
}

void read_pooling(ByteReader& r, const FileFormat& f, Node& n) {
  const std::size_t at = r.offset();
  const auto kind = read_window(r, f, n);
  if (kind != 1 && kind != 2) r.fail(at, fmt::format("the pooling is of kind {} instead of 1 or 2", kind));
  n.attributes["poolingType"] = std::string(kind == 1 ? "max" : "average");
  for (const char* unused : {"mapDims", "sharing", "transpose"}) n.attributes.erase(unused);
}

void read_unpooling(ByteReader& r, const FileFormat& f, Node& n) {
  read_pooling(r, f, n);
  n.attributes["poolingType"] = std::string("max");
}

void read_max_pooling(ByteReader& r, const FileFormat&, Node& n) { read_plane_pooling(r, n, "max"); }
void read_average_pooling(ByteReader& r, const FileFormat&, Node& n) { read_plane_pooling(r, n, "average"); }

void read_roi_pooling(ByteReader& r, const FileFormat&, Node& n) {
  n.attributes["shape"] = r.shape("the size of a region");
}

// Before version 13 the file counts minibatches; the original takes them for 16 samples each.
void read_normalization(ByteReader& r, const FileFormat& f, Node& n) {
  n.attributes["spatial"] = r.flag("whether a normalisation is spatial");
  n.attributes["normalizationTimeConstant"] = r.number<double>("a time constant");
  n.attributes["blendTimeConstant"] = r.number<double>("a time constant");
  read_layout(r, n);
  const double seen = read_size(r, "the samples of a normalisation") * (f.version < 13 ? 16 : 1);
  n.attributes["epsilon"] = r.number<double>("the epsilon of a normalisation");
  r.flag("the engine of a normalisation");
  auto count = std::make_shared<std::vector<float>>(2);
  graph::set_samples_seen(count->data(), seen);
  n.start = std::move(count);
}

}  // namespace tutti::cntk
