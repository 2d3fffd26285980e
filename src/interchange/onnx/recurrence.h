// SPDX-License-Identifier: Apache-2.0
// recurrence.h -- recurrences as ONNX's Scan: a body that computes one step from states and the step's inputs. A Scan
// takes any loop, as a network description writes it; ONNX's LSTM and GRU only know their own.
#pragma once

#include <string>
#include <vector>

#include "interchange/onnx/builder.h"

namespace tutti::interchange {

class Scan {
 public:
  // In a graph whose values have the axes (time, batch). `backwards`: from the last step to the first.
  Scan(OnnxBuilder& outside, std::string name, bool backwards);

  OnnxBuilder& body() { return body_; }
  // A state with its initial value, (batch, dims...). Returns its name in the body. States come before inputs.
  std::string state(const std::string& initial, const Ints& dims);
  // A value of the outside, step by step. Returns its name in the body.
  std::string input(const std::string& outside, const Ints& dims);
  // The value of state i after the step.
  void next(std::size_t i, const std::string& in_body);
  // A value of the body, collected over all steps under a name of the outside.
  void output(const std::string& in_body, const std::string& outside, const Ints& dims);
  // Adds the Scan to the outside.
  void finish();

 private:
  std::string body_input(const char* kind, const Ints& dims);
  void body_output(const std::string& value, const char* kind, const Ints& dims);

  OnnxBuilder& outside_;
  std::string name_;
  bool backwards_;
  onnx::GraphProto graph_;
  OnnxBuilder body_;
  std::vector<std::string> initial_, scanned_, collected_, next_;
  std::vector<Ints> state_dims_;
  std::vector<std::pair<std::string, Ints>> outputs_;
};

}  // namespace tutti::interchange
