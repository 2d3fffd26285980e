// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_sgd/asa_options.h"

#include <fmt/format.h>

#include <utility>

#include "parallel/all_reduce_gradients.h"
#include "parallel/library_gradients.h"
#include "parallel/local_sgd/block_exchange.h"
#include "parallel/parameter_server/elastic_client.h"

namespace tutti {

void AsaOptions::describe(config::Fields& f) {
  f.choice<What>("exchange", what, {{"gradients", What::gradients}, {"weights", What::weights}},
                 "gradients: summed before the update; weights: averaged after it");
  f.choice<AllReduce>(
      "allReduce", all_reduce,
      {{"sharded", AllReduce::sharded}, {"stripes", AllReduce::sharded}, {"library", AllReduce::library}},
      "sharded = all-to-all, sum of the own shard, all-gather; library = MPI_Allreduce (NCCL on GPUs), for comparison");
  bits.describe(f);
  if (all_reduce == AllReduce::library && bits.kind != ExchangeBits::Kind::full)
    f.problem("allReduce", "the MPI library sums in 32 bits only", "use allReduce = sharded, or exchangeBits = 32");
}

void EasgdOptions::describe(config::Fields& f) {
  f("movingRate", moving_rate,
    "share of their distance by which a rank and the center move towards each other, 0 to 1; -1 = 0.9/ranks");
  f("period", period, "minibatches between two exchanges");
  f.choice<Policy>("policy", policy, {{"sync", Policy::sync}, {"async", Policy::async}},
                   "sync = all ranks exchange together; async = each rank exchanges with the center on its own");
  f("servers", servers, "async: number of ranks that only hold the center; 0 = the workers hold it");
  f.choice<Division>("division", division, {{"dynamic", Division::work_queue}, {"static", Division::shares}},
                     "async: dynamic = a rank takes the next part of the data when it is free; static = equal parts");
  f.alias("dealing", "division");
  bits.describe(f);
  if (servers < 0)
    f.problem("servers", "a number of ranks cannot be negative", "write 0 to let the workers hold the center");
  for (const char* key : {"servers", "division"})
    if (policy == Policy::sync && f.given(key))
      f.problem(key, fmt::format("{} needs policy = async", key), "leave the key out, or add policy = async");
  if (moving_rate != -1 && !(moving_rate >= 0 && moving_rate <= 1))
    f.problem("movingRate", "movingRate must lie in [0, 1]", "write -1 for 0.9/ranks");
  if (period < 1) f.problem("period", "period must be at least 1 minibatch");
}

MethodTraits AsaOptions::traits() const {
  MethodTraits t;
  t.sums_gradients = what == What::gradients;
  t.library_sums = all_reduce == AllReduce::library;
  t.shards = !t.library_sums;
  t.in_full = bits.kind == ExchangeBits::Kind::full;
  return t;
}

ParallelMethod AsaOptions::make(const MethodContext& context) const {
  const AsaOptions& o = *this;
  Communicator& comm = context.comm;
  const bool library = o.all_reduce == AsaOptions::AllReduce::library;
  if (o.what == AsaOptions::What::weights) {
    BlockSettings s;
    s.name = "ASA";
    s.at_epoch_end = false;  // weights are equal after every minibatch
    s.print_every = context.print_every;
    s.codec = o.bits.codec();
    s.transport = context.transport;
    s.library_sums = library && s.transport.kind != Transport::nccl;
    return make_block_exchange(std::move(s), make_averaging_rule(comm.size()), comm);
  }
  if (library && context.transport.kind != Transport::nccl)
    return make_library_sums(comm, context.print_every, context.transport.text);
  DataParallelOptions gradients;
  gradients.method = "ASA";
  gradients.announces = false;
  gradients.gradient_bits = o.bits.codec().bits;
  gradients.sixteen_bits = o.bits.codec().format;
  gradients.quantizer = o.bits.quantizer;
  return gradients.make(context);
}

MethodTraits EasgdOptions::traits() const {
  MethodTraits t;
  t.at_servers = policy == Policy::async;
  t.work_queue = t.at_servers && division == Division::work_queue;
  t.serving_ranks = t.at_servers ? static_cast<int>(servers) : 0;
  t.shards = !t.at_servers;
  t.in_full = bits.kind == ExchangeBits::Kind::full;
  return t;
}

ParallelMethod EasgdOptions::make(const MethodContext& context) const {
  const EasgdOptions& o = *this;
  Communicator& comm = context.comm;
  const int ranks = comm.size();
  if (o.policy == EasgdOptions::Policy::async) return make_asynchronous_easgd(o, context);
  BlockSettings s;
  s.name = "EASGD";
  s.every = o.period;
  s.print_every = context.print_every;
  s.codec = o.bits.codec();
  s.transport = context.transport;
  s.once_text = fmt::format("Parallel training ({} workers) using EASGD with moving rate = {:g}, every {} minibatches.",
                            ranks, o.rate(ranks), o.period);
  if (const double pull = o.rate(ranks) * ranks; pull > 1)
    s.once_text += fmt::format(
        "\nWARNING: moving rate * workers = {:g}: the center overshoots the mean of the ranks. fix: set movingRate = "
        "{:g} or less",
        pull, 1.0 / ranks);
  return make_block_exchange(std::move(s), make_elastic_rule(o.rate(ranks)), comm);
}

}  // namespace tutti
