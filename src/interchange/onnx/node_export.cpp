// SPDX-License-Identifier: Apache-2.0
#include "interchange/onnx/node_export.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::interchange {

Ints onnx_dims(const Shape& shape) { return {shape.dims.rbegin(), shape.dims.rend()}; }

std::string NodeExport::reshaped(const std::string& name, bool per_sample, const Ints& dims) {
  Ints all(batch_axes(per_sample), 0);  // 0: as it is
  all.insert(all.end(), dims.begin(), dims.end());
  return op("Reshape", {name, builder.names().ints(all)});
}

std::string NodeExport::reshaped(const OnnxOperand& x, const Ints& dims) {
  return onnx_dims(x.shape) == dims ? x.name : reshaped(x.name, x.per_sample, dims);
}

std::string NodeExport::together(const OnnxOperand& x, const Ints& dims) {
  if (batch_axes(x.per_sample) == 1) return reshaped(x, dims);
  Ints all = {-1};
  all.insert(all.end(), dims.begin(), dims.end());
  return op("Reshape", {x.name, builder.names().ints(all)});
}

std::string NodeExport::apart(const std::string& name, const OnnxOperand& like, const Ints& dims) {
  const std::size_t axes = batch_axes(like.per_sample);
  if (axes == 1) return reshaped(name, true, dims);
  if (axes == 0) return op("Reshape", {name, builder.names().ints(dims)});
  return op("Reshape", {name, builder.shape_like(like.name, static_cast<std::int64_t>(axes), dims)});
}

std::string NodeExport::aligned(const OnnxOperand& x, std::size_t rank) {
  // Without a batch the axes are aligned from the right already.
  if (x.shape.rank() >= rank || !x.per_sample) return x.name;
  Ints dims(rank - x.shape.rank(), 1);
  const Ints own = onnx_dims(x.shape);
  dims.insert(dims.end(), own.begin(), own.end());
  return reshaped(x.name, true, dims);
}

std::string NodeExport::expanded(const OnnxOperand& x, const Ints& dims, const OnnxOperand* like) {
  Shape wanted;
  wanted.dims.assign(dims.rbegin(), dims.rend());
  if (x.shape == wanted && (x.per_sample || !like)) return x.name;
  const std::string from = aligned(x, dims.size());
  if (!like) return op("Expand", {from, builder.names().ints(dims)});
  return op("Expand", {from, builder.shape_like(like->name, static_cast<std::int64_t>(builder.batch_axes()), dims)});
}

const OnnxOperand* NodeExport::per_sample_operand() const {
  const auto found = std::ranges::find_if(in, [](const OnnxOperand& o) { return o.per_sample; });
  return found == in.end() ? nullptr : &*found;
}

void NodeExport::refuse(const std::string& why) const {
  throw NotInOnnx{fmt::format("'{}' ({}): {}", node.name, node.operation, why)};
}

}  // namespace tutti::interchange
