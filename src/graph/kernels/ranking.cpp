// SPDX-License-Identifier: Apache-2.0
// Criteria over queries: LambdaRank and NDCG1Eval. Documents of a query stand side by side in the minibatch. What is
// sorted is a few numbers per sample, so the host does it for every backend; device memory gets the results.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

// One query: the documents of [first, last) in the order of the data.
struct Query {
  std::span<const float> gains, scores;
  std::vector<std::size_t>& by_gain;  // scratch: documents by descending gain
  std::vector<std::size_t>& by_score;
  std::vector<double>& discount;  // by document: log (2 + its rank by score)

  std::size_t size() const { return gains.size(); }
  static double discount_of(std::size_t rank) { return std::log(2.0 + static_cast<double>(rank)); }

  void rank() {
    by_gain.resize(size()), by_score.resize(size()), discount.resize(size());
    std::iota(by_gain.begin(), by_gain.end(), std::size_t{0});
    std::stable_sort(by_gain.begin(), by_gain.end(), [&](auto a, auto b) { return gains[a] > gains[b]; });
    std::iota(by_score.begin(), by_score.end(), std::size_t{0});
    // Of equal scores the worse document comes first: a model that tells nothing apart earns nothing.
    std::stable_sort(by_score.begin(), by_score.end(), [&](auto a, auto b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : gains[a] < gains[b];
    });
    for (std::size_t r = 0; r < size(); ++r) discount[by_score[r]] = discount_of(r);
  }
  // What the ranking by score is worth, as a share of the best one.
  double ideal() const {
    double sum = 0;
    for (std::size_t r = 0; r < size(); ++r) sum += static_cast<double>(gains[by_gain[r]]) / discount_of(r);
    return sum;
  }
  double ndcg() const {
    const double best = ideal();
    double sum = 0;
    for (std::size_t d = 0; d < size(); ++d) sum += static_cast<double>(gains[d]) / discount[d];
    return best != 0 ? sum / best : 0;
  }
  double ndcg_of_first() const {
    const double best = gains[by_gain[0]];
    return best != 0 ? static_cast<double>(gains[by_score[0]]) / best : 0;
  }
  // Every pair of documents is pulled apart by what exchanging them would change in the NDCG.
  void add_lambdas(std::span<float> lambdas) const {
    const double best = ideal();
    if (best == 0) return;
    for (std::size_t r = 0; r < size(); ++r)
      for (std::size_t s = r + 1; s < size(); ++s) {
        const std::size_t i = by_gain[r], j = by_gain[s];
        if (!(gains[i] > gains[j])) continue;
        const double change = (static_cast<double>(gains[i]) - static_cast<double>(gains[j])) *
                              (1 / discount[j] - 1 / discount[i]) / best;
        const double apart = static_cast<double>(scores[i]) - static_cast<double>(scores[j]);
        const auto lambda = static_cast<float>(-std::fabs(change) / (1 + std::exp(apart)));
        lambdas[i] += lambda, lambdas[j] -= lambda;
      }
  }
};

class Ranking : public Kernel {
 public:
  Ranking(bool first_only, Instruction i) : Kernel(std::move(i)), first_only_(first_only) {
    reads_no_values();
    differentiable = {false, !first_only, false};
    replayable = false;
    sums_in_double = true;
    work_per_column = 2;  // the gradient, and what each sample contributes
  }

  void forward(Run& run) const override {
    const std::size_t n = run.rows(code.in[1]);
    const std::span<const float> gains = read(run, 0, gains_), scores = read(run, 1, scores_),
                                 queries = read(run, 2, queries_);
    lambdas_.assign(n, 0);
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t first = 0, last = 0; first < n; first = last, ++count) {
      while (last < n && queries[last] == queries[first]) ++last;
      if (last == first) last = first + 1;  // not a number
      Query query{gains.subspan(first, last - first), scores.subspan(first, last - first), by_gain_, by_score_,
                  discount_};
      query.rank();
      sum += first_only_ ? query.ndcg_of_first() : query.ndcg();
      if (!first_only_) query.add_lambdas(std::span(lambdas_).subspan(first, last - first));
    }
    const double mean = count ? sum / static_cast<double>(count) : 0;
    auto value = static_cast<float>(100 * (first_only_ ? mean : 1 - mean));
    if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); }))
      value = std::numeric_limits<float>::quiet_NaN();  // must not hide behind the order
    float* work = run.work[code.out.tensor];
    put(run, lambdas_, work);
    run.backend.fill(value, work + n, n);
    const float* values = work + n;
    const Loss loss{LossOp::sum, Extent{n, 1, 1}};
    run.backend.loss(loss, {&values, 1}, nullptr, &run.sums[code.out.tensor], out(run));
  }

  void backward(Run& run) const override {
    // The gradient of a product of the lambdas and the criterion's own gradient, which is one number.
    Layout l;
    l.rank = 1, l.size[0] = run.rows(code.in[1]);
    l.stride[0][0] = l.stride[3][0] = 1, l.stride[1][0] = 0;
    const std::array<const float*, 2> in = {run.work[code.out.tensor], out_gradient(run)};
    run.backend.combine_gradient(PointOp::times, 0, l, in, run.work[code.out.tensor], in_gradient(run, 1),
                                 adds(run, 1));
  }

 private:
  // Columns in the order of the data: where sequences are packed, theirs is another one.
  const SequenceTable* packed(const Run& run) const {
    const SequenceTable& table = run.sequences[code.in[1].axis];
    return table.columns() == run.rows(code.in[1]) && !table.in_stream_order() ? &table : nullptr;
  }
  std::span<const float> read(Run& run, std::size_t k, std::vector<float>& workspace) const {
    const std::size_t n = run.rows(code.in[k]);
    workspace.resize(n);
    const SequenceTable* table = packed(run);
    std::vector<float>& there = table ? run.host : workspace;
    there.resize(n);
    run.backend.download(in(run, k), there.data(), n);
    if (table)
      for (std::size_t c = 0; c < n; ++c) workspace[static_cast<std::size_t>(table->source()[c])] = there[c];
    return workspace;
  }
  void put(Run& run, const std::vector<float>& values, float* there) const {
    const SequenceTable* table = packed(run);
    if (!table) return run.backend.upload(values.data(), there, values.size());
    run.host.resize(values.size());
    for (std::size_t c = 0; c < values.size(); ++c) run.host[c] = values[static_cast<std::size_t>(table->source()[c])];
    run.backend.upload(run.host.data(), there, values.size());
  }

  bool first_only_;
  mutable std::vector<float> gains_, scores_, queries_, lambdas_;  // kept so that their memory is
  mutable std::vector<std::size_t> by_gain_, by_score_;
  mutable std::vector<double> discount_;
};

}  // namespace

void list_ranking(Makers& makers) {
  makers.insert({{"LambdaRank", make<Ranking, false>}, {"NDCG1Eval", make<Ranking, true>}});
}

}  // namespace tutti::graph
