// SPDX-License-Identifier: Apache-2.0
// Shared by all update rules, in the order of docs/optimizers.md: clip, L2, rule, noise, L1. Elementwise work is done
// in blocks that stay in the first-level cache, so options cost no extra memory traffic. Work on a whole parameter (its
// norm, its mean multiplier) waits for the last of its chunks, and clipping by the global norm for the last of all, so
// results do not depend on chunk sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/cuda_library.h"
#include "optim/rules.h"

namespace tutti::optim {

const Kernels& best_kernels() {
  return *of_widest_set([]<InstructionSet set>() { return &kernels<set>(); });
}

const Kernels& kernels_for(const FloatMemory& memory) {
  if (is_host(memory)) return best_kernels();
  return *cuda_function<const Kernels*()>("tutti_cuda_optim_kernels")();
}

namespace {

class RuleOptimizer final : public Optimizer {
 public:
  RuleOptimizer(const OptimizerOptions& o, const Kernels& k) : options_(o), k_(&k), rule_(make_rule(o, k)) {}

  void bind(Parameters& p) override {
    p_ = &p;
    if (!is_host(p.weights.memory())) {
      k_ = &kernels_for(p.weights.memory());
      rule_ = make_rule(options_, *k_);
    }
    rule_->bind(p);
    if (sums()) sums_ = FloatBuffer(sums() * sizeof(double) / sizeof(float), p.weights);
    chunks_.assign(p.slices.size(), 0);
    arrived_.assign(p.slices.size(), 0);
    for (const GradientChunk& chunk : p.chunks) ++chunks_[chunk.slice];
    all_chunks_.resize(p.chunks.size());
    std::iota(all_chunks_.begin(), all_chunks_.end(), std::size_t{0});
  }

  void begin_step(const StepScalars& s) override {
    std::fill(arrived_.begin(), arrived_.end(), 0);
    all_arrived_ = 0;
    step_ = s;
    skip_ = s.columns == 0 || s.learning_rate <= 0.01 * options_.min_learning_rate;
    if (skip_) return;
    ++updates_;
    limit_ = options_.clipping_per_sample * static_cast<double>(s.columns);
    if (sums()) k_->clear_sums(squares_of(0), sums());
    rule_->begin_step(s);
  }

  void update(std::size_t index) override { update_all({&index, 1}); }

  void update_all(std::span<const std::size_t> chunks) override {
    if (skip_) return;
    if (!clips_globally()) return update_together(chunks);
    assert(all_arrived_ + chunks.size() <= all_chunks_.size());
    all_arrived_ += chunks.size();
    if (all_arrived_ < all_chunks_.size()) return;
    clip_global_norm();
    update_together(all_chunks_);
  }

  void reset_momentum() override { rule_->reset_momentum(); }

  Summed summed() const override { return rule_->summed(); }
  bool wants_contributions() const override { return rule_->wants_contributions(); }
  const float* mask() const override { return rule_->mask(); }
  void contribute(std::size_t index, int ranks) override {
    if (skip_) return;
    const GradientChunk& chunk = p_->chunks[index];
    for_runs(chunk.slice, chunk.first_column, chunk.columns, [&](const Run& r) { rule_->contribute(r, ranks); });
  }

  void archive(Archive& a) override {
    if (p_) p_->weights.memory().synchronize();
    std::string name = rule_->name();
    a("rule", name);
    if (name != rule_->name())
      throw Error(
          fmt::format("the checkpoint was written with gradUpdateType = {}, this run has {}", name, rule_->name()));
    a("updates", updates_);
    rule_->archive(a);
  }

  bool works_on_parts() const override { return !waits() && !clips_globally(); }
  bool works_on_parameters() const override { return !clips_globally(); }

  std::string describe() const override {
    std::string text = rule_->describe();
    if (clips())
      text += fmt::format(", gradients clipped {} {:g} per sample",
                          options_.clip_by_truncation ? "element-wise at" : "to norm", options_.clipping_per_sample);
    if (clips_globally())
      text += fmt::format(", all gradients together clipped to norm {:g} per sample", options_.global_norm_per_sample);
    if (options_.l2 > 0) text += fmt::format(", L2 {:g}", options_.l2);
    if (options_.l1 > 0) text += fmt::format(", L1 {:g}", options_.l1);
    if (options_.noise > 0) text += fmt::format(", noise {:g}", options_.noise);
    return text;
  }

