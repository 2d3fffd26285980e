// SPDX-License-Identifier: Apache-2.0
// The index of the largest element of a sample whose elements several ranks hold, for ClassificationError.
#include <array>

#include "graph/kernels/rank_kernel.h"

namespace tutti::graph {
namespace {

// The index in the shard of the first largest element of each sample.
class IndexOfLargest final : public Kernel {
 public:
  explicit IndexOfLargest(Instruction i) : Kernel(std::move(i)) {
    reads_no_values();
    differentiable[0] = false;
    replayable = false;
    work_per_column = code.in[0].elements;
  }
  void forward(Run& run) const override {
    const std::size_t size = code.in[0].elements, rows = run.rows(code.out);
    if (rows == 0) return;
    if (!numbers_.data()) {
      std::vector<float> numbers(size);
      for (std::size_t i = 0; i < size; ++i) numbers[i] = static_cast<float>(i);
      run.backend.upload(numbers.data(), numbers_.reserve(run.backend, size), size);
    }
    float* const work = run.work[code.out.tensor];
    const Extent extent{rows, size, 1};
    run.backend.softmax(SoftmaxOp::hardmax, extent, in(run, 0), work);
    Layout l;
    l.rank = 2, l.size = {size, rows};
    l.stride[0] = {1, size}, l.stride[1] = {1, 0}, l.stride[3] = {1, size};
    const std::array<const float*, 2> operands{work, numbers_.data()};
    run.backend.combine(PointOp::times, l, operands, work);
    run.backend.reduce(ReduceOp::sum, extent, work, out(run));
  }

 private:
  mutable DeviceBuffer numbers_;
};

// The index of the largest element of each sample, from the largest value of each shard (input 0) and its index in the
// shard (input 1). Of equal values the first counts.
class ArgMaxOfRanks final : public RankKernel {
 public:
  explicit ArgMaxOfRanks(Instruction i) : RankKernel(std::move(i)) { differentiable = {false, false}; }
  void forward(Run& run) const override {
    const std::size_t n = run.count(code.out);
    mine_.resize(2 * n), index_.resize(n);
    run.backend.download(in(run, 0), mine_.data(), n);
    run.backend.download(in(run, 1), mine_.data() + n, n);
    const auto first = static_cast<float>(features(run, me(run)).first);
    for (std::size_t i = n; i < 2 * n; ++i) mine_[i] += first;
    const auto& all = values_of_all(run, mine_.data(), 2 * n);
    for (std::size_t i = 0; i < n; ++i) {
      float best = all[0][i];
      index_[i] = all[0][n + i];
      for (const float* theirs : all)
        if (theirs[i] > best) best = theirs[i], index_[i] = theirs[n + i];
    }
    if (n > 0) run.backend.upload(index_.data(), out(run), n);
  }

 private:
  mutable std::vector<float> mine_, index_;
};

}  // namespace

void list_largest_of_ranks(Makers& makers) {
  makers.insert({{"IndexOfLargest", make<IndexOfLargest>}, {"ArgMaxOfRanks", make<ArgMaxOfRanks>}});
}

}  // namespace tutti::graph
