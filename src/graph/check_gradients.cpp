// SPDX-License-Identifier: Apache-2.0
// Gradient check. The criterion is summed in double, but the values it sums are single precision: steps are large and
// the difference is refined by Richardson's extrapolation, which takes the error of the large step away again.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

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

// The criterion along one weight.
class Along {
 public:
  Along(float& weight, double criterion, std::function<double()> pass)
      : weight_(weight), kept_(weight), criterion_(criterion), pass_(std::move(pass)) {}

  // Between the weight changed by `from` and by `to`.
  double slope(double from, double to) const {
    const auto [x0, y0] = at(from);
    const auto [x1, y1] = at(to);
    return (y1 - y0) / (x1 - x0);
  }

  // Whether `gradient` is one of those at a kink, as ReLU and maxima have: it lies between the slopes of the two sides.
  // At a jump these grow when the step gets shorter.
  bool has_kink(double gradient, double step, double margin, double noise) const {
    const auto sides = [&](double s) { return std::minmax({slope(-s, 0), slope(0, s)}); };
    const auto [low, high] = sides(step);
    const auto [near_low, near_high] = sides(step / 2);
    if (near_high - near_low > 1.5 * (high - low) + noise) return false;
    return low - margin <= gradient && gradient <= high + margin;
  }

 private:
  std::pair<double, double> at(double change) const {
    if (change == 0) return {kept_, criterion_};
    weight_ = static_cast<float>(kept_ + change);
    const double x = weight_, y = pass_();
    weight_ = kept_;
    return {x, y};
  }

  float& weight_;
  const float kept_;
  const double criterion_;
  const std::function<double()> pass_;
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
      const double h = options.step * std::max(1.0, std::fabs(static_cast<double>(weight)));
      const Along along(weight, criterion, pass);
      const double numeric = (4 * along.slope(-h / 2, h / 2) - along.slope(-h, h)) / 3;
      const double exact = analytic[slice.offset + i], error = std::fabs(exact - numeric);
      const double noise = 4e-7 * (1 + std::fabs(criterion)) / h;
      if (error <= options.tolerance * std::max(std::fabs(exact), std::fabs(numeric)) + noise) continue;
      constexpr double shorter = 32;  // the step, beside a kink
      if (!along.has_kink(exact, h / shorter, error / 4 + noise, 4 * shorter * noise))
        wrong.push_back({slice.name, i, exact, numeric});
    }
  pass();
  network.keep_states(true);
  network.set_mode(mode);
  return wrong;
}

}  // namespace tutti
