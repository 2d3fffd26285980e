// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "comm/agreement.h"
#include "parallel/groups/chained_gradients.h"
#include "parallel/groups/group_weights.h"
#include "parallel/groups/hierarchical_gradients.h"
#include "parallel/groups/master_weights.h"
#include "parallel/local_gradients.h"
#include "tutti/error.h"

namespace tutti {
namespace {

ParallelTrainOptions without_groups(ParallelTrainOptions o) {
  o.groups = {};
  return o;
}

// Whether weights are exchanged in fragments.
bool streams(const MethodOptions& method) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.stream.settings; }) return o.stream.settings.streams();
        return false;
      },
      method);
}

// Null: other ranks take part in that exchange.
std::string describe(const GroupLayout& layout, const ParallelMethod* between, const ParallelMethod* inside) {
  constexpr const char* others = "exchanged by other ranks";
  return fmt::format("{}: between them {}; within them {}", layout.text(), between ? between->traits.text : others,
                     inside ? inside->traits.text : others);
}

struct Groups {
  GroupLayout layout;  // of the ranks that work
  bool works = true;   // this rank does; otherwise it has a number behind those of all groups
};

Groups groups_of(const ParallelTrainOptions& o, Communicator& comm) {
  const int servers = o.traits().serving_ranks, workers = comm.size() - servers;
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

// Every rank checks the same.
void check_workers(const GroupLayout& layout, int serving) {
  if (layout.smallest() > serving) return;
  throw ConfigError({},
                    fmt::format("insideGroups: servers = {} leaves no worker in a group of {} rank{}", serving,
                                layout.smallest(), layout.smallest() == 1 ? "" : "s"),
                    "larger groups, or servers = 0, where ranks serve beside their work");
}

// With NCCL on both levels, sums could start in an order that differs between ranks, and each could wait for the other.
void leave_devices_to(const ParallelMethod& inside, ParallelTrainOptions& between, Communicator& comm) {
  std::int64_t groups = inside.traits.sums_on_devices;
  comm.all_reduce_sum(std::span(&groups, 1));
  if (groups == 0) return;
  if (between.transport == Transport::nccl)
    throw ConfigError({}, "transport = nccl between groups: NCCL sums within the groups, and can do one of both",
                      "leave transport out here, or transport = messages in insideGroups");
  between.transport = Transport::messages;
}

// The texts of two methods; on some ranks one of them is missing.
void combine_texts(ParallelMethod& m, const ParallelMethod& first, const ParallelMethod* second,
                   const std::string& link = {}) {
  m.loop_text = [a = first.loop_text, b = second ? second->loop_text : nullptr, link](std::int64_t epoch) {
    return a(epoch) + (b ? link + b(epoch) : "");
  };
  m.advice = [a = first.advice, b = second ? second->advice : nullptr](std::int64_t samples) {
    const std::string text = b ? b(samples) : "";
    return text.empty() ? a(samples) : text;
  };
}

// Adds parts that must outlive the method's own.
void keep(ParallelMethod& m, std::vector<std::unique_ptr<Communicator>> more) {
  std::ranges::move(more, std::back_inserter(m.communicators));
}

// The first ranks of every group, as many as the smallest group has, divide the columns among themselves.
ParallelMethod gradients_between_gradients(const ParallelTrainOptions& o, const GroupLayout& layout,
                                           const MethodContext& context) {
  Communicator& comm = context.comm;
  const int inter_group_ranks = layout.smallest();
  std::vector<std::unique_ptr<Communicator>> owned;
  const auto own = [&](std::unique_ptr<Communicator> c) -> Communicator& { return *owned.emplace_back(std::move(c)); };
  Communicator& group = own(comm.split(layout.group));
  Communicator& peers = own(comm.split(std::min(layout.local, inter_group_ranks)));
  HierarchicalGradients::Levels levels;
  levels.group = &own(group.split(0));
  ParallelMethod inside = make_method(o.inside(), {group, context.optimizer});
  ParallelTrainOptions options_between = without_groups(o);
  leave_devices_to(inside, options_between, comm);
  std::optional<ParallelMethod> between;
  if (layout.local < inter_group_ranks) between = make_method(options_between, {peers, context.optimizer});
  std::int64_t contributes = between && between->traits.sums_contributions && inside.traits.sums_contributions;
  group.broadcast(0, std::as_writable_bytes(std::span(&contributes, 1)));

  levels.groups = layout.groups(), levels.inter_group_ranks = inter_group_ranks;
  levels.between_delayed = o.traits().delayed;
  levels.contributes = contributes != 0;
  ParallelMethod m;
  m.traits.text = describe(layout, between ? &*between : nullptr, &inside);
  m.traits.delayed = inside.traits.delayed || levels.between_delayed;
  m.traits.sums_contributions = levels.contributes;
  m.traits.sums_on_devices = inside.traits.sums_on_devices || (between && between->traits.sums_on_devices);
  m.traits.overflow = m.traits.delayed ? OverflowCheck::exchange_zeros : OverflowCheck::agree;
  m.data.share = m.data.unit_share = {comm.rank(), comm.size()};
  m.metrics.per_step = m.update_ranks = &comm;
  m.metrics.other_groups = comm.size() - layout.size();
  combine_texts(m, inside, between ? &*between : nullptr, " between groups");
  keep(m, std::move(owned));
  keep(m, std::move(inside.communicators));
  if (between) keep(m, std::move(between->communicators)), levels.between = std::move(between->gradients);
  levels.inside = std::move(inside.gradients);
  m.gradients = std::make_unique<HierarchicalGradients>(std::move(levels));
  return m;
}

// The group leader exchanges weights for its group. Serving ranks are groups of one, after all others.
ParallelMethod weights_between(const ParallelTrainOptions& o, const Groups& groups, const MethodContext& context) {
  Communicator& comm = context.comm;
  const GroupLayout& layout = groups.layout;
  std::vector<std::unique_ptr<Communicator>> owned;
  owned.push_back(comm.split(layout.group));
  owned.push_back(comm.split(layout.local == 0 ? 0 : 1));
  Communicator &group = *owned[0], &leaders = *owned[1];
  ParallelMethod m = groups.works ? make_method(o.inside(), {group, context.optimizer}) : NoExchange().make({group});
  std::optional<ParallelMethod> outer;
  if (layout.local == 0) outer = make_method(without_groups(o), {leaders, context.optimizer});

  m.traits.text = describe(layout, outer ? &*outer : nullptr, &m);
  combine_texts(m, m, outer ? &*outer : nullptr);
  WeightLevels levels;
  levels.group = &group;
  levels.servers = o.traits().at_servers;
  levels.elastic = std::holds_alternative<EasgdOptions>(o.method);
  if (m.traits.own_updates) levels.inner = std::move(m.weights), levels.inner_streams = streams(o.inside().method);
  if (levels.servers) {
    m.traits.state_name = "servers: " + o.name();
    m.traits.text += o.traits().work_queue ? "; a group takes the next work unit when it is free"
                                           : "; every rank has its share of each minibatch";
    if (const auto* servers = std::get_if<ServerOptions>(&o.method);
        servers && servers->push == ServerOptions::Push::gradients)
      m.traits.updates_elsewhere = true, m.traits.overflow = OverflowCheck::exchange_zeros;
  }
  m.traits.own_updates = true;
  m.traits.sums_contributions = false;
  m.traits.gradients_archived_as = "inside/" + m.traits.gradients_archived_as;
  const int workers = comm.size() - o.traits().serving_ranks;
  m.data = {};
  m.data.share = {comm.rank() < workers ? comm.rank() : -1, workers};
  m.data.unit_share = {0, layout.groups(), group.rank(), group.size()};
  m.metrics.at_drain = &comm;
  keep(m, std::move(owned));
  if (outer) {
    m.data.skipper = outer->data.skipper;
    levels.work_queue = outer->data.work_queue;
    levels.outer = std::move(outer->weights);
    keep(m, std::move(outer->communicators));
  }
  auto weights = std::make_unique<GroupWeights>(std::move(levels));
  m.data.work_queue = [w = weights.get()] { return w->work_queue(); };
  m.weights = std::move(weights);
  return m;
}

// Workers of the groups in front of this one.
int workers_before(const GroupLayout& layout, int group, int serving_in_each) {
  int workers = 0;
  for (int g = 0; g < group && g < layout.groups(); ++g)
    workers += layout.sizes[static_cast<std::size_t>(g)] - serving_in_each;
  return workers;
}

// A hierarchy of masters. Serving ranks between the groups are groups of one, after all others.
ParallelMethod servers_between_servers(const ParallelTrainOptions& o, const Groups& groups,
                                       const MethodContext& context) {
  Communicator& comm = context.comm;
  const GroupLayout& layout = groups.layout;
  const ParallelTrainOptions in = o.inside();
  const int serving = in.traits().serving_ranks;
  if (groups.works) check_workers(layout, serving);
  std::vector<std::unique_ptr<Communicator>> owned;
  owned.push_back(comm.split(layout.group));
  owned.push_back(comm.split(layout.local == 0 ? 0 : 1));
  Communicator &group = *owned[0], &leaders = *owned[1];
  MethodContext of_group{group, context.optimizer};
  of_group.has_master = true;
  ParallelMethod m = groups.works ? make_method(in, of_group) : NoExchange().make({group});
  std::optional<ParallelMethod> outer;
  if (layout.local == 0) outer = make_method(without_groups(o), {leaders, context.optimizer});

  m.traits.text = describe(layout, outer ? &*outer : nullptr, &m) + "; the leader of a group is its master";
  combine_texts(m, m, outer ? &*outer : nullptr);
  m.traits.state_name = "masters: " + o.name();
  m.traits.own_updates = true;
  m.traits.sums_contributions = false;
  const auto* const asgd = std::get_if<ServerOptions>(&in.method);
  if (asgd && asgd->push == ServerOptions::Push::gradients)
    m.traits.updates_elsewhere = true, m.traits.overflow = OverflowCheck::exchange_zeros;

  MasterLevels levels;
  levels.all = &comm, levels.group = &group;
  levels.group_weights = m.served_weights;
  levels.skipper = m.data.skipper;
  levels.works = groups.works && layout.local < layout.size() - serving;
  levels.workers = groups.works ? layout.size() - serving : 1;
  const auto* const between = std::get_if<ServerOptions>(&o.method);
  levels.outer_waits = between && between->waits_for_all();
  if (o.traits().work_queue)
    levels.units = in.traits().work_queue ? MasterLevels::Units::of_workers : MasterLevels::Units::of_groups;
  const int first = workers_before(layout, layout.group, serving),
            workers = workers_before(layout, layout.groups(), serving);
  if (groups.works && in.keeps_step()) {
    owned.push_back(group.split(levels.works ? 0 : 1));
    levels.step = owned.back().get();
  }
  m.data = {};
  m.data.share = {levels.works ? first + layout.local : -1, workers};
  m.data.unit_share = m.data.share;
  if (levels.units == MasterLevels::Units::of_groups && levels.works)
    m.data.unit_share = {0, layout.groups(), layout.local, levels.workers};
  m.metrics = {.at_drain = &comm};
  m.update_ranks = nullptr;
  keep(m, std::move(owned));
  levels.inner = std::move(m.weights);
  if (outer) levels.outer = std::move(outer->weights), keep(m, std::move(outer->communicators));
  auto weights = std::make_unique<MasterWeights>(std::move(levels));
  m.data.work_queue = [w = weights.get()] { return w->work_queue(); };
  m.data.skipper = weights.get();
  m.served_weights = nullptr;
  m.weights = std::move(weights);
  return m;
}

// Ranks with the same index in their groups train together, and weights are exchanged inside groups. All groups then do
// the same.
ParallelMethod gradients_between_weights(const ParallelTrainOptions& o, const GroupLayout& layout,
                                         const MethodContext& context) {
  if (!layout.even())
    throw ConfigError({},
                      fmt::format("{} between groups that exchange weights needs groups of one size, and there are {}",
                                  name_of(o.method), layout.text()),
                      "start as many ranks on every node, or exchange gradients in insideGroups");
  Communicator& comm = context.comm;
  std::vector<std::unique_ptr<Communicator>> owned;
  owned.push_back(comm.split(layout.local));
  owned.push_back(comm.split(layout.group));
  owned.push_back(comm.split(comm.rank()));  // every rank acts for itself
  ParallelMethod m = make_method(without_groups(o), {*owned[0], context.optimizer});
  ParallelMethod inside = make_method(o.inside(), {*owned[1], context.optimizer});

  m.traits.text = describe(layout, &m, &inside);
  combine_texts(m, m, &inside);
  m.traits.own_updates = m.traits.gradients_between_groups = true;
  m.traits.sums_contributions = false;
  m.data.share = m.data.unit_share = {comm.rank(), comm.size()};
  m.metrics.at_drain = &comm;
  m.metrics.other_groups = owned[0]->size() - 1;
  if (inside.update_ranks) {
    // The subgroups with one place in their groups make one update.
    int leader = layout.local;
    inside.update_ranks->broadcast(0, std::as_writable_bytes(std::span(&leader, 1)));
    const std::array<int, 2> mine{leader, inside.update_ranks->size()};
    std::array<int, 2> first = mine;
    owned[0]->broadcast(0, std::as_writable_bytes(std::span(first)));
    if (!all_agree(comm, first == mine))
      throw ConfigError({}, "groups of groups: the groups are divided in different ways",
                        "groups = size:N or n:N in insideGroups, so that all are divided alike");
    owned.push_back(comm.split(leader));
    m.metrics.per_step = m.update_ranks = owned.back().get();
    m.metrics.other_groups = m.update_ranks->size() - inside.update_ranks->size();
    m.gradients = std::make_unique<ChainedGradients>(std::move(m.gradients), std::move(inside.gradients));
  } else {
    m.traits.gradients_archived_as = "inside/";
  }
  WeightLevels levels;
  levels.group = owned[2].get();
  levels.outer = std::move(inside.weights);
  m.weights = std::make_unique<GroupWeights>(std::move(levels));
  keep(m, std::move(owned));
  keep(m, std::move(inside.communicators));
  return m;
}

}  // namespace

