// SPDX-License-Identifier: Apache-2.0
// graph_builder.h -- small networks and minibatches for the tests of this folder.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tutti/network.h"

namespace tutti::test {

using graph::Attribute;
using Attributes = std::map<std::string, Attribute>;

class GraphBuilder {
 public:
  std::size_t add(const std::string& operation, const std::string& name, std::vector<std::size_t> inputs = {},
                  Attributes attributes = {}) {
    graph_.nodes.push_back({name, operation, std::move(inputs), std::move(attributes), {}, {}});
    return graph_.nodes.size() - 1;
  }
  std::size_t input(const std::string& name, std::vector<double> dims, bool sparse = false,
                    const std::string& axis = "") {
    return add("InputValue", name, {}, {{"dims", std::move(dims)}, {"sparse", sparse}, {"dynamicAxis", axis}});
  }
  std::size_t parameter(const std::string& name, std::vector<double> dims, double seed = 1, double scale = 10) {
    return add(
        "LearnableParameter", name, {},
        {{"dims", std::move(dims)}, {"init", std::string("uniform")}, {"initValueScale", scale}, {"randomSeed", seed}});
  }
  std::size_t constant(const std::string& name, double value, std::vector<double> dims = {1}) {
    return add("LearnableParameter", name, {},
               {{"dims", std::move(dims)},
                {"init", std::string("fixedValue")},
                {"value", value},
                {"learningRateMultiplier", 0.0}});
  }
  std::size_t criterion(const std::string& operation, const std::string& name, std::vector<std::size_t> inputs,
                        Attributes attributes = {}) {
    graph_.criteria.push_back(add(operation, name, std::move(inputs), std::move(attributes)));
    return graph_.criteria.back();
  }
  std::size_t evaluation(const std::string& operation, const std::string& name, std::vector<std::size_t> inputs,
                         Attributes attributes = {}) {
    graph_.evaluations.push_back(add(operation, name, std::move(inputs), std::move(attributes)));
    return graph_.evaluations.back();
  }
  graph::Graph& graph() { return graph_; }

 private:
  graph::Graph graph_;
};

// Streams with their memory; Batch points into them.
class Data {
 public:
  explicit Data(std::size_t columns) : columns_(columns) {}
  Data(const Data&) = delete;

  void dense(const std::string& name, std::vector<float> values) {
    infos.push_back({name, columns_ ? values.size() / columns_ : values.size(), false});
    dense_.push_back(std::make_unique<std::vector<float>>(std::move(values)));
    StreamData s;
    s.columns = columns_;
    s.dense = *dense_.back();
    batch.streams.push_back(s);
    batch.sequences = batch.samples = batch.global_samples = batch.global_columns = static_cast<std::int64_t>(columns_);
  }
  // Uniform in [low, high).
  void random(const std::string& name, std::size_t dim, float low = -1, float high = 1) {
    std::uniform_real_distribution<float> draw(low, high);
    std::vector<float> values(columns_ * dim);
    for (auto& v : values) v = draw(engine_);
    dense(name, std::move(values));
    infos.back().dim = dim;
  }
  void one_hot(const std::string& name, std::size_t dim) {
    std::vector<float> values(columns_ * dim, 0.0f);
    for (std::size_t c = 0; c < columns_; ++c) values[c * dim + engine_() % dim] = 1;
    dense(name, std::move(values));
    infos.back().dim = dim;
  }
  // The dense stream `of` in compressed columns, zeros left out.
  void sparse_copy(const std::string& name, std::size_t of) {
    auto s = std::make_unique<Sparse>();
    const std::size_t dim = infos[of].dim;
    s->begin.push_back(0);
    for (std::size_t c = 0; c < columns_; ++c) {
      for (std::size_t i = 0; i < dim; ++i)
        if (const float v = (*dense_[of])[c * dim + i]; v != 0)
          s->values.push_back(v), s->indices.push_back(static_cast<std::int32_t>(i));
      s->begin.push_back(static_cast<std::int64_t>(s->values.size()));
    }
    infos.push_back({name, dim, true});
    StreamData d;
    d.columns = columns_;
    d.values = s->values, d.indices = s->indices, d.column_begin = s->begin;
    batch.streams.push_back(d);
    dense_.push_back(nullptr);
    sparse_.push_back(std::move(s));
  }
  std::vector<float>& values(std::size_t stream) { return *dense_[stream]; }

  std::vector<StreamInfo> infos;
  Batch batch;

 private:
  struct Sparse {
    std::vector<float> values;
    std::vector<std::int32_t> indices;
    std::vector<std::int64_t> begin;
  };
  std::size_t columns_;
  std::mt19937 engine_{7};
  std::vector<std::unique_ptr<std::vector<float>>> dense_;
  std::vector<std::unique_ptr<Sparse>> sparse_;
};

// Remembers what was announced.
class Announced : public GradientSink {
 public:
  void chunk_ready(std::size_t chunk) override { order.push_back(chunk); }
  std::vector<std::size_t> order;
};

inline std::vector<float> gradients(Network& n) {
  const auto g = n.parameters().gradients.span();
  return {g.begin(), g.end()};
}

}  // namespace tutti::test
