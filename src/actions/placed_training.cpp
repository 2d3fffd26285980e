// SPDX-License-Identifier: Apache-2.0
#include "actions/placed_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "actions/compute_speed.h"
#include "comm/agreement.h"
#include "optim/sharded_optimizer.h"
#include "parallel/groups/groups.h"
#include "parallel/hybrid/gather_weights.h"
#include "parallel/hybrid/hybrid_method.h"
#include "parallel/local_gradients.h"

namespace tutti::actions {
namespace {

// Whether the norm of all gradients would be of two minibatches: those of divided layers come before those of the
// others. Between groups both are late.
bool clips_too_early(const Training& t) {
  const ParallelTrainOptions& p = t.sgd.parallel;
  return std::isfinite(t.sgd.optimizer.global_norm_per_sample) && (p.groups.any() ? p.inside() : p).delayed();
}

bool shards_optimizer(const Training& t) { return t.sgd.shard_optimizer && t.world->size() > 1; }

// The gradient bits, samples and state that the cost of a placement depends on.
StepOfLayers step_of_layers(const Training& t) {
  StepOfLayers step;
  step.ranks = t.layer_ranks->size();
  step.samples = static_cast<double>(t.sgd.minibatch_size.at(0)) * step.ranks / t.world->size();
  // Layers are divided inside a group.
  const ParallelTrainOptions& p = t.sgd.parallel;
  const MethodOptions method = p.groups.any() ? p.inside().method : p.method;
  if (const auto* o = std::get_if<DataParallelOptions>(&method))
    step.bits = static_cast<double>(std::min<std::int64_t>(o->gradient_bits.at(0), 32));
  if (const auto* o = std::get_if<AsaOptions>(&method)) step.bits = o->bits.codec().bits;
  step.state = state_per_weight(t.sgd.optimizer);
  step.shards_state = shards_optimizer(t);
  step.single = !p.delayed();
  step.compute = t.compute;
  step.shard = !clips_too_early(t);
  return step;
}

}  // namespace

void check_shard_optimizer(const ActionContext& context, Training& t) {
  if (!t.sgd.shard_optimizer) return;
  const SourcePos where = context.command.block("SGD").value("shardOptimizer").where;
  const ParallelTrainOptions& p = t.sgd.parallel;
  const bool together = context.parallel || t.world->size() == 1;
  const bool alike = together && p.sums_gradients() && p.keeps_step() && !p.groups.any();
  if (!alike)
    context.problem(where, "shardOptimizer needs ranks that make every update together, with the same gradients",
                    "use it with DataParallelSGD or ASA (exchange = gradients), without groups");
  else if (t.sgd.faults.on_divergence == OnDivergence::majority)
    context.problem(where, "shardOptimizer: onDivergence = majority copies the whole optimizer, which no rank has",
                    "onDivergence = stop");
  else if (t.sgd.optimizer.noise > 0)
    context.problem(where, "shardOptimizer: gaussianNoiseInjectStd would draw other noise than without it",
                    "remove one of the two");
  else if (!make_optimizer(t.sgd.optimizer)->works_on_parameters() || t.sgd.optimizer.rule == UpdateRule::one_bit_adam)
    context.problem(where, "shardOptimizer: this optimizer needs the gradients of all parameters",
                    "no clippingGlobalNormPerSample, and another gradUpdateType than oneBitAdam");
  else if (t.world->size() == 1)
    context.notice("shardOptimizer has no effect: the only rank keeps the whole state of the optimizer");
}

void place_layers(const ActionContext& context, Training& t, const graph::Graph& graph, NetworkOptions& options) {
  if (!t.sgd.model_parallel) return;
  // On one rank, too, the names of layers are checked.
  auto layers = place_dense_layers(*t.sgd.model_parallel, Network::dense_layers(graph, options),
                                   t.layer_ranks ? t.layer_ranks->size() : 1, *context.problems);
  if (!t.layer_ranks) return;
  const StepOfLayers step = step_of_layers(t);
  choose_placements(layers, step, t.link);
  options.model_parallel.ranks = t.layer_ranks.get();
  if (Communicator* ranks = t.same_parts.get())
    options.model_parallel.sum_over_same_parts = [ranks](std::span<double> sums) { ranks->all_reduce_sum(sums); };
  options.model_parallel.in_parts =
      t.sgd.max_samples_in_ram > 0 || t.sgd.num_subminibatches > 1 || t.sgd.gradient_accumulation > 1;
  for (const PlacedLayer& l : layers)
    if (l.placement != Placement::replicate) options.model_parallel.layers[l.layer.weight] = l.placement;
  if (t.sgd.parallel.delayed() && std::ranges::count(layers, Placement::single, &PlacedLayer::placement) > 0)
    context.problem(context.command.block("SGD").block("ModelParallel").where(),
                    "ModelParallel: a layer on a single rank does not go with gradients that come one minibatch late",
                    "shard or replicate, or useBufferedAsyncGradientAggregation = false");
  if (clips_too_early(t) && !options.model_parallel.layers.empty())
    context.problem(context.command.block("SGD").value("clippingGlobalNormPerSample").where,
                    "clippingGlobalNormPerSample needs all gradients of a minibatch at once; with ModelParallel and "
                    "useBufferedAsyncGradientAggregation those of divided layers come one minibatch earlier",
                    "useBufferedAsyncGradientAggregation = false, dense = replicate, or clippingThresholdPerSample");
  t.placement = placement_table(layers, step);
}

void make_layer_ranks(const ActionContext& context, ComputeType type, Training& t) {
  if (!t.sgd.model_parallel) return;
  const auto block = context.command.block("SGD").block("ModelParallel");
  const auto refuse = [&](const char* what, const char* fix) { context.problem(block.where(), what, fix); };
  const ParallelTrainOptions& p = t.sgd.parallel;
  const bool grouped = p.groups.any();
  const bool sums = (grouped ? p.inside().sums_gradients() : p.sums_gradients()) && p.keeps_step();
  const char* const no_effect = "ModelParallel has no effect: ParallelTrain does not let the ranks train together";
  if (!p.exchanges()) return context.notice(no_effect);
  if (!sums)
    return refuse("ModelParallel needs ranks that make every step together and sum their gradients",
                  "use it with DataParallelSGD or ASA (exchange = gradients), or with one of these inside groups");
  if (t.sgd.truncated)
    return refuse("ModelParallel does not work with truncated sequences",
                  "remove truncated, or the block ModelParallel");
  if (t.sgd.gradient_check)
    return refuse("gradientcheck does not work with ModelParallel",
                  "check the gradients on one rank, without the block");
  if (t.sgd.optimizer.rule == UpdateRule::one_bit_adam)
    return refuse("oneBitAdam does not work with ModelParallel", "gradUpdateType = adam");
  if (t.sgd.faults.on_divergence == OnDivergence::majority)
    return refuse("onDivergence = majority copies whole weights, which ranks with ModelParallel do not have",
                  "onDivergence = stop");
  if (t.sgd.optimizer.noise > 0)
    return refuse("gaussianNoiseInjectStd does not work with ModelParallel: ranks would draw other noise",
                  "remove gaussianNoiseInjectStd, or the block ModelParallel");
  if (!context.parallel) return context.notice(no_effect);
  if (t.world->size() == 1) return;
  const GroupLayout layout = grouped ? lay_out_groups(p.groups, *t.world) : GroupLayout();
  if (grouped && !layout.even())
    return context.problem(block.where(),
                           fmt::format("ModelParallel needs groups of one size, and there are {}", layout.text()),
                           "start as many ranks for every group, or remove the block ModelParallel");
  t.layer_ranks = t.world->split(layout.group);
  if (grouped) t.same_parts = t.world->split(t.layer_ranks->rank());
  if (!t.sgd.model_parallel->chooses()) return;
  t.link = slowest(measure_link(*t.layer_ranks), *t.world);
  t.compute = slowest(measure_compute(context.device, type, *t.layer_ranks), *t.world);
}

bool needs_all_ranks(const Training& t) { return t.layer_ranks || shards_optimizer(t); }

std::string divided_layers(const Training& t) {
  std::string text = fmt::format(", layers divided among {}", t.layer_ranks->size());
  for (const Slice& s : t.network->parameters().slices)
    if (s.shard) text += fmt::format(" {}:{}", s.name, s.shard->single ? "single" : std::to_string(s.shard->axis));
  return text;
}

ParallelTrainOptions summing_in_step(ParallelTrainOptions p) {
  p.method = DataParallelOptions();
  for (ParallelTrainOptions& level : p.inside_groups.level) level = summing_in_step(level);
  return p;
}

ParallelMethod make_placed_method(const ParallelTrainOptions& parallel, Training& t, Communicator& world) {
  ParallelMethod common = make_method(parallel, {world, t.run_optimizer});
  if (shards_optimizer(t))
    common.weights = std::make_unique<GatherWeights>(
        optimizer_ranges(t.network->parameters(), *make_optimizer(t.sgd.optimizer), world.size()), world);
  if (!t.layer_ranks) return common;
  if (!parallel.groups.any()) return make_hybrid(std::move(common), NoExchange().make({*t.layer_ranks}));
  auto alike = world.split(t.layer_ranks->rank());
  ParallelTrainOptions between = parallel;
  between.groups = {};
  ParallelMethod shards = make_method(between, {*alike, t.run_optimizer});
  shards.communicators.push_back(std::move(alike));
  return make_hybrid(std::move(common), std::move(shards));
}

std::unique_ptr<Optimizer> make_placed_optimizer(Training& t) {
  const auto make = [&t] { return make_optimizer(t.sgd.optimizer); };
  if (shards_optimizer(t)) return std::make_unique<ShardedOptimizer>(make, *t.world);
  return make();
}

}  // namespace tutti::actions
