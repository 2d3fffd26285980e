// SPDX-License-Identifier: Apache-2.0
// builder.h -- writes nodes and constants into a graph of ONNX: the main graph, or the body of a Scan, whose nodes may
// use the main graph's names.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tutti::interchange {

using Ints = std::vector<std::int64_t>;
using OnnxAttribute = std::variant<std::int64_t, float, std::string, Ints, const onnx::GraphProto*>;
using OnnxAttributes = std::vector<std::pair<const char*, OnnxAttribute>>;

// What all graphs of a model share: names, which must be unique, and constants, which stand in the main graph.
class OnnxNames {
 public:
  explicit OnnxNames(onnx::GraphProto& main) : main_(main) {}
  // `wanted` itself, or with a number appended.
  std::string fresh(const std::string& wanted);
  void reserve(const std::string& name) { used_.insert(name); }
  std::string floats(std::span<const float> values, const Ints& dims);
  std::string ints(const Ints& values);  // a vector
  // A parameter of the model under its own name.
  void parameter(const std::string& name, const Ints& dims, std::span<const float> values);

 private:
  onnx::TensorProto& tensor(const std::string& name, onnx::TensorProto::DataType, const Ints& dims);
  onnx::GraphProto& main_;
  std::set<std::string> used_;
  std::map<std::string, std::string> constants_;  // by type, dims and bytes
};

class OnnxBuilder {
 public:
  // `batch_axes`: the number of axes of the batch, before those of a sample.
  OnnxBuilder(onnx::GraphProto& graph, OnnxNames& names, std::size_t batch_axes)
      : graph_(graph), names_(names), batch_axes_(batch_axes) {}

  std::size_t batch_axes() const { return batch_axes_; }
  OnnxNames& names() { return names_; }
  onnx::GraphProto& graph() { return graph_; }

  // Adds a node and returns the name of its (first) result. Names begin with the prefix of the current node.
  std::string op(const char* type, const std::vector<std::string>& inputs, const OnnxAttributes& = {});
  // The same with several results of given names.
  void op(const char* type, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
          const OnnxAttributes&);
  void begin_node(const std::string& prefix) { prefix_ = prefix; }
  // Gives the result the name, by renaming what the last node made, or by an Identity.
  std::string named(const std::string& result, const std::string& name);

  std::string scalar(float v) { return names_.floats(std::span(&v, 1), {}); }
  std::string slice(const std::string& x, std::int64_t begin, std::int64_t end, std::int64_t axis,
                    std::int64_t step = 1);
  // The first `count` dimensions of x followed by `dims`, as a shape.
  std::string shape_like(const std::string& x, std::int64_t count, const Ints& dims);

 private:
  onnx::GraphProto& graph_;
  OnnxNames& names_;
  std::size_t batch_axes_;
  std::string prefix_;
};

constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t to_the_begin = std::numeric_limits<std::int64_t>::min();

// A float tensor in a graph's list of inputs or outputs. Dimensions are numbers or names; "" is unknown.
using Dimension = std::variant<std::int64_t, std::string>;
void describe_value(onnx::ValueInfoProto&, const std::string& name, const std::vector<Dimension>&);

// Removes nodes and constants that no output needs.
void remove_unused(onnx::GraphProto&);

}  // namespace tutti::interchange
