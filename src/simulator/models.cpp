// SPDX-License-Identifier: Apache-2.0
#include "simulator/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "parallel/parameter_server/shard.h"
#include "simulator/reduce_pipeline.h"
#include "simulator/servers.h"

namespace tutti::simulator {
namespace {

// Exchanges at servers that count; fewer with many workers, whose mean is steadier.
constexpr int served_exchanges(int ranks) { return ranks > 64 ? 2 : 4; }
constexpr int kFillingSteps = 10, kSteps = 10;  // the first ones fill the pipeline

double steps_of(const Workload& w) { return std::max(1.0, std::ceil(w.epoch / w.minibatch)); }

// Where all ranks meet, those with a sample more than others decide.
double largest_share(const Workload& w, const Cluster& c) { return std::ceil(w.minibatch / c.ranks); }

// Seconds of a core of a worker's step with its own update.
double own_step(const Parts& parts, double share) {
  return step_of(parts, share).seconds + values_of(parts.layout) * parts.update;
}

// Weights from one rank to all, in a pipeline of parts.
double broadcast(const Parts& parts, const Cluster& c) {
  if (c.ranks == 1) return 0;
  const double bytes = values_of(parts.layout) * sizeof(float), part = std::min(bytes, kLargestPart);
  const double core = parts_of(bytes) * parts.message.per_message + bytes * parts.message.per_byte;
  return std::max(bytes / c.bandwidth, core * c.ranks_per_core()) +
         std::log2(c.ranks) * (part / c.bandwidth + parts.message.latency + c.latency);
}

// Shards that all ranks own, from each to all others at once; servers of their own send one shard after the other
// (src/parallel/parameter_server/shard.cpp).
double broadcast_shards(const Parts& parts, const Cluster& c, int servers) {
  if (servers > 0 || c.ranks == 1) return broadcast(parts, c);
  const double others = c.ranks - 1, own = values_of(parts.layout) * sizeof(float) / c.ranks, bytes = own * others;
  const double core = others * parts_of(own) * parts.message.per_message + bytes * parts.message.per_byte;
  return std::max(bytes / c.bandwidth, core * c.ranks_per_core()) + parts.message.latency + c.latency;
}

// That its first rank sends, as the program counts them: the weights to each of the others.
double broadcast_bytes(const Parts& parts, const Cluster& c) {
  return values_of(parts.layout) * sizeof(float) * (c.ranks - 1);
}

enum class Use { in_step, in_next_step };

// Seconds and bytes of a step.
Estimate gradient_step(const Parts& parts, const Cluster& c, double share, const std::string& coding, Use use) {
  const StepCost step = step_of(parts, share);
  ReducePipeline pipeline(parts, coding, c);
  ChunkWork work = pipeline.coding_work();
  work.ready = step.ready, work.seconds = step.seconds;
  for (std::size_t i = 0; i < work.after.size(); ++i)
    work.after[i] += static_cast<double>(parts.layout.count(parts.layout.chunks[i])) * parts.update;
  if (c.ranks == 1) {
    double seconds = step.seconds;
    for (std::size_t i = 0; i < work.after.size(); ++i) seconds += work.before[i] + work.after[i];
    return {seconds, 0};
  }
  double begin = 0;
  for (int i = 0; i < kFillingSteps + kSteps; ++i) {
    if (i == kFillingSteps) begin = pipeline.now();
    use == Use::in_step ? pipeline.step(work) : pipeline.late_step(work);
    pipeline.short_messages();
  }
  // Late sums may still be filling the link, if it is only a little slower than computing.
  const double bytes = pipeline.load().bytes_sent();
  return {std::max((pipeline.now() - begin) / kSteps, bytes / c.bandwidth), bytes};
}

Estimate gradients(const Parts& parts, const Cluster& c, const Workload& w, const std::string& coding, Use use) {
  const Estimate step = gradient_step(parts, c, largest_share(w, c), coding, use);
  return {steps_of(w) * step.seconds, step.bytes};
}

// One exchange of weights in which all ranks meet.
Estimate weight_exchange(const Parts& parts, const Cluster& c, const std::string& coding) {
  ReducePipeline pipeline(parts, coding, c);
  ChunkWork work = pipeline.coding_work();
  for (std::size_t i = 0; i < work.after.size(); ++i) {
    const double pass = static_cast<double>(parts.layout.count(parts.layout.chunks[i])) * parts.pass;
    work.before[i] += pass, work.after[i] += pass;
  }
  if (c.ranks == 1) return {};
  pipeline.short_round();
  pipeline.exchange(work);
  return {pipeline.now(), pipeline.load().bytes_sent()};
}

enum class AtEnd { always, unless_just_exchanged };

// `every`: steps between two exchanges.
Estimate blocks(const Parts& parts, const Cluster& c, const Workload& w, double every, AtEnd at_end) {
  const double steps = steps_of(w), within = std::floor(steps / std::max(1.0, std::ceil(every)));
  const bool rest = at_end == AtEnd::always || std::fmod(steps, std::ceil(every)) > 0;
  const double exchanges = within + (rest ? 1 : 0);
  const Estimate exchange = weight_exchange(parts, c, "32");
  return {steps * own_step(parts, largest_share(w, c)) * c.ranks_per_core() + exchanges * exchange.seconds,
          exchanges * exchange.bytes / steps};
}

// Passes over the weights of an exchange at servers, and how an epoch ends.
struct ServedMethod {
  double every = 1;  // steps of a worker between two exchanges
  int servers = 0;
  double head = 0;                                         // bytes
  double worker_before = 0, server = 0, worker_after = 0;  // passes
  bool rotates = true;
  int broadcasts = 1;  // of the weights, at the end of an epoch
  double last = 1;     // the wait of the last exchange of an epoch, as a share of a usual one
};

Estimate served(const Parts& parts, const Cluster& c, const Workload& w, const ServedMethod& m) {
  ServerLoad load = server_load(parts.layout, "32", c.ranks, m.servers, m.head);
  const CodecCost& codec = parts.codecs.at("32");
  const double steps = steps_of(w), every = std::max(1.0, std::ceil(m.every));
  const double step = own_step(parts, w.minibatch / load.workers);
  load.block = every * step;
  load.encode = codec.encode + m.worker_before * parts.pass;
  load.serve = codec.decode + codec.encode + m.server * parts.pass;
  load.decode = codec.decode + m.worker_after * parts.pass;
  load.rotates = m.rotates;
  if (c.ranks == 1) return {steps * step, 0};
  const ServedRun run = run_servers(load, parts.message, c, 1, served_exchanges(c.ranks));
  const double wait = std::max(0.0, run.seconds - every * step * c.ranks_per_core());
  // Workers take minibatches from a queue. So at the end of an epoch most of them have some that are not exchanged yet,
  // on the average half of a period: these are exchanged once more. The last worker ends half a wait after the mean.
  // Then all ranks get the weights.
  const double rest = (every - 1) / every;
  const double more = (1 - rest) / 2 + rest * m.last;
  return {steps / every * run.seconds + more * wait + m.broadcasts * broadcast_shards(parts, c, m.servers),
          (steps / every + rest / 2) * run.sent / steps};
}

Model gradients_row(const char* method, const char* bits, const std::string& coding, std::string settings,
                    Use use = Use::in_step) {
  return {method, bits, std::move(settings), [coding, use](const Parts& p, const Cluster& c, const Workload& w) {
            return gradients(p, c, w, coding, use);
          }};
}

Model data_parallel(const char* bits) {
  return gradients_row("DataParallelSGD", bits, bits,
                       fmt::format("parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits={};"
                                   "useBufferedAsyncGradientAggregation=false]",
                                   bits));
}

std::string block_settings(const char* method, const Period& period) {
  if (period.each == 0 && period.all == 0) return fmt::format("parallelizationMethod={}", method);
  return fmt::format("parallelizationMethod={0};{0}=[{1}={2:.0f}]", method,
                     period.all > 0 ? "blockSize" : "blockSizePerWorker", period.all > 0 ? period.all : period.each);
}

Model block_row(const char* method, const Period& period) {
  return {method, "32", block_settings(method, period), [period](const Parts& p, const Cluster& c, const Workload& w) {
            return blocks(p, c, w, period.of_all(c.ranks) / w.minibatch, AtEnd::always);
          }};
}

// Groups that each sum gradients in 32 bits, and whose leaders exchange weights after blocks and broadcast them. The
// last group may be smaller.
Estimate grouped(const Parts& parts, const Cluster& c, const Workload& w) {
  const int groups = (c.ranks + w.group - 1) / w.group;
  Cluster inside = c, between = c;
  inside.ranks = std::min(w.group, c.ranks), between.ranks = groups;
  // All groups compute at once.
  inside.shared_cores = c.shared_cores * inside.ranks / c.ranks;
  const Estimate step = gradient_step(parts, inside, largest_share(w, c), "32", Use::in_step);
  const Estimate exchange = weight_exchange(parts, between, "32");
  const double steps = steps_of(w), every = std::max(1.0, std::ceil(w.momentum.of_all(groups) / w.minibatch));
  const double exchanges = std::floor(steps / every) + 1;
  return {steps * step.seconds + exchanges * (exchange.seconds + broadcast(parts, inside)),
          step.bytes + exchanges * (exchange.bytes + broadcast_bytes(parts, inside)) / steps};
}

}  // namespace

std::vector<Model> models(const Workload& workload) {
  std::vector<Model> all = {data_parallel("32"), data_parallel("16"), data_parallel("4"), data_parallel("1")};
  all.push_back(gradients_row("DataParallelSGD, late", "1", "1",
                              "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1;"
                              "useBufferedAsyncGradientAggregation=true]",
                              Use::in_next_step));
  all.push_back(gradients_row("ASA", "32", "32", "parallelizationMethod=ASA;ASA=[exchangeBits=32]"));
  all.push_back(gradients_row("ASA", "16", "float16", "parallelizationMethod=ASA;ASA=[exchangeBits=16]"));
  all.push_back(block_row("ModelAveragingSGD", workload.averaging));
  all.push_back(block_row("BlockMomentumSGD", workload.momentum));
  all.push_back({"EASGD", "32",
                 fmt::format("parallelizationMethod=EASGD;EASGD=[period={:.0f}]", workload.elastic_period),
                 [](const Parts& p, const Cluster& c, const Workload& w) {
                   return blocks(p, c, w, w.elastic_period, AtEnd::unless_just_exchanged);
                 }});
  all.push_back({"EASGD, async", "32",
                 fmt::format("parallelizationMethod=EASGD;EASGD=[policy=async;period={:.0f};servers={}]",
                             workload.elastic_period, workload.elastic_servers),
                 [](const Parts& p, const Cluster& c, const Workload& w) {
                   return served(p, c, w,
                                 {.every = w.elastic_period,
                                  .servers = w.elastic_servers,
                                  .server = 1,
                                  .worker_after = 1,
                                  .rotates = false,
                                  .broadcasts = 2});
                 },
                 workload.elastic_servers + 1});
  all.push_back({"DataParallelASGD", "32",
                 fmt::format("parallelizationMethod=DataParallelASGD;DataParallelASGD=[syncPeriod={:.0f};servers={}]",
                             workload.push_period, workload.push_servers),
                 [](const Parts& p, const Cluster& c, const Workload& w) {
                   const double share = w.minibatch / (c.ranks - w.push_servers);
                   return served(p, c, w,
                                 {.every = w.push_period / share,
                                  .servers = w.push_servers,
                                  .head = kHeadBytes,
                                  .worker_before = 1,
                                  .server = 1,
                                  .worker_after = 1,
                                  .last = .5});
                 },
                 workload.push_servers + 1});
  if (workload.group > 1)
    all.push_back({fmt::format("BlockMomentumSGD, groups of {}", workload.group), "32",
                   fmt::format("{};groups=size:{};insideGroups=[parallelizationMethod=DataParallelSGD]",
                               block_settings("BlockMomentumSGD", workload.momentum), workload.group),
                   grouped, workload.group});
  return all;
}

}  // namespace tutti::simulator