 private:
  void update_together(std::span<const std::size_t> chunks) {
    if (k_->begin_together) k_->begin_together();
    for (const std::size_t chunk : chunks) update_one(chunk);
    if (k_->end_together) k_->end_together();
  }

  void update_one(std::size_t index) {
    const GradientChunk& chunk = p_->chunks[index];
    if (!waits()) return elementwise(chunk.slice, chunk.first_column, chunk.columns);
    assert(arrived_[chunk.slice] < chunks_[chunk.slice]);
    if (++arrived_[chunk.slice] < chunks_[chunk.slice]) return;
    if (clips() && !options_.clip_by_truncation) clip_norm(chunk.slice);
    if (rule_->needs_sums(p_->slices[chunk.slice])) return by_sums(chunk.slice);
    elementwise(chunk.slice, 0, p_->slices[chunk.slice].columns);
  }

  bool clips() const { return std::isfinite(options_.clipping_per_sample); }
  bool clips_globally() const { return std::isfinite(options_.global_norm_per_sample); }
  bool waits() const { return rule_->sums() != Rule::Sums::none || (clips() && !options_.clip_by_truncation); }

  float rate(const Slice& s) const { return static_cast<float>(step_.learning_rate * s.learning_rate_multiplier); }

  // Sums over a parameter, three for each: squared gradients, what scale() adds up, squared weights. Then squared
  // gradients of the parameters without and with a shard.
  std::size_t sums() const { return waits() || clips_globally() ? 3 * p_->slices.size() + 2 : 0; }
  double* squares_of(std::size_t slice) { return reinterpret_cast<double*>(sums_.data()) + 3 * slice; }
  double* global_squares() { return squares_of(p_->slices.size()); }

  // Of a parameter that several ranks hold parts of: the sums over all parts. Collective, so updates of such parameters
  // come when backward is over on this rank, in the order of the slices (train/gradient_reduction.h).
  void sum_parts(std::size_t slice, std::span<double> sums) {
    const auto& shard = p_->slices[slice].shard;
    if (!shard || shard->single) return;
    if (k_->end_together) k_->end_together();
    p_->weights.memory().synchronize();
    p_->sum_over_shards(sums);
    if (k_->begin_together) k_->begin_together();
  }

  void clip_norm(std::size_t slice) {
    float* g = p_->gradients.data();
    double* const squares = squares_of(slice);
    const std::size_t columns = p_->slices[slice].columns;
    for_runs(slice, 0, columns, [&](const Run& r) { k_->run(Squares{g + r.offset}, r.count, squares); });
    sum_parts(slice, {squares, 1});
    for_runs(slice, 0, columns, [&](const Run& r) { k_->run(LimitNorm{g + r.offset, squares, limit_}, r.count); });
  }

  // The sum of all squares in a fixed order, at once and not with what is launched together: the host may add to it.
  void clip_global_norm() {
    float* g = p_->gradients.data();
    const auto of_all = [&](const auto& body) {
      for (std::size_t s = 0; s < p_->slices.size(); ++s)
        for_runs(s, 0, p_->slices[s].columns, [&](const Run& r) { body(p_->slices[s].shard.has_value(), r); });
    };
    double* const squares = global_squares();
    of_all([&](bool shard, const Run& r) { k_->run(Squares{g + r.offset}, r.count, squares + (shard ? 1 : 0)); });
    // Where rank 0 holds every parameter, the others have no chunk and never come here.
    const bool several =
        std::any_of(p_->slices.begin(), p_->slices.end(), [](const Slice& s) { return !s.shard || !s.shard->single; });
    if (p_->slices.back().shard) {
      p_->weights.memory().synchronize();
      if (several) p_->sum_over_shards({squares + 1, 1});
      squares[0] += squares[1];
    }
    const double limit = options_.global_norm_per_sample * static_cast<double>(step_.columns);
    of_all([&](bool, const Run& r) { k_->run(LimitNorm{g + r.offset, squares, limit}, r.count); });
  }

