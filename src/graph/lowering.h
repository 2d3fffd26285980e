// SPDX-License-Identifier: Apache-2.0
// lowering.h -- the translation from graph nodes to instructions, as seen by the functions for composite operations.
#pragma once

#include <cassert>

#include "graph/lower.h"

namespace tutti::graph {

class Lowering {
 public:
  Lowering(const Graph& graph, const std::vector<Value>& values, bool training,
           const LabelSmoothing* smoothing = nullptr, const ResultTerms* terms = nullptr)
      : graph_(graph), values_(values), training_(training), smoothing_(smoothing), terms_(terms) {}

  Lowered run(const std::vector<std::size_t>& order);

  // Helpers for composite operations.
  const Node& node() const { return graph_.nodes[current_]; }
  const Operand& input(std::size_t k) const { return code_.of_node.at(node().inputs[k]); }
  Operand emit(const std::string& operation, std::vector<Operand> in, std::map<std::string, Attribute> attributes = {});
  static Operand view(Operand o, Shape shape) {
    assert(shape.elements() == o.elements);
    o.shape = std::move(shape);
    return o;
  }
  // Adds an input to the last instruction, beyond those of its rule.
  void append_input(Operand o) { code_.instructions.back().in.push_back(std::move(o)); }
  // The current node is a ratio of its value and this sum.
  void divide_by(Operand sum) { code_.divisor_of_node[current_] = std::move(sum); }
  // Runs the last instruction with `kernel` instead of the kernel of its operation.
  void run_as(const std::string& kernel) { code_.instructions.back().operation = kernel; }
  // Memory for state that a node keeps from step to step; Network saves it with the model.
  Operand state(std::size_t elements);
  bool trained(const Operand& o) const { return code_.tensors[o.tensor].trained; }
  bool stored(const Operand& o) const { return code_.tensors[o.tensor].kind == Tensor::Kind::parameter; }
  const Shape& shape() const { return values_[current_].shape; }
  bool training() const { return training_; }
  // Of the current node.
  double label_smoothing() const {
    return training_ && smoothing_ && smoothing_->nodes.contains(current_) ? smoothing_->amount : 0;
  }

 private:
  Operand made(Tensor, Shape);  // a new value of the current node
  Operand leaf(Tensor::Kind kind);
  std::size_t axis(const std::string& name);
  Operand as_written();
  Operand delay();
  void close_delays();
  Operand lower_node();
  Operand with_shares();
  Operand share_of(const Operand&);

  const Graph& graph_;
  const std::vector<Value>& values_;
  bool training_;
  const LabelSmoothing* smoothing_;
  const ResultTerms* terms_;
  std::size_t current_ = 0;
  Lowered code_;
  // Delays that were lowered before their input: instruction, input node.
  std::vector<std::pair<std::size_t, std::size_t>> open_;
};

// image_lowering.cpp
Operand lower_convolution(Lowering&);
Operand lower_pooling(Lowering&);
Operand lower_unpooling(Lowering&);
Operand lower_roi_pooling(Lowering&);
Operand lower_batch_normalization(Lowering&);

}  // namespace tutti::graph
