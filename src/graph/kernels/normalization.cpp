// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with its running statistics, local response normalisation.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

// Weight of a minibatch of n samples in the running statistics.
double weight_of_minibatch(double n, double seen, double time_constant) {
  if (seen == 0) return 1;
  if (time_constant < 0) return n / (n + seen);
  return time_constant == 0 ? 1 : 1 - std::exp(-n / time_constant);
}

double weight_of_running(double n, double seen, double time_constant) {
  if (seen == 0) return 0;
  return std::isinf(time_constant) ? 1 : time_constant / (time_constant + n);
}

// Inputs: x, scale, bias, running mean, running variance, samples seen and, after fusion, a value added before ReLU.
class Normalization : public Kernel {
 public:
  explicit Normalization(Instruction i) : Kernel(std::move(i)) {
    const Shape& image = code.in[0].shape;
    const bool spatial = flag(code.node, "spatial", false);
    if (flag(code.node, "training", false)) told_bytes = sizeof(NormalizationWeights);
    op_.epsilon = number(code.node, "epsilon", 1e-5);
    op_.relu = flag(code.node, "relu", false);
    op_.add = code.in.size() > added;
    op_.extent.channels = spatial && image.rank() > 0 ? image.dims.back() : image.elements();
    op_.extent.pixels = image.elements() / std::max<std::size_t>(op_.extent.channels, 1);
    op_.extent.format = code.out.format;
    op_.extent.element = code.out.element;
    time_constant_ = number(code.node, "normalizationTimeConstant", 0);
    blend_ = number(code.node, "blendTimeConstant", 0);
    for (std::size_t k = 3; k < code.in.size(); ++k) reads_input[k] = false;
    reads_input[2] = op_.relu && !op_.add;  // some backends compute again where ReLU passes
    for (const std::size_t k : {3, 4, 5}) differentiable[k] = false;
    reads_output = op_.relu;
    work_fixed = 4 * (op_.extent.channels + 15) / 16 * 16 + 64;
    if (op_.add) in_place = in_place_gradient = static_cast<int>(added);
    if (!training() && !op_.add) in_place = 0;
    synchronized = training() && flag(code.node, "synchronized", false);
    between_groups = flag(code.node, "betweenGroups", false);
  }

  void tell(Run& run, std::byte* to) const override {
    if (!training() || run.rows(code.out) == 0 || over_ranks(run)) return;
    const NormalizationWeights weights = count_samples(run, static_cast<double>(run.rows(code.out)));
    std::memcpy(to, &weights, sizeof weights);
  }

  void forward(Run& run) const override {
    if (run.rows(code.out) == 0 && !over_ranks(run)) return;
    SumOfMoments ranks(*this, run);
    run.backend.images().normalize(described(run, ranks), parameters(run), in(run, 0),
                                   op_.add ? in(run, added) : nullptr, out(run), run.work[code.out.tensor]);
  }

  void backward(Run& run) const override {
    NormalizationGradients g;
    const auto target = [&](std::size_t k, float*& gradient, bool& add) {
      if (k >= code.in.size() || write[k] == Write::none) return;
      gradient = in_gradient(run, k), add = adds(run, k);
    };
    target(0, g.x, g.add_x), target(1, g.scale, g.add_scale), target(2, g.bias, g.add_bias);
    target(added, g.added, g.add_added);
    Sum ranks(*this, run);
    run.backend.images().normalize_gradient(described(run, ranks), parameters(run), in(run, 0), out(run),
                                            out_gradient(run), run.work[code.out.tensor], g);
  }

 private:
  static constexpr std::size_t added = 6;

  // Two sums per channel, and how many values they are of.
  class Sum : public SumOverRanks {
   public:
    Sum(const Normalization& of, Run& run) : of_(of), run_(run) {}
    double sum(std::span<double> sums, double count) override {
      std::vector<double> all(sums.begin(), sums.end());
      all.push_back(count);
      (*of_.sum_over_ranks(run_))(all);
      std::copy(all.begin(), all.end() - 1, sums.begin());
      return all.back();
    }

