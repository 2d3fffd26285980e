// SPDX-License-Identifier: Apache-2.0
// Evaluates a data set, divided among the ranks as in training. Used by [Validate], test and cv.
#include <fmt/format.h>
#include <fmt/printf.h>

#include "base/activity.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

void sum_over_ranks(Communicator& world, std::vector<StepMetrics::Evaluation>& sums, std::int64_t& samples) {
  std::vector<double> flat{static_cast<double>(samples)};
  for (const auto& s : sums) flat.insert(flat.end(), {s.sum, s.count});
  world.all_reduce_sum(std::span<double>(flat));
  samples = static_cast<std::int64_t>(flat[0]);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = {flat[1 + 2 * i], flat[2 + 2 * i]};
}

}  // namespace

EvaluationRun evaluate(Network& network, Reader& reader, Communicator& world, const EpochPlan& plan,
                       const EvaluationLines& lines, EvaluationOf what, bool parallel) {
  std::vector<NodeResult> names;
  if (what == EvaluationOf::criterion_first) names.push_back(network.criterion());
  for (const auto& e : network.evaluations()) names.push_back(e);
  EvaluationRun run;
  run.sums.resize(names.size());
  auto since = run.sums;
  std::int64_t samples_since = 0, first = 1;

  // Interval sums are over all ranks, so the ranks communicate only when a line is due.
  const auto close_interval = [&](bool show) {
    if (parallel) sum_over_ranks(world, since, samples_since);
    if (show) log::line(fmt::format("Minibatch[{}-{}]: {}", first, run.minibatches, format_results(names, since)));
    for (std::size_t i = 0; i < since.size(); ++i) run.sums[i].sum += since[i].sum, run.sums[i].count += since[i].count;
    run.samples += samples_since;
    since.assign(since.size(), {});
    samples_since = 0;
    first = run.minibatches + 1;
  };

  network.bind(reader.streams());
  reader.start_epoch(plan);
  const Doing doing("evaluates");
  while (const Batch* batch = reader.next()) {
    made_progress();
    const StepMetrics metrics = network.evaluate(*batch, reader.ahead());
    const auto values = what == EvaluationOf::criterion_first ? criterion_first(metrics) : metrics.evaluations;
    for (std::size_t i = 0; i < since.size(); ++i) since[i].sum += values[i].sum, since[i].count += values[i].count;
    samples_since += batch->samples;
    ++run.minibatches;
    if (lines.interval > 0 && (run.minibatches <= lines.first || run.minibatches % lines.interval == 0))
      close_interval(true);
  }
  close_interval(lines.interval > 0 && first <= run.minibatches);
  return run;
}

}  // namespace tutti
