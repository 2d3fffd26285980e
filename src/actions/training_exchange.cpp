// SPDX-License-Identifier: Apache-2.0
#include "actions/training_exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>

#include "actions/cpu.h"
#include "actions/placed_training.h"
#include "actions/training_settings.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "graph/shapes.h"
#include "parallel/groups/groups.h"
#include "parallel/local_gradients.h"

namespace tutti::actions {

std::int64_t largest_share(const SgdOptions& sgd, int ranks) {
  std::int64_t largest = 0;
  for (auto m : sgd.minibatch_size.values) largest = std::max(largest, m);
  const auto part_of = [](std::int64_t whole, std::int64_t parts) { return whole / parts + (whole % parts != 0); };
  std::int64_t share = part_of(part_of(largest, ranks), std::max<std::int64_t>(sgd.num_subminibatches, 1));
  if (sgd.max_samples_in_ram > 0) share = std::min(share, sgd.max_samples_in_ram);
  return std::max<std::int64_t>(share, 1);
}

namespace {

void make_fault_hook(const ActionContext& context, Training& t) {
  const auto& hook = t.sgd.parallel.fault_hook;
  if (!hook) return;
  t.fault_hook = FaultHook(*hook, t.world->rank());
  const auto block = context.command.block("SGD").block("ParallelTrain").block("faultHook");
  std::vector<std::string> weights;
  for (const Slice& s : t.network->parameters().slices) weights.push_back(s.name);
  if (!hook->flip_weight.empty() && std::ranges::count(weights, hook->flip_weight) == 0)
    context.problem(block.value("flipWeight").where,
                    fmt::format("the network has no parameter '{}'", hook->flip_weight),
                    did_you_mean(hook->flip_weight, weights, fmt::format("one of {}", fmt::join(weights, ", "))));
  if (hook->rank < t.world->size()) return context.notice("faultHook: " + hook->text());
  context.problem(
      block.has_own("rank") ? block.value("rank").where : block.where(),
      fmt::format("faultHook names rank {}, but this run has {} rank{}", hook->rank, t.world->size(),
                  t.world->size() == 1 ? "" : "s"),
      t.world->size() > 1 ? fmt::format("rank = 0 to {}", t.world->size() - 1) : "start the trainer with mpiexec -n 2");
}

// The exchange must support in every step what the optimizer needs, or the run does not start.
void check_contributions(const ActionContext& context, Training& t) {
  if (!t.optimizer->wants_contributions()) return;
  const SourcePos where = context.command.block("SGD").value("gradUpdateType").where;
  if (!t.parallel->method.traits.sums_contributions)
    context.problem(where, "oneBitAdam needs an exchange that sums over all ranks in every step",
                    "use it with DataParallelSGD (without useBufferedAsyncGradientAggregation) or with ASA (exchange = "
                    "gradients, allReduce = sharded), the same within groups, or choose gradUpdateType = adam");
  if (!is_host(t.network->parameters().weights.memory()))
    context.problem(where, "oneBitAdam does not run on a GPU", "deviceId = cpu, or gradUpdateType = adam");
}

// A server has some of the parameters and no norm over all.
void check_global_norm(const ActionContext& context, const Training& t) {
  if (t.optimizer->works_on_parameters() || !t.parallel->method.traits.updates_elsewhere) return;
  context.problem(
      context.command.block("SGD").value("clippingGlobalNormPerSample").where,
      "clippingGlobalNormPerSample does not work where servers apply gradients, as each of them holds a part "
      "of the model",
      "clippingThresholdPerSample with gradientClippingWithTruncation = false, or push = deltas");
}

// The average is that of weights that are equal on all ranks.
void make_average(const ActionContext& context, Training& t, bool together) {
  if (t.sgd.weight_average == 0) return;
  const ParallelMethod& m = t.parallel->method;
  const bool all = m.update_ranks && m.update_ranks->size() == t.world->size();
  const SourcePos where = context.command.block("SGD").value("weightAverage").where;
  if (together && (!all || m.traits.own_updates || m.traits.updates_elsewhere))
    context.problem(where, "weightAverage needs ranks that make every update together and have the same weights",
                    "use it with DataParallelSGD or ASA (exchange = gradients), also between groups, or with one rank "
                    "and parallelizationMethod = none");
  if (t.sgd.faults.on_divergence == OnDivergence::majority)
    context.problem(where, "weightAverage: onDivergence = majority copies weights and not their average",
                    "onDivergence = stop");
  t.average = std::make_unique<WeightAverage>(t.sgd.weight_average);
  if (memory_is_only_planned()) t.average->bind(t.network->parameters());
}

// Statistics over all ranks need every rank in every step.
void check_synchronized(const ActionContext& context, const Training& t) {
  if (t.world->size() == 1 || t.sgd.parallel.keeps_step()) return;
  for (const graph::Node& node : t.network->graph().nodes)
    if (node.operation == "BatchNormalization" && graph::flag(node, "synchronized", false))
      return context.problem(
          node.where,
          fmt::format("BatchNormalization '{}': synchronized = true needs all ranks in every step, but this "
                      "method does not keep ranks in step",
                      node.name),
          "use a synchronous method (DataParallelSGD, ASA, ModelAveragingSGD, BlockMomentumSGD, EASGD, "
          "policy = sync), or set synchronized = false");
}

// This rank's largest share of a minibatch decides.
void plan_memory(const ActionContext& context, Training& t) {
  const int sharing = t.parallel->method.data.share.ranks;
  // Ranks that share the data do so to the end.
  const bool from_the_first = t.warm_start.shares_data || t.warm_start.parallel_throughout(0);
  const std::int64_t share = largest_share(t.sgd, from_the_first ? sharing : 1);
  std::size_t weights = 0;
  for (const auto& slice : t.network->parameters().slices) weights += slice.size();
  t.threads =
      threads_for(6.0 * static_cast<double>(weights) * static_cast<double>(share), context.command, context.device);
  try {
    t.network->plan_training(share);
  } catch (const std::exception& e) {
    const auto sgd = context.command.block("SGD");
    const bool too_large = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
    context.problem(place_of(sgd, "minibatchSize"), too_large ? "this process cannot allocate more memory" : e.what(),
                    fmt::format("this rank computes up to {} samples at once: lower minibatchSize, or "
                                "split minibatches with numSubminibatches or maxSamplesInRAM",
                                share));
    t.parallel.reset();
  }
}

// Which ranks form a group: neighbours, unless the launcher has placed them otherwise.
std::string arrangement(const GroupLayout& layout, Communicator& world) {
  const std::vector<int> groups = from_all(world, layout.group);
  if (std::ranges::is_sorted(groups)) return layout.text();
  return fmt::format("{}, by rank {}", layout.text(), fmt::join(groups, " "));
}

}  // namespace

void make_exchange(const ActionContext& context, Training& t) {
  const int ranks = t.world->size();
  if (t.sgd.faults.message_checksums != ChecksummedMessages::none)
    t.checksummed = make_checksummed(*t.world, t.sgd.faults.message_checksums);
  Communicator& comm = t.checksummed ? *t.checksummed : *t.world;
  ParallelTrainOptions parallel = t.sgd.parallel;
  if (!is_host(t.network->parameters().weights.memory())) parallel.put_on_device();
  const bool together = context.parallel && parallel.exchanges();
  if (!context.parallel && parallel.exchanges())
    context.notice("parallelTrain option is not enabled. ParallelTrain config will be ignored.");
  if (ranks > 1 && !together)
    context.notice(
        fmt::format("{} ranks were started, but every rank trains on its own with all data (set ParallelTrain = [ "
                    "parallelizationMethod = DataParallelSGD ] in SGD)",
                    ranks));
  note_unused_settings(context, t);
  try {
    const auto run = [&](ParallelMethod m) { return std::make_unique<RunningMethod>(std::move(m), t.world->size()); };
    const auto no_exchange = [&t] { return NoExchange().make({*t.world}); };
    t.parallel = run(together ? make_placed_method(parallel, t, comm) : no_exchange());
    if (together) t.warm_start = {parallel.start_epoch - 1, parallel.start_sample, false, needs_all_ranks(t)};
    t.warm_up = run(t.warm_start.shares_data && !t.warm_start.parallel_throughout(0)
                        ? make_placed_method(summing_in_step(parallel), t, comm)
                        : no_exchange());
  } catch (const ConfigError& e) {
    const auto block = context.command.block("SGD").block("ParallelTrain");
    const char* const about = block.has_own("transport") ? "transport" : block.has_own("route") ? "route" : "groups";
    for (const Diagnostic& d : e.diagnostics())
      context.problem(block.has_own(about) ? block.value(about).where : block.where(), d.message, d.fix);
    return;
  } catch (const Error& e) {  // these settings do not go with this run's ranks
    return context.problem(context.command.block("SGD").block("ParallelTrain").where(), e.what());
  }
  check_contributions(context, t);
  check_global_norm(context, t);
  make_average(context, t, together);
  if (together) check_synchronized(context, t);
  t.method_name = t.parallel->method.traits.state_name;
  const bool grouped = together && parallel.groups.any();
  if (t.method_name.empty())
    t.method_name = grouped ? parallel.name() : together ? name_of(parallel.method) : NoExchange::name;
  // Which ranks have which state depends on who forms a group.
  if (t.layer_ranks) t.method_name += divided_layers(t);
  if (grouped) t.method_name += ", " + arrangement(lay_out_groups(parallel.groups, *t.world), *t.world);
  if (std::string warning = together ? single_group_warning(parallel, *t.world) : ""; !warning.empty())
    context.notice(std::move(warning));
  if (together) make_fault_hook(context, t);
  plan_memory(context, t);
}

}  // namespace tutti::actions
