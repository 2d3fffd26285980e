// SPDX-License-Identifier: Apache-2.0
// node_export.h -- what the translation of one node sees: its operands as values of ONNX, and helpers for their axes.
// A value of ONNX has the axes of the batch, if it has a value per sample, and then the axes of the sample from the
// last to the first: the same bytes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/shapes.h"
#include "interchange/onnx/builder.h"
#include "interchange/tensor_file.h"

namespace tutti::interchange {

struct OnnxOperand {
  std::string name;
  Shape shape;
  bool per_sample = false;
  std::string axis = {};  // the dynamic axis
};

Ints onnx_dims(const Shape&);  // the axes of a sample, reversed

// What a translation may see beyond its own node.
class OnnxSurroundings {
 public:
  virtual ~OnnxSurroundings() = default;
  virtual const graph::Node& node(std::size_t) const = 0;
  virtual OnnxOperand operand(std::size_t node) const = 0;      // in the main graph
  virtual const Tensor* parameter(std::size_t node) const = 0;  // null for nodes that are computed
};

class NodeExport {
 public:
  NodeExport(OnnxBuilder& builder, const OnnxSurroundings& around, const graph::Node& node, const graph::Value& value,
             std::vector<OnnxOperand> in)
      : builder(builder), around(around), node(node), value(value), in(std::move(in)) {}

  OnnxBuilder& builder;
  const OnnxSurroundings& around;
  const graph::Node& node;
  const graph::Value& value;  // of the result
  std::vector<OnnxOperand> in;

  std::string op(const char* type, const std::vector<std::string>& inputs, const OnnxAttributes& a = {}) {
    return builder.op(type, inputs, a);
  }
  std::size_t batch_axes(bool per_sample) const { return per_sample ? builder.batch_axes() : 0; }

  // The operand with these dims after the axes of the batch; the operand itself if it has them.
  std::string reshaped(const OnnxOperand&, const Ints& dims);
  std::string reshaped(const std::string& name, bool per_sample, const Ints& dims);
  // The same with all axes of the batch in one, for operations that take one only; apart() undoes it. `like` has the
  // axes of the batch.
  std::string together(const OnnxOperand&, const Ints& dims);
  std::string apart(const std::string& name, const OnnxOperand& like, const Ints& dims);
  // The operand with as many axes as the result, for broadcasting.
  std::string aligned(const OnnxOperand&, std::size_t rank);
  std::string aligned(std::size_t k) { return aligned(in[k], value.shape.rank()); }
  // Repeated to these dims, and over the batch of `like` (null: no batch).
  std::string expanded(const OnnxOperand&, const Ints& dims, const OnnxOperand* like);
  // The first operand with a value per sample.
  const OnnxOperand* per_sample_operand() const;

  // Refuses the node: its name, its operation, and why.
  [[noreturn]] void refuse(const std::string& why) const;
};

// A node that has no counterpart.
struct NotInOnnx {
  std::string message;
};

// Translates a node and returns the name of its result.
using NodeTranslation = std::string (*)(NodeExport&);
using NodeTranslations = std::map<std::string_view, NodeTranslation>;
void list_elementwise_translations(NodeTranslations&);
void list_shape_translations(NodeTranslations&);
void list_image_translations(NodeTranslations&);
void list_sequence_translations(NodeTranslations&);
void list_recurrent_translations(NodeTranslations&);

}  // namespace tutti::interchange
