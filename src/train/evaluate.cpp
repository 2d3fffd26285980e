// SPDX-License-Identifier: Apache-2.0
// Passes over a data set without training: evaluation, divided among the ranks as in training, for [Validate], test and
// cv; corpus statistics.
#include <fmt/format.h>
#include <fmt/printf.h>

#include "base/activity.h"
#include "train/checkpointing.h"
#include "train/saved_weights.h"
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
  std::int64_t samples_since = 0, first = 1, planned = 0;

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

  if (what == EvaluationOf::listed_nodes && parallel) warn_of_indivisible_nodes(network, world.size());
  network.bind(reader.streams());
  reader.start_epoch(plan);
  const Doing doing("evaluates");
  while (const Batch* batch = reader.next()) {
    made_progress();
    const StepMetrics metrics = network.evaluate(*batch, reader.ahead());
    const auto values = what == EvaluationOf::criterion_first ? criterion_first(metrics) : metrics.evaluations;
    for (std::size_t i = 0; i < since.size(); ++i) since[i].sum += values[i].sum, since[i].count += values[i].count;
    samples_since += batch->samples;
    planned += batch->global_samples;
    ++run.minibatches;
    if (lines.interval > 0 && (run.minibatches <= lines.first || run.minibatches % lines.interval == 0))
      close_interval(true);
  }
  close_interval(lines.interval > 0 && first <= run.minibatches);
  if (run.samples < planned)
    log::warning(fmt::format("{} of {} samples were skipped: their data are damaged", planned - run.samples, planned));
  return run;
}

std::vector<StepMetrics::Evaluation> validate(Training& t, std::int64_t minibatch) {
  const SavedWeights saved(t);
  share_statistics(t);
  if (!t.cv_reader) return {};
  EpochPlan plan;
  plan.minibatch = minibatch;
  plan.rank = t.world->rank();
  plan.ranks = t.world->size();
  const auto sums = evaluate(*t.network, *t.cv_reader, *t.world, plan).sums;
  t.report->validation(sums);
  return sums;
}

void precompute(Training& t) {
  Network& network = *t.network;
  const auto nodes = network.precompute_nodes();
  if (nodes.empty()) return;
  log::line("");
  log::line(fmt::format("Precomputing --> {} PreCompute nodes found.", nodes.size()));
  log::line("");
  for (const auto& name : nodes) log::line(fmt::format("\t{}", name));
  network.bind(t.reader->streams());
  network.precompute_begin();
  if (t.world->rank() == 0) {
    EpochPlan plan;
    plan.samples = t.sgd.use_all_data_for_precomputed_node ? 0 : t.sgd.epoch_size;
    plan.minibatch = t.sgd.minibatch_size.at(0);
    t.reader->start_epoch(plan);
    while (const Batch* batch = t.reader->next()) network.precompute_accumulate(*batch), made_progress();
  }
  network.precompute_end([&](std::span<float> values) { t.world->broadcast(0, std::as_writable_bytes(values)); });
  log::line("");
  log::line("Precomputing --> Completed.");
  log::line("");
}

}  // namespace tutti
