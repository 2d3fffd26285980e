// SPDX-License-Identifier: Apache-2.0
#include "interchange/onnx/builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::interchange {
namespace {

void set_attribute(onnx::NodeProto& node, const char* name, const OnnxAttribute& value) {
  onnx::AttributeProto& a = *node.add_attribute();
  a.set_name(name);
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    a.set_type(onnx::AttributeProto::INT), a.set_i(*i);
  } else if (const auto* f = std::get_if<float>(&value)) {
    a.set_type(onnx::AttributeProto::FLOAT), a.set_f(*f);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    a.set_type(onnx::AttributeProto::STRING), a.set_s(*text);
  } else if (const auto* ints = std::get_if<Ints>(&value)) {
    a.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t v : *ints) a.add_ints(v);
  } else {
    a.set_type(onnx::AttributeProto::GRAPH), *a.mutable_g() = *std::get<const onnx::GraphProto*>(value);
  }
}

// What the nodes of a graph and of the bodies in it read.
void add_used_names(const onnx::NodeProto& node, std::set<std::string>& used) {
  used.insert(node.input().begin(), node.input().end());
  for (const auto& a : node.attribute()) {
    if (!a.has_g()) continue;
    for (const auto& inner : a.g().node()) add_used_names(inner, used);
    for (const auto& out : a.g().output()) used.insert(out.name());
  }
}

}  // namespace

std::string OnnxNames::fresh(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

onnx::TensorProto& OnnxNames::tensor(const std::string& name, onnx::TensorProto::DataType type, const Ints& dims) {
  onnx::TensorProto& t = *main_.add_initializer();
  t.set_name(name);
  t.set_data_type(type);
  for (const std::int64_t d : dims) t.add_dims(d);
  return t;
}

std::string OnnxNames::floats(std::span<const float> values, const Ints& dims) {
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  std::string& name = constants_[fmt::format("float {} {}", fmt::join(dims, " "), bytes)];
  if (!name.empty()) return name;
  name = fresh("constant");
  tensor(name, onnx::TensorProto::FLOAT, dims).set_raw_data(bytes);
  return name;
}

std::string OnnxNames::ints(const Ints& values) {
  std::string& name = constants_[fmt::format("int {}", fmt::join(values, " "))];
  if (!name.empty()) return name;
  name = fresh(fmt::format("shape[{}]", fmt::join(values, ",")));
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
  tensor(name, onnx::TensorProto::INT64, {static_cast<std::int64_t>(values.size())}).set_raw_data(bytes);
  return name;
}

void OnnxNames::parameter(const std::string& name, const Ints& dims, std::span<const float> values) {
  tensor(name, onnx::TensorProto::FLOAT, dims)
      .set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

void OnnxBuilder::op(const char* type, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                     const OnnxAttributes& attributes) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(type);
  node.set_name(names_.fresh(fmt::format("{}/{}", prefix_, type)));
  for (const auto& in : inputs) node.add_input(in);
  for (const auto& out : outputs) node.add_output(out);
  for (const auto& [name, value] : attributes) set_attribute(node, name, value);
}

std::string OnnxBuilder::op(const char* type, const std::vector<std::string>& inputs,
                            const OnnxAttributes& attributes) {
  const std::string result = names_.fresh(fmt::format("{}/{}:0", prefix_, type));
  op(type, inputs, std::vector{result}, attributes);
  return result;
}

std::string OnnxBuilder::named(const std::string& result, const std::string& name) {
  if (graph_.node_size() > 0) {
    onnx::NodeProto& last = *graph_.mutable_node(graph_.node_size() - 1);
    if (last.output_size() == 1 && last.output(0) == result && result.starts_with(prefix_ + "/")) {
      last.set_output(0, name);
      return name;
    }
  }
  op("Identity", {result}, std::vector{name}, {});
  return name;
}

std::string OnnxBuilder::slice(const std::string& x, std::int64_t begin, std::int64_t end, std::int64_t axis,
                               std::int64_t step) {
  return op("Slice", {x, names_.ints({begin}), names_.ints({end}), names_.ints({axis}), names_.ints({step})});
}

std::string OnnxBuilder::shape_like(const std::string& x, std::int64_t count, const Ints& dims) {
  const std::string shape = slice(op("Shape", {x}), 0, count, 0);
  return dims.empty() ? shape : op("Concat", {shape, names_.ints(dims)}, {{"axis", std::int64_t{0}}});
}

void describe_value(onnx::ValueInfoProto& info, const std::string& name, const std::vector<Dimension>& dims) {
  info.set_name(name);
  onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape();
  for (const Dimension& d : dims) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (const auto* number = std::get_if<std::int64_t>(&d))
      dim.set_dim_value(*number);
    else if (const auto& text = std::get<std::string>(d); !text.empty())
      dim.set_dim_param(text);
  }
}

void remove_unused(onnx::GraphProto& graph) {
  std::set<std::string> used;
  for (const auto& out : graph.output()) used.insert(out.name());
  std::vector<bool> keep(static_cast<std::size_t>(graph.node_size()));
  for (int i = graph.node_size(); i-- > 0;) {
    const auto& results = graph.node(i).output();
    keep[static_cast<std::size_t>(i)] = std::ranges::any_of(results, [&](const auto& r) { return used.contains(r); });
    if (keep[static_cast<std::size_t>(i)]) add_used_names(graph.node(i), used);
  }
  for (int i = graph.node_size(); i-- > 0;)
    if (!keep[static_cast<std::size_t>(i)]) graph.mutable_node()->DeleteSubrange(i, 1);
  for (int i = graph.initializer_size(); i-- > 0;)
    if (!used.contains(graph.initializer(i).name())) graph.mutable_initializer()->DeleteSubrange(i, 1);
}

}  // namespace tutti::interchange
