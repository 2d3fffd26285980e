// SPDX-License-Identifier: Apache-2.0
#include "interchange/onnx/recurrence.h"

#include <fmt/format.h>

namespace tutti::interchange {
namespace {

std::vector<Dimension> step_dims(const Ints& dims) {
  std::vector<Dimension> all = {std::string("batch")};
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}

}  // namespace

Scan::Scan(OnnxBuilder& outside, std::string name, bool backwards)
    : outside_(outside), name_(std::move(name)), backwards_(backwards), body_(graph_, outside.names(), 1) {
  graph_.set_name(outside.names().fresh(name_ + "/body"));
  body_.begin_node(name_ + "/step");
}

std::string Scan::body_input(const char* kind, const Ints& dims) {
  const std::string name = outside_.names().fresh(fmt::format("{}/{}", name_, kind));
  describe_value(*graph_.add_input(), name, step_dims(dims));
  return name;
}

std::string Scan::state(const std::string& initial, const Ints& dims) {
  initial_.push_back(initial);
  next_.emplace_back();
  state_dims_.push_back(dims);
  return body_input("state", dims);
}

std::string Scan::input(const std::string& outside, const Ints& dims) {
  scanned_.push_back(outside);
  return body_input("input", dims);
}

void Scan::next(std::size_t i, const std::string& in_body) { next_[i] = in_body; }

void Scan::output(const std::string& in_body, const std::string& outside, const Ints& dims) {
  outputs_.emplace_back(in_body, dims);
  collected_.push_back(outside);
}

// Results of a body have names of their own: the same value may be several of them.
void Scan::body_output(const std::string& value, const char* kind, const Ints& dims) {
  const std::string name = outside_.names().fresh(fmt::format("{}/{}", name_, kind));
  body_.op("Identity", {value}, std::vector{name}, {});
  describe_value(*graph_.add_output(), name, step_dims(dims));
}

void Scan::finish() {
  for (std::size_t i = 0; i < next_.size(); ++i) body_output(next_[i], "next", state_dims_[i]);
  for (const auto& [value, dims] : outputs_) body_output(value, "result", dims);
  std::vector<std::string> inputs = initial_, outputs;
  inputs.insert(inputs.end(), scanned_.begin(), scanned_.end());
  for (std::size_t i = 0; i < next_.size(); ++i) outputs.push_back(outside_.names().fresh(name_ + "/last"));
  outputs.insert(outputs.end(), collected_.begin(), collected_.end());
  OnnxAttributes attributes = {{"body", &graph_}, {"num_scan_inputs", static_cast<std::int64_t>(scanned_.size())}};
  if (backwards_) {
    attributes.emplace_back("scan_input_directions", Ints(scanned_.size(), 1));
    attributes.emplace_back("scan_output_directions", Ints(collected_.size(), 1));
  }
  outside_.op("Scan", inputs, outputs, attributes);
}

}  // namespace tutti::interchange
