// SPDX-License-Identifier: Apache-2.0
// Shape rules of operations in time (delays, dynamic axes, recurrent cells), and of criteria over several samples at
// once (rankings of queries, negative samples).
#include <algorithm>
#include <cmath>

#include "graph/shape_rules.h"
#include "graph/shapes.h"

namespace tutti::graph {
namespace {

// `gates` blocks of c rows from the input, [gates * c : c] for the state.
Shape cells_shape(const ShapeCall& c, std::size_t gates) {
  const std::size_t rows = c.in[0].elements(), cells = rows / gates;
  if (rows % gates != 0) c.fail(fmt::format("{} is not {} blocks of equal size", c.operand(0), gates), "");
  if (c.in[1].elements() != 0 && (c.in[1][0] != rows || c.in[1].elements() != rows * cells))
    c.fail(fmt::format("{} and {} do not fit", c.operand(0), c.operand(1)),
           fmt::format("the weight of the state is [{} x {}]", rows, cells));
  return Shape{{cells}};
}

void need_elements(const ShapeCall& c, std::size_t k, std::size_t count) {
  if (c.in[k].elements() != count && !has_unknown(c.in[k]))
    c.fail(fmt::format("{} needs {} elements", c.operand(k), count), "");
}

}  // namespace

Shape delay_shape(const ShapeCall& c) {
  whole_number(c, "timeStep", 1, std::numeric_limits<double>::infinity(), "; use FutureValue for the other direction");
  const Shape declared = declared_shape(c.node);
  const bool given = declared.rank() > 0 && !has_unknown(declared);
  if (has_unknown(c.in[0])) return given ? declared : Shape{{0}};
  if (given && declared.elements() != c.in[0].elements())
    c.fail(fmt::format("dims {} and the delayed {} do not fit", to_string(declared), c.operand(0)),
           "leave the dims out (0): they follow from the input");
  if (c.in.size() > 1 && !has_unknown(c.in[1]) && c.in[1].elements() != 1 && c.in[1].elements() != c.in[0].elements())
    c.fail(fmt::format("the initial state {} and the delayed {} do not fit", c.operand(1), c.operand(0)),
           "give the initial state the dimensions of the value, or 1");
  return c.in[0];
}

Shape where_shape(const ShapeCall& c) {
  if (c.in[0].elements() != 1)
    c.fail(fmt::format("{} has {} elements", c.operand(0), c.in[0].elements()),
           "the condition and the index have one element per step");
  return Shape{{1}};
}
Shape packed_index_shape(const ShapeCall& c) {
  if (c.in[1].elements() != 1)
    c.fail(fmt::format("{} has {} elements", c.operand(1), c.in[1].elements()), "give the result of Where");
  return Shape{{1}};
}
Shape gather_shape(const ShapeCall& c) { return c.in[1]; }
Shape scatter_shape(const ShapeCall& c) { return c.in[2]; }

Shape lstm_shape(const ShapeCall& c) {
  const Shape out = cells_shape(c, 4);
  if (c.in.size() == 3) c.fail("an initial output is given without an initial cell", "give both or none");
  for (std::size_t k = 2; k < c.in.size(); ++k) need_elements(c, k, out.elements());
  return out;
}

Shape gru_shape(const ShapeCall& c) {
  const Shape out = cells_shape(c, 3);
  if (c.in.size() == 3 && !flag(c.node, "resetAfter", false))
    c.fail("a bias of the product with the state without resetAfter", "add it to the input");
  if (c.in.size() == 3) need_elements(c, 2, c.in[0].elements());
  return out;
}

Shape ranking_shape(const ShapeCall& c) {
  static constexpr const char* parts[] = {"gain", "score", "query"};
  for (std::size_t k = 0; k < c.in.size(); ++k)
    if (c.in[k].elements() > 1)
      c.fail(fmt::format("the {} {} has {} elements", parts[k], c.operand(k), c.in[k].elements()),
             "a sample is one document: one gain, one score, and the number of its query");
  return Shape{{1}};
}

Shape negative_samples_shape(const ShapeCall& c) {
  if (!alike(c.in[0], c.in[1]))
    c.fail(fmt::format("{} and {} do not fit", c.operand(0), c.operand(1)),
           "the angle between two vectors needs equal dimensions");
  constexpr double most = 10000;
  for (const char* name : {"shift", "negatives"})
    if (const double n = number(c.node, name, 1); !(n >= 0 && n <= most) || n != std::floor(n))
      c.fail(fmt::format("{} = {} is not a number of samples", name, n),
             fmt::format("give a whole number from 0 to {}", most));
  return Shape{{static_cast<std::size_t>(number(c.node, "negatives", 1)) + 1}};
}

}  // namespace tutti::graph
