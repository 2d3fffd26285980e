// SPDX-License-Identifier: Apache-2.0
// The walk over the instructions: each asks for its operands at the place that it needs.
#include "graph/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/placed_values.h"
#include "tutti/communicator.h"
#include "tutti/error.h"

namespace tutti::graph {
namespace {

// What rank 0 can compute for all samples, beside elementwise operations.
const std::set<std::string>& criteria() {
  static const std::set<std::string> names = {"CrossEntropyWithSoftmax",
                                              "ClassificationError",
                                              "CrossEntropy",
                                              "SquareError",
                                              "Logistic",
                                              "SumElements",
                                              "Softmax",
                                              "LogSoftmax",
                                              "ReduceElements"};
  return names;
}

class Placer : PlacedValues {
 public:
  Placer(Lowered& code, const ModelParallel& how, const Shards& chosen)
      : PlacedValues(code, how.ranks->rank(), how.ranks->size()),
        how_(how),
        chosen_(chosen),
        in_loops_(tensors_in_loops(code)),
        uses_(count_uses(code)) {
    for (const DenseLayer& l : find_dense_layers(code)) layers_.emplace(l.weight, l);
  }

  void run(const std::vector<std::size_t>& roots) {
    // A root is a use, too.
    for (const std::size_t root : roots)
      if (const auto o = code_.of_node.find(root); o != code_.of_node.end() && !o->second.per_sample) {
        refuse_divided(o->second, code_.tensors[o->second.tensor].name, "a result of the run");
        ++uses_[o->second.tensor];
      }
    std::vector<Instruction> before = std::move(code_.instructions);
    code_.instructions.clear();
    for (Instruction& i : before) place(std::move(i));
    for (auto& [node, o] : code_.of_node) {
      const bool root = std::find(roots.begin(), roots.end(), node) != roots.end();
      o = root && o.per_sample ? at(o, Place::own) : as_it_lies(o);
    }
    for (auto& [node, o] : code_.divisor_of_node) o = as_it_lies(o);
  }

 private:
  static bool can_shard(const Operand& o, int ranks) {
    return is_vector(o.shape) && o.elements >= static_cast<std::size_t>(ranks);
  }
  void place(Instruction i) {
    begin(i);
    const bool loop = in_loops_.contains(i.out.tensor);
    if (!loop && is_dense_layer(code_, i, uses_)) {
      const Placement wanted = placement_of(i);
      if (wanted == Placement::shard) return shard(std::move(i));
      if (wanted == Placement::single) return single(std::move(i));
    }
    if (!loop && any_at(i, Place::shard) && in_shards(i)) return;
    if (!loop && any_at(i, Place::first) && at_first(i)) return;
    for (const Operand& o : i.in) refuse_divided(o, code_.tensors[o.tensor].name, "used by '" + i.node.name + "'");
    for (Operand& o : i.in) o = at(o, Place::own);
    code_.instructions.push_back(std::move(i));
  }
  // Of a program that follows the placement of the training: here every rank needs the whole parameter.
  void refuse_divided(const Operand& o, const std::string& name, const std::string& use) const {
    const Tensor& t = code_.tensors[o.tensor];
    if (o.per_sample || !chosen_.contains(t.node)) return;
    throw ConfigError({}, fmt::format("ModelParallel divides '{}' among the ranks, and it is {}", name, use),
                      "replicate for the layer that has it, or another node");
  }
  bool any_at(const Instruction& i, Place p) const {
    return std::any_of(i.in.begin(), i.in.end(), [&](const Operand& o) { return o.per_sample && place_of(o) == p; });
  }

  Placement placement_of(const Instruction& i) const {
    const Tensor& weight = code_.tensors[i.in[0].tensor];
    if (const auto known = chosen_.find(weight.node); known != chosen_.end())
      return known->second.single ? Placement::single : Placement::shard;
    if (!chosen_.empty()) return Placement::replicate;
    const auto found = how_.layers.find(weight.name);
    if (found == how_.layers.end()) return Placement::replicate;
    return found->second == Placement::shard && !can_shard(i.out, ranks_) ? Placement::replicate : found->second;
  }

  // Divides a parameter that only this instruction uses. Operands of the result have the shape of the part.
  void divide(Operand& o, std::size_t axis, bool is_single) {
    Tensor& t = code_.tensors[o.tensor];
    t.shard = ParameterShard{o.shape, axis, is_single};
    if (is_single) return;
    o.shape = t.shard->part(rank_, ranks_);
    o.elements = t.elements = o.shape.elements();
  }
  void shard(Instruction i) {
    const Tensor& weight = code_.tensors[i.in[0].tensor];
    const DenseLayer& layer = layers_.at(weight.name);
    const auto known = chosen_.find(weight.node);
    const bool chained = place_of(i.in[1]) == Place::shard && is_vector(i.in[1].shape);
    // The second of a pair, unless a softmax is wider than its input: then the sums would be more than the inputs.
    const bool by_input =
        known != chosen_.end() ? known->second.axis == 1 : chained && !(layer.softmax && layer.out > layer.in);
    by_input ? shard_by_input(std::move(i)) : shard_by_output(std::move(i));
  }
  void shard_by_output(Instruction i) {
    i.in[1] = at(i.in[1], Place::all);
    divide(i.in[0], 0, false);
    finish_in_shards(std::move(i));
  }
  void shard_by_input(Instruction i) {
    i.in[1] = at(i.in[1], Place::shard);
    divide(i.in[0], 1, false);
    const Operand out = i.out;
    i.out = make(out.shape, i.in[1].axis);
    const Operand partial = i.out;
    code_.instructions.push_back(std::move(i));
    convert("ReduceScatter", {partial}, out, out.axis, out.elements);
  }
  void single(Instruction i) {
    i.in[1] = at(i.in[1], Place::first);
    divide(i.in[0], i.in[0].shape.rank() - 1, true);
    i.out.axis = i.in[1].axis;
    lies(i.out, Place::first, i.out.elements);
    code_.instructions.push_back(std::move(i));
  }

