// SPDX-License-Identifier: Apache-2.0
// sequence_data.h -- ragged minibatches for the tests of recurrence: sequence after sequence, several streams, each on
// lengths of its own.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tutti/network.h"

namespace tutti::test {

// A sequence: for each stream its columns, one after the other.
using Sequence = std::vector<std::vector<float>>;

class SequenceData {
 public:
  explicit SequenceData(std::vector<StreamInfo> streams) : infos(std::move(streams)) {}
  SequenceData(const SequenceData&) = delete;

  const Batch& batch(const std::vector<Sequence>& sequences, std::vector<Fragment> fragments = {}) {
    storage_.assign(infos.size(), {});
    fragments_ = std::move(fragments);
    batch_ = {};
    for (std::size_t k = 0; k < infos.size(); ++k) fill(k, sequences);
    batch_.sequences = static_cast<std::int64_t>(sequences.size());
    for (const auto& s : sequences) batch_.samples += static_cast<std::int64_t>(s[0].size() / infos[0].dim);
    batch_.global_samples = batch_.global_columns = batch_.samples;
    batch_.fragments = fragments_;
    return batch_;
  }

  // `lengths[k][s]`: steps of sequence s in stream k; one list stands for all streams.
  std::vector<Sequence> random(const std::vector<std::vector<std::size_t>>& lengths, unsigned seed = 3) const {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<Sequence> all(lengths[0].size());
    for (std::size_t s = 0; s < all.size(); ++s)
      for (std::size_t k = 0; k < infos.size(); ++k) {
        const std::size_t steps = lengths[std::min(k, lengths.size() - 1)][s];
        std::vector<float> values(steps * infos[k].dim, 0.0f);
        for (std::size_t t = 0; t < steps; ++t)
          if (infos[k].name.starts_with("label") || infos[k].sparse)
            values[t * infos[k].dim + engine() % infos[k].dim] = 1;
          else
            for (std::size_t i = 0; i < infos[k].dim; ++i) values[t * infos[k].dim + i] = draw(engine);
        all[s].push_back(std::move(values));
      }
    return all;
  }

  std::vector<StreamInfo> infos;

 private:
  struct Storage {
    std::vector<float> values;
    std::vector<std::int32_t> indices;
    std::vector<std::int64_t> begin{0}, sequence_begin{0};
    std::size_t columns = 0;
  };
  void fill(std::size_t k, const std::vector<Sequence>& sequences) {
    Storage& stored = storage_[k];
    const std::size_t dim = infos[k].dim;
    for (const auto& s : sequences) {
      const std::size_t steps = s[k].size() / dim;
      stored.columns += steps;
      stored.sequence_begin.push_back(static_cast<std::int64_t>(stored.columns));
      if (!infos[k].sparse) {
        stored.values.insert(stored.values.end(), s[k].begin(), s[k].end());
        continue;
      }
      for (std::size_t t = 0; t < steps; ++t) {
        for (std::size_t i = 0; i < dim; ++i)
          if (const float v = s[k][t * dim + i]; v != 0)
            stored.values.push_back(v), stored.indices.push_back(static_cast<std::int32_t>(i));
        stored.begin.push_back(static_cast<std::int64_t>(stored.values.size()));
      }
    }
    StreamData d;
    d.columns = stored.columns;
    d.sequence_begin = stored.sequence_begin;
    if (infos[k].sparse)
      d.values = stored.values, d.indices = stored.indices, d.column_begin = stored.begin;
    else
      d.dense = stored.values;
    batch_.streams.push_back(d);
  }

  Batch batch_;
  std::vector<Storage> storage_;
  std::vector<Fragment> fragments_;
};

}  // namespace tutti::test
