// SPDX-License-Identifier: Apache-2.0
// Joins what can be done in one pass over an image: a convolution with the bias per channel and ReLU behind it, batch
// normalisation with a sum and ReLU behind it.
#include <algorithm>
#include <set>

#include "graph/lower.h"

namespace tutti::graph {
namespace {

class ImageFusion {
 public:
  ImageFusion(Lowered& code, const std::vector<std::size_t>& roots) : code_(code) {
    for (const auto root : roots)
      if (code.of_node.contains(root)) kept_.insert(code.of_node.at(root).tensor);
    for (std::size_t i = 0; i < code.instructions.size(); ++i) {
      maker_[code.instructions[i].out.tensor] = i;
      for (const auto& o : code.instructions[i].in) ++users_[o.tensor];
    }
  }

  void run() {
    for (std::size_t i = 0; i < code_.instructions.size(); ++i) {
      const std::string& operation = code_.instructions[i].operation;
      if (operation == "Plus") join_sum(i);
      if (operation == "RectifiedLinear") join_relu(i);
    }
    std::vector<Instruction> rest;
    for (std::size_t i = 0; i < code_.instructions.size(); ++i)
      if (!gone_.contains(i)) rest.push_back(std::move(code_.instructions[i]));
    code_.instructions = std::move(rest);
  }

 private:
  // The instruction that makes `o` for one user alone and under the same shape; null when there is none such.
  const Instruction* made_for(const Operand& o) const {
    const auto found = maker_.find(o.tensor);
    if (found == maker_.end() || kept_.contains(o.tensor) || users_.at(o.tensor) != 1) return nullptr;
    const Instruction& maker = code_.instructions[found->second];
    return maker.out.shape == o.shape ? &maker : nullptr;
  }

  static bool takes_bias(const Instruction& i, const Operand& bias) {
    const Shape& image = i.out.shape;
    if (i.operation != "Convolution" || i.in.size() > 2 || flag(i.node, "transpose", false) || bias.per_sample)
      return false;
    return image.rank() > 1 && bias.shape.rank() == image.rank() && bias.elements == image.dims.back() &&
           bias.shape.dims.back() == bias.elements && flag(i.node, "channelAxis", false);
  }
  static bool takes_sum(const Instruction& i, const Operand& added) {
    return i.operation == "BatchNormalization" && !flag(i.node, "relu", false) && i.in.size() == 6 &&
           added.shape == i.out.shape && added.per_sample && i.out.per_sample && added.tensor != i.out.tensor;
  }
  static bool takes_relu(const Instruction& i) {
    return (i.operation == "Convolution" || i.operation == "BatchNormalization") && !flag(i.node, "relu", false) &&
           !flag(i.node, "transpose", false);
  }

  void join_sum(std::size_t plus) {
    const Instruction sum = code_.instructions[plus];
    // The later one first: what it adds is there by then.
    const std::size_t last = maker_.contains(sum.in[0].tensor) && maker_.contains(sum.in[1].tensor) &&
                                     maker_.at(sum.in[1].tensor) > maker_.at(sum.in[0].tensor)
                                 ? 1
                                 : 0;
    for (const std::size_t k : {last, 1 - last}) {
      const Instruction* maker = made_for(sum.in[k]);
      const Operand& other = sum.in[1 - k];
      if (!maker || !(takes_bias(*maker, other) || takes_sum(*maker, other))) continue;
      Instruction joint = *maker;
      joint.in.push_back(other);
      return replace(plus, sum.in[k].tensor, std::move(joint));
    }
  }

  void join_relu(std::size_t relu) {
    const Operand in = code_.instructions[relu].in[0];
    const Instruction* maker = made_for(in);
    if (!maker || !takes_relu(*maker)) return;
    Instruction joint = *maker;
    joint.node.attributes["relu"] = true;
    replace(relu, in.tensor, std::move(joint));
  }

  // `joint` does the work of the instruction at `place` and of the one that made `inner`.
  void replace(std::size_t place, std::size_t inner, Instruction joint) {
    const Instruction& last = code_.instructions[place];
    joint.node.name = last.node.name;
    joint.out = last.out;
    gone_.insert(maker_.at(inner));
    maker_.erase(inner);
    maker_[joint.out.tensor] = place;
    code_.instructions[place] = std::move(joint);
    ++code_.fused;
  }

  Lowered& code_;
  std::set<std::size_t> kept_, gone_;
  std::map<std::size_t, std::size_t> maker_, users_;
};

}  // namespace

void fuse_images(Lowered& code, const std::vector<std::size_t>& roots) { ImageFusion(code, roots).run(); }

}  // namespace tutti::graph
