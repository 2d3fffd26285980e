// SPDX-License-Identifier: Apache-2.0
// Which layers of a lowered program several ranks can compute together.
#include <algorithm>

#include "graph/placed_values.h"
#include "graph/placement.h"

namespace tutti::graph {

const std::set<std::string>& elementwise_operations() {
  static const std::set<std::string> names = {"Plus",
                                              "Minus",
                                              "ElementTimes",
                                              "RectifiedLinear",
                                              "Sigmoid",
                                              "Tanh",
                                              "Exp",
                                              "Log",
                                              "Sqrt",
                                              "Abs",
                                              "Floor",
                                              "Ceil",
                                              "Round",
                                              "Sin",
                                              "Cosine",
                                              "Negate",
                                              "Reciprocal",
                                              "Dropout",
                                              "Clip",
                                              "If",
                                              "Less",
                                              "Equal",
                                              "Greater",
                                              "GreaterEqual",
                                              "NotEqual",
                                              "LessEqual",
                                              "LogPlus",
                                              "BatchNormalization",
                                              "PerDimMeanVarNormalization",
                                              "PerDimMeanVarDeNormalization"};
  return names;
}

std::set<std::size_t> tensors_in_loops(Lowered code) {
  group_loops(code);
  std::set<std::size_t> found;
  for (const Loop& l : code.loops)
    for (std::size_t i = l.first; i < l.last; ++i) found.insert(code.instructions[i].out.tensor);
  return found;
}

std::map<std::size_t, std::size_t> count_uses(const Lowered& code) {
  std::map<std::size_t, std::size_t> uses;
  for (const Instruction& i : code.instructions)
    for (const Operand& o : i.in) ++uses[o.tensor];
  return uses;
}

bool is_dense_layer(const Lowered& code, const Instruction& i, const std::map<std::size_t, std::size_t>& uses) {
  if (i.operation != "Times" || i.in.size() != 2 || number(i.node, "outputRank", 1) != 1) return false;
  const Operand& w = i.in[0];
  return code.tensors[w.tensor].kind == Tensor::Kind::parameter && uses.at(w.tensor) == 1 && !w.per_sample &&
         i.in[1].per_sample && w.shape.rank() >= 2 && w.shape[0] == i.out.elements &&
         w.elements == i.out.elements * i.in[1].elements && (!code.tensors[i.in[1].tensor].sparse || i.reads_sparse);
}

std::vector<DenseLayer> find_dense_layers(const Lowered& code) {
  const auto loops = tensors_in_loops(code);
  const auto uses = count_uses(code);
  std::map<std::size_t, std::size_t> made_by;  // the layer whose result a value follows from element by element
  std::set<std::size_t> trained;               // values computed from trained parameters
  std::vector<DenseLayer> layers;
  for (const Instruction& i : code.instructions) {
    for (const Operand& o : i.in)
      if (code.tensors[o.tensor].trained || trained.contains(o.tensor)) trained.insert(i.out.tensor);
    if (!loops.contains(i.out.tensor) && is_dense_layer(code, i, uses)) {
      DenseLayer l;
      l.weight = code.tensors[i.in[0].tensor].name, l.where = i.node.where;
      l.out = i.out.elements, l.in = i.in[1].elements, l.sparse = i.reads_sparse;
      l.passes_gradient = trained.contains(i.in[1].tensor);
      l.chained = made_by.contains(i.in[1].tensor);
      made_by[i.out.tensor] = layers.size();
      layers.push_back(std::move(l));
      continue;
    }
    if (i.operation == "CrossEntropyWithSoftmax" && made_by.contains(i.in[1].tensor))
      layers[made_by[i.in[1].tensor]].softmax = true;
    if (!elementwise_operations().contains(i.operation) || loops.contains(i.out.tensor)) continue;
    for (const Operand& o : i.in)
      if (const auto from = made_by.find(o.tensor); from != made_by.end() && o.per_sample)
        made_by[i.out.tensor] = from->second;
  }
  return layers;
}

}  // namespace tutti::graph