std::string single_group_warning(const ParallelTrainOptions& o, Communicator& comm) {
  if (!o.groups.any()) return {};
  const int workers = comm.size() - o.traits().serving_ranks;
  if (workers < 2 || groups_of(o, comm).layout.groups() > 1) return {};
  const char* const method = name_of(o.method);
  const std::string effect =
      o.traits().sums_gradients
          ? fmt::format("nothing is exchanged between groups, and {} within the group is all that happens",
                        o.inside().name())
          : fmt::format("{} runs with one worker, the group, in which {} works", method, o.inside().name());
  return fmt::format("groups = {} makes one group of all {} ranks: {}. fix: {}", o.groups.text(), workers, effect,
                     o.groups.kind == GroupOptions::Kind::by_node
                         ? "start ranks on more nodes, or groups = n:2 for two groups"
                         : "groups = n:2 for two groups");
}

ParallelMethod make_grouped(const ParallelTrainOptions& o, const MethodContext& context) {
  const Groups groups = groups_of(o, context.comm);
  const GroupLayout& layout = groups.layout;
  const int workers = context.comm.size() - o.traits().serving_ranks;
  if (layout.groups() == workers) return make_method(without_groups(o), context);
  if (o.inside().traits().at_servers) return servers_between_servers(o, groups, context);
  // A single group is one worker of a weight exchange, whose rules (block momentum, a center) still apply.
  if (!o.traits().sums_gradients) return weights_between(o, groups, context);
  if (layout.groups() == 1) return make_method(o.inside(), context);  // the sum over one group is the sum
  return o.inside().sums_gradients() ? gradients_between_gradients(o, layout, context)
                                     : gradients_between_weights(o, layout, context);
}

}  // namespace tutti
