// SPDX-License-Identifier: Apache-2.0
// A directory that lasts as long as a test, whole files as strings, and a small model.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "train/model_file.h"
#include "tutti/error.h"

namespace tutti::testing {

class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& f : std::filesystem::directory_iterator(path_)) names.push_back(f.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void spill(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);  // file systems are slow to replace what they hold
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// The message of the Error that `work` throws; "" when it throws none.
template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// out = W x + b with a label and a criterion; the values lie in `numbers`.
struct SmallModel {
  graph::Graph graph;
  std::vector<float> numbers = std::vector<float>(8);
  ModelView view;

  SmallModel() {
    using graph::Attribute;
    const auto node = [&](std::string name, std::string operation, std::vector<std::size_t> inputs,
                          std::map<std::string, Attribute> attributes) {
      graph.nodes.push_back({std::move(name), std::move(operation), std::move(inputs), std::move(attributes), {}});
    };
    node("features", "InputValue", {}, {{"dims", std::vector<double>{3}}});
    node("labels", "InputValue", {}, {{"dims", std::vector<double>{2}}, {"sparse", true}});
    node("W", "LearnableParameter", {}, {{"dims", std::vector<double>{2, 3}}, {"init", std::string("uniform")}});
    node("b", "LearnableParameter", {},
         {{"dims", std::vector<double>{2}}, {"init", std::string("fixedValue")}, {"learningRateMultiplier", 0.0}});
    node("W.x", "Times", {2, 0}, {{"outputRank", 1.0}});
    node("z", "Plus", {4, 3}, {});
    node("ce", "CrossEntropyWithSoftmax", {1, 5}, {});
    graph.features = {0}, graph.labels = {1}, graph.criteria = {6}, graph.outputs = {5};
    view.graph = &graph;
    view.values = {{"W", {{2, 3}}, std::span(numbers).first(6)}, {"b", {{2}}, std::span(numbers).last(2)}};
  }
  SmallModel(const SmallModel&) = delete;
};

}  // namespace tutti::testing