  // A parameter that only this instruction uses.
  bool divisible(const Operand& o) const {
    const Tensor& t = code_.tensors[o.tensor];
    return (t.kind == Tensor::Kind::parameter || t.kind == Tensor::Kind::statistic) && uses_.at(o.tensor) == 1;
  }

  // Operations on the elements of a shard. False: the operands must be brought together first.
  bool in_shards(Instruction& i) {
    if (i.operation == "CrossEntropyWithSoftmax") return softmax_loss(*this, i);
    if (i.operation == "ClassificationError") return classification_error(*this, i);
    if (!elementwise_operations().contains(i.operation) || !is_vector(i.out.shape)) return false;
    const std::size_t width = i.out.elements;
    const bool normalizes = i.operation == "BatchNormalization";
    if (normalizes && flag(i.node, "spatial", false)) return false;
    for (std::size_t k = 0; k < i.in.size(); ++k) {
      const Operand& o = i.in[k];
      if (normalizes && k == 5) continue;  // the samples seen
      const bool fits = o.elements == 1 || (o.elements == width && is_vector(o.shape));
      if (!fits || (!o.per_sample && o.elements > 1 && !divisible(o))) return false;
      if (o.per_sample && width == 1) return false;
    }
    for (std::size_t k = 0; k < i.in.size(); ++k) {
      Operand& o = i.in[k];
      if (normalizes && k == 5) continue;
      if (o.per_sample)
        o = at(o, o.elements == 1 ? Place::all : Place::shard);
      else if (o.elements == width && width > 1)
        divide(o, 0, false);
    }
    if (normalizes) synchronize_groups(i);
    if (i.operation == "Dropout")
      i.node.attributes["first"] = static_cast<double>(range(width).first),
      i.node.attributes["whole"] = static_cast<double>(width);
    finish_in_shards(std::move(i));
    return true;
  }
  // The layer has the samples of all ranks already; with groups, those of all ranks of its group.
  void synchronize_groups(Instruction& i) const {
    const bool others = how_.sum_over_same_parts && flag(i.node, "synchronized", false);
    i.node.attributes["synchronized"] = i.node.attributes["betweenGroups"] = others;
  }
  void finish_in_shards(Instruction i) {
    const std::size_t width = i.out.elements;
    const auto per_sample = std::find_if(i.in.begin(), i.in.end(), [](const Operand& o) { return o.per_sample; });
    i.out.axis = per_sample->axis;
    i.out.shape = Shape{{range(width).size()}};
    i.out.elements = i.out.shape.elements();
    lies(i.out, Place::shard, width);
    code_.instructions.push_back(std::move(i));
  }

  // Operations of rank 0 on the samples of all ranks.
  bool at_first(Instruction& i) {
    if (!elementwise_operations().contains(i.operation) && !criteria().contains(i.operation)) return false;
    // Only rank 0 would count samples, so the other ranks must not hold these running statistics.
    if (i.operation == "BatchNormalization" && !(divisible(i.in[3]) && divisible(i.in[4]))) return false;
    std::size_t axis_now = 0;
    for (Operand& o : i.in) {
      if (o.per_sample)
        o = at(o, Place::first), axis_now = o.axis;
      else if (code_.tensors[o.tensor].kind == Tensor::Kind::parameter && divisible(o) && o.shape.rank() > 0)
        divide(o, o.shape.rank() - 1, true);
    }
    if (i.operation == "BatchNormalization") {
      synchronize_groups(i);
      if (rank_ != 0) i.node.attributes["synchronized"] = false;
    }
    if (i.out.per_sample) {
      i.out.axis = axis_now;
      lies(i.out, Place::first, i.out.elements);
    }
    code_.instructions.push_back(std::move(i));
    return true;
  }

  const ModelParallel& how_;
  const Shards& chosen_;
  const std::set<std::size_t> in_loops_;
  std::map<std::size_t, std::size_t> uses_;
  std::map<std::string, DenseLayer> layers_;
};

}  // namespace

void place_layers(Lowered& code, const std::vector<std::size_t>& roots, const ModelParallel& how,
                  const Shards& chosen) {
  Placer(code, how, chosen).run(roots);
}

}  // namespace tutti::graph
