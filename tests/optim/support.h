// SPDX-License-Identifier: Apache-2.0
// Parameters of random shapes cut into random chunks, and an archive in memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "tutti/archive.h"
#include "tutti/optimizer.h"

namespace tutti::testing {

using Floats = std::vector<float>;

inline Floats copy(const FloatBuffer& b) { return Floats(b.data(), b.data() + b.size()); }

// Slices of the given (rows, columns), each one chunk.
inline Parameters make_parameters(const std::vector<std::pair<std::size_t, std::size_t>>& sizes) {
  Parameters p;
  std::size_t offset = 0;
  for (const auto& [rows, columns] : sizes) {
    Slice s;
    s.name = std::to_string(p.slices.size());
    s.shape = {{rows, columns}};
    s.offset = offset, s.rows = rows, s.columns = columns;
    offset += (rows * columns + 15) / 16 * 16;
    p.chunks.push_back({p.slices.size(), 0, columns});
    p.slices.push_back(s);
  }
  p.weights = FloatBuffer(offset);
  p.gradients = FloatBuffer(offset);
  return p;
}

// Fills the slices (not the padding) with normal numbers, some exactly 0.
inline void fill(FloatBuffer& b, const Parameters& p, std::mt19937& engine, float sigma) {
  std::normal_distribution<float> normal(0, sigma);
  for (const Slice& s : p.slices)
    for (std::size_t i = 0; i < s.size(); ++i) b.data()[s.offset + i] = engine() % 13 == 0 ? 0.0f : normal(engine);
}

// Cuts every slice into random runs of columns, but for sparse ones, which are one chunk, and shuffles the chunks.
inline void cut(Parameters& p, std::mt19937& engine) {
  p.chunks.clear();
  for (std::size_t i = 0; i < p.slices.size(); ++i)
    for (std::size_t c = 0; c < p.slices[i].columns;) {
      const std::size_t left = p.slices[i].columns - c;
      const std::size_t n = p.slices[i].sparse_gradient ? left : std::min<std::size_t>(left, 1 + engine() % 4);
      p.chunks.push_back({i, c, n});
      c += n;
    }
  std::shuffle(p.chunks.begin(), p.chunks.end(), engine);
}

class MemoryArchive final : public Archive {
 public:
  using Entry = std::variant<bool, std::int64_t, double, std::string, Floats>;
  bool reading = false;
  std::map<std::string, Entry> entries;

  bool loading() const override { return reading; }
  bool has(std::string_view name) const override { return !reading || entries.count(std::string(name)); }
  void operator()(std::string_view n, bool& v) override { visit(n, v); }
  void operator()(std::string_view n, std::int64_t& v) override { visit(n, v); }
  void operator()(std::string_view n, double& v) override { visit(n, v); }
  void operator()(std::string_view n, std::string& v) override { visit(n, v); }
  void operator()(std::string_view n, std::span<float> v) override {
    Floats f(v.begin(), v.end());
    visit(n, f);
    if (f.size() != v.size()) throw std::runtime_error("wrong size");
    std::copy(f.begin(), f.end(), v.begin());
  }

 private:
  template <class T>
  void visit(std::string_view name, T& v) {
    if (reading)
      v = std::get<T>(entries.at(std::string(name)));
    else if (!entries.emplace(std::string(name), v).second)
      throw std::runtime_error("twice: " + std::string(name));
  }
};

inline void step(Optimizer& o, const Parameters& p, const StepScalars& s) {
  o.begin_step(s);
  for (std::size_t i = 0; i < p.chunks.size(); ++i) o.update(i);
}

}  // namespace tutti::testing
