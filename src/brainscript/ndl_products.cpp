// SPDX-License-Identifier: Apache-2.0
// Products of the older network language whose right side is an image.
#include "brainscript/ndl.h"
#include "graph/shapes.h"

namespace tutti::brainscript::ndl {
namespace {

bool takes_vector(const graph::Node& node, const std::vector<Shape>& in) {
  return node.operation == "Times" && in[0].rank() == 2 && in[1].rank() > 1 && in[1].elements() > 0 &&
         in[0][1] == in[1].elements() && in[0][1] != in[1][0] && graph::number(node, "outputRank", 1) == 1;
}

}  // namespace

void flatten_products(graph::Graph& g) {
  std::vector<Shape> shapes(g.nodes.size());
  const std::size_t count = g.nodes.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Shape> in;
    for (const auto n : g.nodes[i].inputs) in.push_back(n < i ? shapes[n] : Shape{{0}});
    if (takes_vector(g.nodes[i], in)) {
      graph::Node flat;
      flat.operation = "Reshape";
      flat.inputs = {g.nodes[i].inputs[1]};
      flat.attributes["dims"] = std::vector<double>{static_cast<double>(in[1].elements())};
      flat.where = g.nodes[i].where;
      flat.name = g.nodes[i].name + ".flat";
      g.nodes.push_back(std::move(flat));
      g.nodes[i].inputs[1] = g.nodes.size() - 1;
      in[1] = Shape{{in[1].elements()}};
    }
    try {
      shapes[i] = g.nodes[i].inputs.empty() ? graph::declared_shape(g.nodes[i]) : graph::infer_shape(g.nodes[i], in);
    } catch (const ConfigError&) {
      shapes[i] = Shape{{0}};  // said with its reason when the network is made
    }
  }
}

}  // namespace tutti::brainscript::ndl