   protected:
    const Normalization& of_;
    Run& run_;
  };
  // The samples of all ranks say how much the minibatch counts in the running statistics.
  class SumOfMoments final : public Sum {
   public:
    using Sum::Sum;
    double sum(std::span<double> sums, double count) override {
      const double all = Sum::sum(sums, count);
      if (all == 0) return 0;
      const auto weights = of_.count_samples(run_, all / static_cast<double>(of_.op_.extent.pixels));
      constexpr std::size_t floats = sizeof weights / sizeof(float);
      run_.backend.upload(reinterpret_cast<const float*>(&weights),
                          run_.told_there.data() + of_.told_at / sizeof(float), floats);
      return all;
    }
  };

  bool training() const { return told_bytes > 0; }
  bool over_ranks(const Run& run) const { return sum_over_ranks(run) != nullptr; }
  NormalizationWeights count_samples(Run& run, double n) const {
    float* count = run.value(code.in[5]);
    const double seen = samples_seen(count), time_constant = run.normalization_time_constant.value_or(time_constant_);
    const double blend = run.blend_time_constant.value_or(blend_);
    // By the network, whatever the SGD block says, or by the SGD block. The statistics may come from elsewhere.
    const bool frozen =
        (std::isinf(time_constant_) && std::isinf(blend_)) || (std::isinf(time_constant) && std::isinf(blend));
    NormalizationWeights weights;
    weights.running = frozen ? 1 : weight_of_running(n, seen, blend);
    weights.update = frozen ? 0 : weight_of_minibatch(n, seen, time_constant);
    set_samples_seen(count, seen + n);
    return weights;
  }
  BatchNormalization described(const Run& run, SumOverRanks& ranks) const {
    BatchNormalization op = with_columns(op_, run.rows(code.out));
    if (over_ranks(run)) op.ranks = &ranks;
    if (training()) op.weights = reinterpret_cast<const NormalizationWeights*>(told(run));
    return op;
  }
  NormalizationParameters parameters(const Run& run) const {
    return {in(run, 1), in(run, 2), run.value(code.in[3]), run.value(code.in[4])};
  }
  BatchNormalization op_;
  double time_constant_ = 0, blend_ = 0;
};

class ResponseNormalization : public Kernel {
 public:
  explicit ResponseNormalization(Instruction i) : Kernel(std::move(i)) {
    const Shape& image = code.in[0].shape;
    op_.radius = static_cast<std::size_t>(number(code.node, "depthRadius", 0));
    op_.bias = number(code.node, "bias", 1);
    op_.alpha = number(code.node, "alpha", 1);
    op_.beta = number(code.node, "beta", 0.75);
    op_.extent.channels = image.rank() > 0 ? image.dims.back() : 1;
    op_.extent.pixels = image.elements() / std::max<std::size_t>(op_.extent.channels, 1);
    op_.extent.format = code.out.format;
    op_.extent.element = code.out.element;
    work_per_column = code.out.elements;
  }
  void forward(Run& run) const override {
    run.backend.images().respond(described(run), in(run, 0), out(run), run.work[code.out.tensor]);
  }
  void backward(Run& run) const override {
    run.backend.images().respond_gradient(described(run), in(run, 0), out(run), out_gradient(run),
                                          run.work[code.out.tensor], in_gradient(run, 0), adds(run, 0));
  }

 private:
  tutti::ResponseNormalization described(const Run& run) const { return with_columns(op_, run.rows(code.out)); }
  tutti::ResponseNormalization op_;
};

}  // namespace

void list_normalization(Makers& makers) {
  makers.insert(
      {{"BatchNormalization", make<Normalization>}, {"LocalResponseNormalization", make<ResponseNormalization>}});
}

}  // namespace tutti::graph
