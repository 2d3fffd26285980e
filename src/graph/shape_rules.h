// SPDX-License-Identifier: Apache-2.0
// shape_rules.h -- the view of a node in shape rules, and the rules outside shapes.cpp.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <span>
#include <string>

#include "graph/shapes.h"

namespace tutti::graph {

struct ShapeCall {
  const Node& node;
  std::span<const Shape> in;
  std::span<const std::string> names;

  std::string operand(std::size_t i) const {
    return i < names.size() && !names[i].empty() ? fmt::format("'{}' {}", names[i], to_string(in[i]))
                                                 : to_string(in[i]);
  }
  [[noreturn]] void fail(const std::string& what, const std::string& fix) const { graph::fail(node, what, fix); }
};

// An attribute with the default 1 that is a whole number from `least` to `most`.
std::size_t whole_number(const ShapeCall&, const char* name, double least = 1,
                         double most = std::numeric_limits<double>::infinity(), const char* advice = "");
// The same dims, where both are known. Trailing axes of size 1 do not matter when samples are compared.
bool alike(const Shape&, const Shape&);
// With the dims of another shape where they are 0.
Shape filled(Shape, const Shape& from);

// recurrent_shapes.cpp
Shape delay_shape(const ShapeCall&);
Shape where_shape(const ShapeCall&);
Shape packed_index_shape(const ShapeCall&);
Shape gather_shape(const ShapeCall&);
Shape scatter_shape(const ShapeCall&);
Shape lstm_shape(const ShapeCall&);
Shape gru_shape(const ShapeCall&);
Shape ranking_shape(const ShapeCall&);
Shape negative_samples_shape(const ShapeCall&);

// image_shapes.cpp
Shape convolution_shape(const ShapeCall&);
Shape pooling_shape(const ShapeCall&);
Shape unpooling_shape(const ShapeCall&);
Shape roi_pooling_shape(const ShapeCall&);
Shape batch_normalization_shape(const ShapeCall&);
Shape response_normalization_shape(const ShapeCall&);
// The operand of an image operation with its dims of 0 filled in; nothing for other operations.
std::optional<Shape> infer_image_operand(const Node& node, std::size_t operand, std::span<const Shape> inputs);

}  // namespace tutti::graph
