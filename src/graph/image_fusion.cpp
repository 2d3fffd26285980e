// SPDX-License-Identifier: Apache-2.0
// Joins what can be done in one pass over an image: a convolution with the bias per channel and ReLU behind it, batch
// normalisation with a sum and ReLU behind it.
#include "graph/joining.h"

namespace tutti::graph {
namespace {

class ImageFusion : Joining {
 public:
  ImageFusion(Lowered& code, const std::vector<std::size_t>& roots) : Joining(code, roots) {}

  void run() {
    for (std::size_t i = 0; i < code_.instructions.size(); ++i) {
      const std::string& operation = code_.instructions[i].operation;
      if (operation == "Plus") join_sum(i);
      if (operation == "RectifiedLinear") join_relu(i);
    }
    take_out();
  }

 private:
  // As made_for(), where instruction `user` takes the value under the shape that it was made with, and as often as it
  // is made: of all steps of a loop, or of one.
  const Instruction* made_as(const Operand& o, std::size_t user) const {
    const Instruction* maker = made_for(o);
    return maker && maker->out.shape == o.shape && in_one_loop(makers_.at(o.tensor), user) ? maker : nullptr;
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
    const std::size_t last = makers_.contains(sum.in[0].tensor) && makers_.contains(sum.in[1].tensor) &&
                                     makers_.at(sum.in[1].tensor) > makers_.at(sum.in[0].tensor)
                                 ? 1
                                 : 0;
    for (const std::size_t k : {last, 1 - last}) {
      const Instruction* maker = made_as(sum.in[k], plus);
      const Operand& other = sum.in[1 - k];
      if (!maker || !(takes_bias(*maker, other) || takes_sum(*maker, other))) continue;
      Instruction joint = *maker;
      joint.in.push_back(other);
      return replace(plus, sum.in[k].tensor, std::move(joint));
    }
  }

  void join_relu(std::size_t relu) {
    const Operand in = code_.instructions[relu].in[0];
    const Instruction* maker = made_as(in, relu);
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
    gone_.insert(makers_.at(inner));
    makers_.erase(inner);
    makers_[joint.out.tensor] = place;
    code_.instructions[place] = std::move(joint);
    ++code_.fused;
  }
};

}  // namespace

void fuse_images(Lowered& code, const std::vector<std::size_t>& roots) { ImageFusion(code, roots).run(); }

}  // namespace tutti::graph
