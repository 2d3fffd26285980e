// SPDX-License-Identifier: Apache-2.0
// Conversions between placements, for layers that several ranks compute together (placement.h). The columns of "own"
// values are this rank's samples, those of "all" values the samples of all ranks in rank order. A shard holds a range
// of the elements of each sample. The gradient of a conversion is the opposite one.
#include <algorithm>
#include <utility>

#include "graph/kernels/rank_kernel.h"

namespace tutti::graph {
namespace {

enum class Conversion { all_gather, reduce_scatter, to_features, to_samples, gather, fragment, replicate, reduce };
constexpr Conversion opposite(Conversion c) {
  using enum Conversion;
  switch (c) {
    case all_gather:
      return reduce_scatter;
    case reduce_scatter:
      return all_gather;
    case to_features:
      return to_samples;
    case to_samples:
      return to_features;
    case gather:
      return fragment;
    case fragment:
      return gather;
    case replicate:
      return reduce;
    case reduce:
      return replicate;
  }
  return c;
}

class Convert final : public RankKernel, public OverlappedBackward {
 public:
  Convert(Conversion c, Instruction i) : RankKernel(std::move(i)), conversion_(c) {}
  void forward(Run& run) const override {
    convert(run, conversion_, in(run, 0), run.count(code.in[0]), out(run), run.count(code.out), false);
  }
  void backward(Run& run) const override {
    if (std::exchange(started_, false)) return finish_reduce_scatter(run, in_gradient(run, 0), adds(run, 0));
    convert(run, opposite(conversion_), out_gradient(run), run.count(code.out), in_gradient(run, 0),
            run.count(code.in[0]), adds(run, 0));
  }
  void start_backward(Run& run) const override {
    started_ = conversion_ == Conversion::all_gather && run.backend.is_host() && write[0] != Write::none;
    if (started_) start_reduce_scatter(run, out_gradient(run));
  }
  void poll() const override {
    if (started_) poll_transfers();
  }

 private:
  void convert(Run& run, Conversion c, const float* from, std::size_t from_count, float* to, std::size_t count,
               bool add) const {
    on_host(run, from, from_count, to, count, add, [&](const float* x, float* y) {
      switch (c) {
        case Conversion::all_gather:
          return all_gather(run, x, y);
        case Conversion::reduce_scatter:
          return reduce_scatter(run, x, y);
        case Conversion::to_features:
          return to_features(run, x, y);
        case Conversion::to_samples:
          return to_samples(run, x, y);
        case Conversion::gather:
          return gather_at_first(run, x, y);
        case Conversion::fragment:
          return scatter_from_first(run, x, y);
        case Conversion::replicate:
          if (me(run) == 0) std::copy_n(x, count, y);
          return broadcast_from_first(run, y, samples(run) * width_);
        case Conversion::reduce:
          return reduce_at_first(run, x, y);
      }
    });
  }
  // Rank 0 sums the values of all ranks for all samples.
  void reduce_at_first(Run& run, const float* x, float* y) const {
    const std::size_t each = samples(run) * width_;
    const auto& terms = values_of_all(run, x, each, true);
    if (me(run) == 0) sum(terms, each, y, false);
  }

  Conversion conversion_;
  mutable bool started_ = false;
};

// The sum or the largest value over the ranks of a few values per sample.
class AllReduce final : public RankKernel {
 public:
  explicit AllReduce(Instruction i) : RankKernel(std::move(i)), largest_(text(code.node, "op") == "Max") {
    differentiable[0] = !largest_;
  }
  void forward(Run& run) const override { reduce(run, in(run, 0), out(run), false); }
  void backward(Run& run) const override { reduce(run, out_gradient(run), in_gradient(run, 0), adds(run, 0)); }

 private:
  void reduce(Run& run, const float* x, float* y, bool add) const {
    const std::size_t count = run.count(code.out);
    on_host(run, x, count, y, count, add, [&](const float* mine, float* all) {
      const auto& terms = values_of_all(run, mine, count);
      if (!largest_) return sum(terms, count, all, false);
      std::copy_n(terms[0], count, all);
      for (const float* t : terms)
        for (std::size_t i = 0; i < count; ++i) all[i] = std::max(all[i], t[i]);
    });
  }
  bool largest_;
};

// This rank's samples of a value that every rank has for all samples. No gradient flows through it.
class OwnSamples final : public RankKernel {
 public:
  explicit OwnSamples(Instruction i) : RankKernel(std::move(i)) {
    differentiable[0] = false;
    crosses_ranks = false;
  }
  void forward(Run& run) const override {
    const ShardRange own = samples(run, me(run));
    run.backend.map(UnaryOp::copy, in(run, 0) + own.first * width_, out(run), own.size() * width_);
  }
};

// This rank's features of a sparse input that was gathered from all ranks.
class DensifyShard final : public Kernel {
 public:
  explicit DensifyShard(Instruction i) : Kernel(std::move(i)) {
    reads_no_values();
    differentiable[0] = false;
    replayable = false;
  }
  void forward(Run& run) const override {
    const auto first = static_cast<std::int32_t>(number(code.node, "first", 0));
    const auto size = static_cast<std::int32_t>(code.out.elements);
    const SparseView& x = run.sparse[code.in[0].tensor];
    values_.clear(), indices_.clear(), begin_.assign(1, 0);
    for (std::size_t c = 0; c < x.columns; ++c) {
      for (auto k = static_cast<std::size_t>(x.begin[c]); k < static_cast<std::size_t>(x.begin[c + 1]); ++k)
        if (const std::int32_t index = x.indices[k] - first; index >= 0 && index < size)
          values_.push_back(x.values[k]), indices_.push_back(index);
      begin_.push_back(static_cast<std::int64_t>(values_.size()));
    }
    run.backend.densify({x.columns, values_.data(), indices_.data(), begin_.data()}, code.out.elements, out(run));
  }

 private:
  mutable std::vector<float> values_;
  mutable std::vector<std::int32_t> indices_;
  mutable std::vector<std::int64_t> begin_;
};

}  // namespace

void list_ranks(Makers& makers) {
  using enum Conversion;
  makers.insert({{"AllGather", make<Convert, all_gather>},
                 {"ReduceScatter", make<Convert, reduce_scatter>},
                 {"SamplesToShards", make<Convert, to_features>},
                 {"ShardsToSamples", make<Convert, to_samples>},
                 {"Gather", make<Convert, gather>},
                 {"Fragment", make<Convert, fragment>},
                 {"Replicate", make<Convert, replicate>},
                 {"Reduce", make<Convert, reduce>},
                 {"AllReduce", make<AllReduce>},
                 {"OwnSamples", make<OwnSamples>},
                 {"DensifyShard", make<DensifyShard>}});
  list_largest_of_ranks(makers);
}

}  // namespace tutti::graph
