// SPDX-License-Identifier: Apache-2.0
// training.h -- what the strategy tests share: parameters of odd shapes, gradients that depend on rank and step only,
// and a step loop as the trainer's, with plain gradient descent in whole numbers of halves (so that it is exact).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "../support/reference_quantizer.h"
#include "tutti/strategy.h"

namespace tutti::training {

using Shapes = std::vector<std::pair<std::size_t, std::size_t>>;  // rows, columns

// Where parameters lie; another memory than the host's is a device's.
inline const FloatMemory* parameter_memory = &host_memory();

// Chunks of at most `columns_per_chunk` columns.
inline Parameters parameters_of(const Shapes& shapes, std::size_t columns_per_chunk = 1000) {
  Parameters p;
  std::size_t size = 0;
  for (const auto& [rows, columns] : shapes) {
    Slice slice;
    slice.name = "slice" + std::to_string(p.slices.size());
    slice.shape.dims = {rows, columns};
    slice.offset = size, slice.rows = rows, slice.columns = columns;
    for (std::size_t c = 0; c < columns; c += columns_per_chunk)
      p.chunks.push_back({p.slices.size(), c, std::min(columns_per_chunk, columns - c)});
    size += (rows * columns + 15) / 16 * 16;
    p.slices.push_back(slice);
  }
  p.weights = FloatBuffer(size, *parameter_memory);
  p.gradients = FloatBuffer(size, *parameter_memory);
  return p;
}

inline std::vector<float> gradient(const Parameters& p, int rank, int step, bool whole_numbers = false) {
  std::vector<float> g(p.size());
  std::mt19937 random(static_cast<unsigned>(1000 * rank + step));
  for (const Slice& s : p.slices)
    for (std::size_t i = 0; i < s.size(); ++i)
      g[s.offset + i] = whole_numbers ? static_cast<float>(static_cast<int>(random() % 201) - 100)
                                      : static_cast<float>(random()) / 2e9f - 1.0f;
  return g;
}

inline StepMetrics metrics(int rank, int step) {
  StepMetrics t;
  t.samples = 10 + rank, t.columns = 12 + rank + step;
  t.criterion = 1.0 / (3 + rank + 10 * step), t.criterion_count = 10 + rank;
  t.evaluations = {{1.0 / (7 + rank), 10.0 + rank}, {static_cast<double>(step), 1}};
  return t;
}

// Receives global gradients: checks the order, keeps them, counts chunks.
class Collector : public ReducedGradientSink {
 public:
  explicit Collector(Parameters& p) : parameters_(p) {}
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    EXPECT_EQ(chunk, next_) << "chunks come in the order of announcement";
    next_ = (chunk + 1) % parameters_.chunks.size();
    if (chunk == 0) sums.emplace_back(parameters_.size()), columns_of.push_back(columns);
    EXPECT_EQ(columns, columns_of.back());
    const GradientChunk& p = parameters_.chunks[chunk];
    const std::size_t at = parameters_.offset(p);
    parameters_.gradients.memory().synchronize();
    for (std::size_t i = at; i < at + parameters_.count(p); ++i) sums.back()[i] = parameters_.gradients.data()[i];
  }
  std::vector<std::vector<float>> sums;  // one per update
  std::vector<std::int64_t> columns_of;

 private:
  Parameters& parameters_;
  std::size_t next_ = 0;
};

// One step: the local gradient is produced chunk by chunk, as the network does. On a device the network's writing would
// queue up behind what still reads the gradients; the host's has to wait for it.
inline StepMetrics step(Strategy& strategy, Parameters& p, ReducedGradientSink& sink, const std::vector<float>& local,
                        StepMetrics mine, std::int64_t columns) {
  strategy.begin_step(columns, sink);
  p.gradients.memory().synchronize();
  for (std::size_t i = 0; i < p.chunks.size(); ++i) {
    const std::size_t at = p.offset(p.chunks[i]), n = p.count(p.chunks[i]);
    std::copy_n(local.begin() + static_cast<std::ptrdiff_t>(at), n, p.gradients.data() + at);
    strategy.chunk_ready(i);
  }
  strategy.finish_gradients(mine);
  return mine;
}

// Saves to and loads from memory; a name that was not saved, or of another size, fails the test.
class MemoryArchive : public Archive {
 public:
  bool loading() const override { return loading_; }
  void rewind_to_load() { loading_ = true; }
  void operator()(std::string_view name, bool& v) override { visit(numbers_, name, v); }
  void operator()(std::string_view name, std::int64_t& v) override { visit(numbers_, name, v); }
  void operator()(std::string_view name, double& v) override { visit(reals_, name, v); }
  void operator()(std::string_view name, std::string& v) override { visit(texts_, name, v); }
  void operator()(std::string_view name, std::span<float> v) override {
    std::vector<float>& kept = floats[std::string(name)];
    if (!loading_) kept.assign(v.begin(), v.end());
    ASSERT_EQ(kept.size(), v.size()) << name;
    std::copy(kept.begin(), kept.end(), v.begin());
  }
  bool has(std::string_view name) const override {
    const std::string n(name);
    return !loading_ || numbers_.count(n) || reals_.count(n) || texts_.count(n) || floats.count(n);
  }
  std::map<std::string, std::vector<float>> floats;

 private:
  template <class Kept, class T>
  void visit(std::map<std::string, Kept>& kept, std::string_view name, T& v) {
    const std::string n(name);
    if (!loading_) kept[n] = static_cast<Kept>(v);
    ASSERT_TRUE(kept.count(n)) << name;
    v = static_cast<T>(kept[n]);
  }
  bool loading_ = false;
  std::map<std::string, std::int64_t> numbers_;
  std::map<std::string, double> reals_;
  std::map<std::string, std::string> texts_;
};

}  // namespace tutti::training