  // Calls body for the runs of elements to update: all columns, or the sparse rows of the step.
  template <class Body>
  void for_runs(std::size_t slice, std::size_t first_column, std::size_t columns, const Body& body) const {
    const Slice& s = p_->slices[slice];
    const double decay = s.regularization_multiplier;
    if (!s.sparse_gradient) return body(Run{s.offset + first_column * s.rows, columns * s.rows, false, decay});
    const auto& rows = p_->sparse_rows[slice];
    const std::size_t size = s.sparse_by_row ? 1 : s.rows, repeats = s.sparse_by_row ? s.columns : 1;
    for (std::size_t r = 0; r < repeats; ++r)
      for (std::size_t i = 0; i < rows.size();) {
        const std::size_t first = i++;
        while (i < rows.size() && rows[i] == rows[i - 1] + 1) ++i;
        body(Run{s.offset + r * s.rows + rows[first] * size, (i - first) * size, true, decay});
      }
  }

  template <class Body>
  void for_blocks(std::size_t slice, std::size_t first_column, std::size_t columns, const Body& body) const {
    for_runs(slice, first_column, columns, [&](const Run& run) {
      for (std::size_t i = 0; i < run.count; i += k_->block)
        body(Run{run.offset + i, std::min(k_->block, run.count - i), run.sparse, run.decay});
    });
  }

  void before_rule(const Slice& s, const Run& r) {
    float* g = p_->gradients.data() + r.offset;
    if (clips() && options_.clip_by_truncation) k_->run(Truncate{g, static_cast<float>(limit_)}, r.count);
    const double l2 = options_.l2 * s.regularization_multiplier * static_cast<double>(step_.columns) * rule_->unit();
    if (l2 > 0) k_->run(AddScaled{g, p_->weights.data() + r.offset, static_cast<float>(l2)}, r.count);
  }

  void after_rule(const Slice& s, const Run& r) {
    float* w = p_->weights.data() + r.offset;
    if (options_.noise > 0)
      k_->run(Noise{w, options_.noise, static_cast<std::uint64_t>(updates_), r.offset + s.shift}, r.count);
    const double l1 = step_.learning_rate * s.learning_rate_multiplier * options_.l1 * s.regularization_multiplier *
                      static_cast<double>(step_.columns);
    if (l1 > 0) k_->run(Shrink{w, static_cast<float>(l1)}, r.count);
  }

  bool bare() const {
    return !(clips() && options_.clip_by_truncation) && options_.l2 == 0 && options_.l1 == 0 && options_.noise == 0;
  }

  void elementwise(std::size_t slice, std::size_t first_column, std::size_t columns) {
    const Slice& s = p_->slices[slice];
    const float r = rate(s);
    if (bare()) return for_runs(slice, first_column, columns, [&](const Run& run) { rule_->apply(run, r); });
    for_blocks(slice, first_column, columns, [&](const Run& part) {
      before_rule(s, part);
      rule_->apply(part, r);
      after_rule(s, part);
    });
  }

  void by_sums(std::size_t slice) {
    const Slice& s = p_->slices[slice];
    ParameterSums sums{squares_of(slice) + 1, squares_of(slice) + 2};
    for_blocks(slice, 0, s.columns, [&](const Run& part) {
      before_rule(s, part);
      rule_->scale(part, sums.scaled);
      sums.count += static_cast<double>(part.count);
    });
    if (rule_->sums() == Rule::Sums::scaled_and_weights)
      for_runs(slice, 0, s.columns,
               [&](const Run& r) { k_->run(Squares{p_->weights.data() + r.offset}, r.count, sums.weights); });
    sum_parts(slice, {sums.scaled, 2});
    sum_parts(slice, {&sums.count, 1});
    for_blocks(slice, 0, s.columns, [&](const Run& part) {
      rule_->descend(part, rate(s), sums);
      after_rule(s, part);
    });
  }

  const OptimizerOptions options_;
  const Kernels* k_;
  std::unique_ptr<Rule> rule_;
  Parameters* p_ = nullptr;
  std::vector<std::size_t> chunks_, arrived_;  // per slice
  std::vector<std::size_t> all_chunks_;        // in their order
  std::size_t all_arrived_ = 0;
  FloatBuffer sums_;  // where the weights are
  StepScalars step_;
  double limit_ = 0;
  bool skip_ = true;
  std::int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& o, const Kernels& k) {
  return std::make_unique<RuleOptimizer>(o, k);
}

}  // namespace tutti::optim

namespace tutti {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& o) {
  return optim::make_optimizer(o, optim::best_kernels());
}

int state_per_weight(const OptimizerOptions& o) {
  return static_cast<int>(optim::make_rule(o, optim::best_kernels())->states());
}

}  // namespace tutti
