// SPDX-License-Identifier: Apache-2.0
// Gradient check. The criterion is summed in double, but the values it sums are single precision: steps are large and
// the difference is refined by Richardson's extrapolation, which takes the error of the large step away again.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tutti/gradient_check.h"

namespace tutti {
namespace {

class NoSink : public GradientSink {
 public:
  void chunk_ready(std::size_t) override {}
};

std::vector<std::size_t> chosen(std::size_t size, std::size_t entries, std::mt19937_64& engine) {
  std::vector<std::size_t> all(size);
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (entries == 0 || entries >= size) return all;
  for (std::size_t i = 0; i < entries; ++i) std::swap(all[i], all[i + engine() % (size - i)]);
  all.resize(entries);
  return all;
}

// What every pass moves on, such as running statistics.
class Moved {
 public:
  explicit Moved(Network& network) : network_(network) {
    network.synchronize();
    for (const auto& s : network.state()) kept_.emplace_back(s.values.begin(), s.values.end());
  }
  void put_back() {
    network_.synchronize();
    const auto states = network_.state();
    for (std::size_t i = 0; i < kept_.size(); ++i)
      std::copy(kept_[i].begin(), kept_[i].end(), states[i].values.begin());
  }

 private:
  Network& network_;
  std::vector<std::vector<float>> kept_;
};

}  // namespace

std::vector<GradientMismatch> check_gradients(Network& network, const Batch& batch,
                                              const GradientCheckOptions& options) {
  NoSink sink;
  // The criterion of this rank, so statistics of this rank.
  const NetworkMode mode = network.mode();
  NetworkMode alone = mode;
  alone.sum_over_ranks = nullptr;
  network.set_mode(alone);
  // Every pass begins with the same statistics and states of truncated sequences, and so does the step behind the
  // check.
  network.keep_states(false);
  Moved moved(network);
  const auto pass = [&] {
    const double criterion = network.forward_backward(batch, sink).criterion;
    moved.put_back();
    return criterion;
  };
  const double criterion = pass();
  Parameters& p = network.parameters();
  const std::vector<float> analytic(p.gradients.data(), p.gradients.data() + p.gradients.size());
  std::mt19937_64 engine(options.seed);
  std::vector<GradientMismatch> wrong;
  for (const auto& slice : p.slices)
    for (const auto i : chosen(slice.size(), options.entries, engine)) {
      float& weight = p.weights.data()[slice.offset + i];
      const float kept = weight;
      const auto difference = [&](double h) {
        weight = static_cast<float>(kept + h);
        const double up = weight;
        const double above = pass();
        weight = static_cast<float>(kept - h);
        const double below = pass();
        const double numeric = (above - below) / (up - weight);
        weight = kept;
        return numeric;
      };
      const double h = options.step * std::max(1.0, std::fabs(static_cast<double>(kept)));
      const double numeric = (4 * difference(h / 2) - difference(h)) / 3;
      const double exact = analytic[slice.offset + i];
      const double noise = 4e-7 * (1 + std::fabs(criterion)) / h;
      if (!(std::fabs(exact - numeric) <= options.tolerance * std::max(std::fabs(exact), std::fabs(numeric)) + noise))
        wrong.push_back({slice.name, i, exact, numeric});
    }
  pass();
  network.keep_states(true);
  network.set_mode(mode);
  return wrong;
}

}  // namespace tutti
