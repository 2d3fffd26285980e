// SPDX-License-Identifier: Apache-2.0
// network_export.h -- walks over a graph in the order of evaluation and translates node by node; loops become Scans.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "interchange/onnx/node_export.h"
#include "interchange/onnx_export.h"

namespace tutti::interchange {

class NetworkExport final : public OnnxSurroundings {
 public:
  NetworkExport(const graph::Graph&, std::vector<graph::Value>, std::span<const Tensor>, onnx::GraphProto&);
  // Throws Error with all nodes that have no counterpart.
  OnnxSummary run(const std::vector<std::size_t>& outputs);
  const graph::Node& node(std::size_t n) const override { return graph_.nodes[n]; }
  OnnxOperand operand(std::size_t n) const override { return operand(n, name_[n]); }
  const Tensor* parameter(std::size_t n) const override;

 private:
  std::vector<std::size_t> needed_inputs(std::size_t node) const;
  void translate(const std::vector<std::size_t>& component);
  void translate_node(std::size_t node);
  void translate_loop(const std::vector<std::size_t>& members);
  void add_leaf(std::size_t node);
  std::string result_of(std::size_t node, OnnxBuilder&, const std::vector<std::string>& names);
  OnnxOperand operand(std::size_t node, const std::string& name) const;
  std::vector<Dimension> dimensions(std::size_t node) const;
  std::vector<std::string> names_of_inputs(std::size_t node) const;
  bool used_outside(std::size_t node, const std::set<std::size_t>& loop) const;

  friend class LoopExport;

  const graph::Graph& graph_;
  std::vector<graph::Value> values_;
  std::span<const Tensor> tensors_;
  onnx::GraphProto& to_;
  OnnxNames names_;
  NodeTranslations translations_;
  std::vector<std::vector<std::size_t>> components_, inputs_;
  std::vector<std::string> name_;  // by node: of its result in the main graph
  std::vector<std::size_t> outputs_;
  std::optional<OnnxBuilder> builder_;
  std::vector<std::string> refused_;
};

}  // namespace tutti::interchange
