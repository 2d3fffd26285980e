// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "parallel/groups/grouped_gradients.h"
#include "parallel/groups/grouped_weights.h"
#include "parallel/method_table.h"
#include "tutti/error.h"

namespace tutti {
namespace {

ParallelTrainOptions without_groups(ParallelTrainOptions o) {
  o.groups = {};
  return o;
}

std::string describe(const GroupLayout& layout, const Strategy* between, const Strategy* inside) {
  return fmt::format("{}: between them {}; within them {}", layout.text(),
                     between ? between->describe() : "exchanged by other ranks",
                     inside ? inside->describe() : "exchanged by other ranks");
}

struct Groups {
  GroupLayout layout;  // of the ranks that work
  bool works = true;   // this rank does; otherwise it has a number behind those of all groups
};

Groups groups_of(const ParallelTrainOptions& o, Communicator& comm) {
  const int servers = ranks_that_serve(o), workers = comm.size() - servers;
  if (servers == 0) return {lay_out_groups(o.groups, comm), true};
  if (workers <= 0)
    throw ConfigError(
        {},
        fmt::format("servers = {} leaves no worker among {} rank{}", servers, comm.size(), comm.size() == 1 ? "" : "s"),
        "start more ranks, or servers = 0, where ranks serve beside their work");
  check_groups(o.groups, workers);
  const bool works = comm.rank() < workers;
  const auto alike = comm.split(works ? 0 : 1);
  Groups groups{works ? lay_out_groups(o.groups, *alike) : GroupLayout(), works};
  auto sizes = static_cast<std::int64_t>(groups.layout.sizes.size());
  comm.broadcast(0, std::as_writable_bytes(std::span(&sizes, 1)));
  groups.layout.sizes.resize(static_cast<std::size_t>(sizes));
  comm.broadcast(0, std::as_writable_bytes(std::span(groups.layout.sizes)));
  if (!works) groups.layout.group = static_cast<int>(sizes) + comm.rank() - workers;
  return groups;
}

// Two levels of sums by the library of the GPUs would begin in an order that differs from rank to rank: each could wait
// for the other for ever.
void leave_devices_to(const Strategy& inside, ParallelTrainOptions& between, Communicator& comm) {
  std::int64_t groups = inside.sums_on_devices();
  comm.all_reduce_sum(std::span(&groups, 1));
  if (groups == 0) return;
  if (between.transport == Transport::nccl)
    throw ConfigError({}, "transport = nccl between groups: NCCL sums within the groups, and can do one of both",
                      "leave transport out here, or transport = messages in insideGroups");
  between.transport = Transport::messages;
}

// The first ranks of every group, as many as the smallest has, divide the columns among themselves.
std::unique_ptr<Strategy> gradients_between_gradients(const ParallelTrainOptions& o, GroupLayout layout,
                                                      Communicator& comm) {
  GroupParts parts;
  const int inter_group_ranks = layout.smallest();
  parts.group = comm.split(layout.group);
  parts.peers = comm.split(std::min(layout.local, inter_group_ranks));
  parts.tells = parts.group->split(0);
  parts.inside = make_method(o.inside(), *parts.group);
  ParallelTrainOptions between = without_groups(o);
  leave_devices_to(*parts.inside, between, comm);
  if (layout.local < inter_group_ranks) parts.between = make_method(between, *parts.peers);
  std::int64_t contributes = parts.between && parts.between->sums_contributions() && parts.inside->sums_contributions();
  parts.group->broadcast(0, std::as_writable_bytes(std::span(&contributes, 1)));
  parts.contributes = contributes != 0;
  parts.layout = std::move(layout);
  return std::make_unique<GroupedGradients>(std::move(parts), inter_group_ranks);
}

// The first rank of a group exchanges weights for all of it. Ranks that serve stand alone, behind all groups.
std::unique_ptr<Strategy> weights_between(const ParallelTrainOptions& o, const Groups& groups, Communicator& comm) {
  const GroupLayout& layout = groups.layout;
  WeightLevels levels;
  levels.lower_ranks = comm.split(layout.group);
  levels.upper_ranks = comm.split(layout.local == 0 ? 0 : 1);
  levels.lower = groups.works ? make_method(o.inside(), *levels.lower_ranks) : make_local_strategy(*levels.lower_ranks);
  if (layout.local == 0) levels.upper = make_method(without_groups(o), *levels.upper_ranks);
  levels.counts = levels.lower->steps_alone() ? levels.lower->counts_once() : layout.local == 0;
  levels.text = describe(layout, levels.upper.get(), levels.lower.get());
  if (meets_at_servers(o)) {
    levels.free = true;
    levels.workers = layout.groups(), levels.servers = ranks_that_serve(o);
    levels.tells = levels.lower_ranks->split(0);
    levels.runs_behind = runs_behind(o.inside());
    levels.updates_above = o.method == ParallelMethod::asgd && o.servers.push == ServerOptions::Push::gradients;
    levels.state = "servers: " + o.name();
    levels.text += uses_work_queue(o) ? "; a group takes the next work unit when it is free"
                                      : "; every rank has its share of each minibatch";
  }
  return std::make_unique<GroupedWeights>(std::move(levels), comm);
}

// Peers with the same place in their groups train as one; within a group weights meet. Groups do all the same then.
std::unique_ptr<Strategy> gradients_between_weights(const ParallelTrainOptions& o, const GroupLayout& layout,
                                                    Communicator& comm) {
  if (!layout.even())
    throw ConfigError({},
                      fmt::format("{} between groups that exchange weights needs groups of one size, and there are {}",
                                  method_entry(o.method).name, layout.text()),
                      "start as many ranks on every node, or exchange gradients in insideGroups");
  WeightLevels levels;
  levels.lower_ranks = comm.split(layout.local);
  levels.upper_ranks = comm.split(layout.group);
  levels.lower = make_method(without_groups(o), *levels.lower_ranks);
  levels.upper = make_method(o.inside(), *levels.upper_ranks);
  levels.leaders_act = false;
  levels.counts = layout.group == 0;
  levels.text = describe(layout, levels.lower.get(), levels.upper.get());
  return std::make_unique<GroupedWeights>(std::move(levels), comm);
}

}  // namespace

std::string single_group_warning(const ParallelTrainOptions& o, Communicator& comm) {
  if (!o.groups.any()) return {};
  const int workers = comm.size() - ranks_that_serve(o);
  if (workers < 2 || groups_of(o, comm).layout.groups() > 1) return {};
  const char* const method = method_entry(o.method).name;
  const std::string effect =
      sums_gradients(without_groups(o))
          ? fmt::format("nothing is exchanged between groups, and {} within the group is all that happens",
                        o.inside().name())
          : fmt::format("{} runs with one worker, the group, in which {} works", method, o.inside().name());
  return fmt::format("groups = {} makes one group of all {} ranks: {}. fix: {}", o.groups.text(), workers, effect,
                     o.groups.kind == GroupOptions::Kind::by_node
                         ? "start ranks on more nodes, or groups = n:2 for two groups"
                         : "groups = n:2 for two groups");
}

std::unique_ptr<Strategy> make_grouped(const ParallelTrainOptions& o, Communicator& comm) {
  const Groups groups = groups_of(o, comm);
  const GroupLayout& layout = groups.layout;
  const int workers = comm.size() - ranks_that_serve(o);
  if (layout.groups() == workers) return make_method(without_groups(o), comm);
  // One group is one worker of a method that exchanges weights, and its rules (block momentum, a center) still hold.
  if (!sums_gradients(without_groups(o))) return weights_between(o, groups, comm);
  if (layout.groups() == 1) return make_method(o.inside(), comm);  // the sum over one group is the sum
  return sums_gradients(o.inside()) ? gradients_between_gradients(o, layout, comm)
                                    : gradients_between_weights(o, layout, comm);
}

}  // namespace tutti
