// SPDX-License-Identifier: Apache-2.0
// Shape rules of criteria over several samples at once: rankings of queries, negative samples.
#include <cmath>

#include "graph/shape_rules.h"
#include "graph/shapes.h"

namespace tutti::graph {

Shape ranking_shape(const ShapeCall& c) {
  static constexpr const char* parts[] = {"gain", "score", "query"};
  for (std::size_t k = 0; k < c.in.size(); ++k)
    if (c.in[k].elements() > 1)
      c.fail(fmt::format("the {} {} has {} elements", parts[k], c.operand(k), c.in[k].elements()),
             "a sample is one document: one gain, one score, and the number of its query");
  return Shape{{1}};
}

Shape negative_samples_shape(const ShapeCall& c) {
  for (std::size_t axis = 0; axis < std::max(c.in[0].rank(), c.in[1].rank()); ++axis)
    if (c.in[0][axis] != c.in[1][axis] && c.in[0][axis] != 0 && c.in[1][axis] != 0)
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
