// SPDX-License-Identifier: Apache-2.0
#include "parallel/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/inheritance.h"
#include "parallel/method_table.h"

namespace tutti {

void DataParallelOptions::describe(config::Fields& f) {
  f("gradientBits", gradient_bits, "bits per gradient value and epoch: 1, 2, 4, 8, 16, or 32 for no quantisation");
  for (const std::int64_t bits : gradient_bits.values) {
    if (bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16 || bits == 32) continue;
    if (bits == 64 && double_precision) continue;
    f.problem("gradientBits", fmt::format("gradients cannot travel in {} bits", bits),
              bits == 64 ? "64 bits need precision = \"double\"; write 32 for no quantisation"
                         : "write 1, 2, 4, 8, 16 or 32");
    break;
  }
  f("useZeroThresholdFor1BitQuantization", zero_threshold, "1 bit: the sign decides; false: the mean of the column");
  f("useBufferedAsyncGradientAggregation", buffered_async,
    "exchange gradients while the next minibatch computes; updates come one minibatch late");
  f("resetResidualsEachEpoch", reset_residuals, "forget at each epoch's start what quantisation has left behind");
  describe_exchange_bits(f);
}

// The word of all other methods. It has 16-bit floats, where gradientBits = 16 means levels.
void DataParallelOptions::describe_exchange_bits(config::Fields& f) {
  ExchangeBits bits;
  bits.describe_bits(f);
  const bool by_exchange_bits = f.given("exchangeBits");
  const auto& epochs = gradient_bits.values;
  bits.quantizer = quantizer;
  bits.describe_quantizer(
      f, by_exchange_bits ? bits.has_levels()
                          : std::any_of(epochs.begin(), epochs.end(), [](std::int64_t b) { return b > 1 && b < 32; }));
  quantizer = bits.quantizer;
  if (!by_exchange_bits) return;
  if (f.given("gradientBits"))
    f.problem("exchangeBits", "both gradientBits and exchangeBits are given",
              "keep one of the two; gradientBits may change from epoch to epoch");
  gradient_bits = bits.codec().bits;
  sixteen_bits = bits.codec().format;
}

namespace {

ParallelTrainOptions default_inside(int depth) {
  ParallelTrainOptions o;
  o.method = MethodKind::data_parallel;
  o.depth = depth;
  return o;
}

}  // namespace

void InsideGroups::describe(config::Fields& f) {
  if (level.empty()) level.push_back(default_inside(depth));
  level[0].describe(f);
}

ParallelTrainOptions ParallelTrainOptions::inside() const {
  if (!inside_groups.level.empty()) return inside_groups.level[0];
  ParallelTrainOptions level = default_inside(depth + 1);
  level.on_device = on_device;
  return level;
}

void ParallelTrainOptions::put_on_device() {
  on_device = true;
  for (ParallelTrainOptions& level : inside_groups.level) level.put_on_device();
}

std::string ParallelTrainOptions::name() const {
  std::string text = method_entry(method).name;
  if (groups.any()) text += fmt::format(" between groups ({}) with {}", groups.text(), inside().name());
  return text;
}

void ParallelTrainOptions::describe_start(config::Fields& f) {
  f("parallelizationStartEpoch", start_epoch,
    "first epoch of parallel training, from 1; before it every rank trains alone");
  if (start_epoch < 1) f.problem("parallelizationStartEpoch", "epochs count from 1", "write 1 or more");
  f("parallelizationStartSample", start_sample, "samples of that epoch that every rank still works through alone");
  if (start_sample < 0) f.problem("parallelizationStartSample", "a number of samples cannot be negative");
  f("distributedMBReading", distributed_reading,
    "accepted either way: here a rank always reads its own part of a minibatch");
  distributed_reading_given = f.given("distributedMBReading");
}

// Settings of ParallelTrain are about the exchange between groups and mean nothing within them.
void ParallelTrainOptions::describe_groups(config::Fields& f) {
  groups.describe(f);
  if (groups.any() && method == MethodKind::none)
    f.problem("groups", "groups need a method that works between them",
              "add parallelizationMethod = DataParallelSGD (or another one)");
  constexpr const char* help = "what ParallelTrain says, for the ranks of a group; may have groups again";
  if (groups.any()) {
    inside_groups.depth = depth + 1;
    if (inside_groups.level.empty()) inside_groups.level.push_back(inside());
    inside_groups.level[0].data_parallel.double_precision = data_parallel.double_precision;
    f.block("insideGroups", inside_groups, help);
  } else if (depth == 0) {  // the first level is always explained, deeper ones where there are some
    std::optional<InsideGroups> unused;
    f.block("insideGroups", unused, help);
    if (unused) f.problem("insideGroups", "there are no groups", "add groups = byNode, size:4 or n:2");
  }
  if (groups.any() && inside().method == MethodKind::none)
    f.problem("insideGroups", "ranks of a group must work together",
              "choose another method in insideGroups, or leave groups out");
}

void ParallelTrainOptions::describe_transport(config::Fields& f) {
  std::vector<std::pair<std::string, Transport>> words;
  for (const auto t : {Transport::automatic, Transport::messages, Transport::shared_memory, Transport::nccl})
    words.emplace_back(word_of(t), t);
  words.emplace_back("stripes", Transport::messages);  // the word of earlier versions, as `route` for the setting
  f.choice("transport", transport, words,
           "how sums travel: messages; sharedMemory = ranks of one host read each other's memory; nccl = "
           "GPUs sum among themselves, in 32 bits; auto = nccl or sharedMemory where it can be");
  f.alias("route", "transport");
  if (transport != Transport::automatic && method != MethodKind::none && !has_transports(*this))
    f.problem("transport",
              fmt::format("{} with these settings does not exchange shards, so there is no transport to choose",
                          method_entry(method).name),
              "leave transport out");
  else if (transport == Transport::nccl && method != MethodKind::none && !travels_in_full(*this))
    f.problem("transport", fmt::format("NCCL sums 32 bits, and {} is to exchange fewer", method_entry(method).name),
              "leave transport out, or exchange 32 bits");
}

// Groups that push and fetch as one worker each.
void ParallelTrainOptions::check_servers(config::Fields& f) const {
  if (meets_at_servers(inside()))
    f.problem("insideGroups",
              "methods that go through servers let every rank go its own way, so a group would never be at one place",
              "exchange the two: the servers between the groups, a sum of gradients in insideGroups");
  if (!meets_at_servers(*this)) return;
  if (!sums_gradients(inside()))
    f.problem("insideGroups", "a group that meets others at servers is one worker: its ranks must sum gradients",
              "write insideGroups = [ parallelizationMethod = DataParallelSGD ], or ASA of gradients");
  if (method == MethodKind::easgd) return;
  if (servers.backup_workers > 0)
    f.problem("groups", "backupWorkers drops gradients of single ranks", "leave backupWorkers out, or the groups");
  if (servers.push != ServerOptions::Push::gradients) return;
  if (!servers.every_minibatch)
    f.problem("groups", "groups push gradients after every minibatch", "leave syncPeriod out, or push = deltas");
  if (runs_behind(inside()))
    f.problem("groups", "gradients that come a minibatch late within groups cannot be pushed on",
              "push = deltas, or leave useBufferedAsyncGradientAggregation out of insideGroups");
}

void ParallelTrainOptions::describe(config::Fields& f) {
  if (depth > 0) config::inherit_nothing(f);
  f.choice("parallelizationMethod", method, method_words(), "how the ranks exchange what they learned");
  describe_groups(f);
  if (depth == 0) describe_start(f);
  f("syncPerfStats", sync_perf_stats, "n > 0: every n-th exchange prints how long it took");
  if (sync_perf_stats < 0)
    f.problem("syncPerfStats", "a number of minibatches cannot be negative", "write 0 for no timing lines");
  f.block("DataParallelSGD", data_parallel, "gradients are exchanged after every minibatch");
  f.block("ModelAveragingSGD", model_averaging, "weights are averaged every so often");
  f.block("BlockMomentumSGD", block_momentum, "averaged weights are smoothed block by block");
  if (method == MethodKind::block_momentum && !block_momentum)
    f.problem("parallelizationMethod", "BlockMomentumSGD needs its block of settings",
              "add BlockMomentumSGD = [ blockSizePerWorker = 120000 ] to ParallelTrain");
  f.block("ASA", asa, "gradients or weights are exchanged all-to-all, summed and gathered");
  f.block("EASGD", easgd, "elastic averaging between the ranks and a center variable");
  if (depth == 0)
    f.block("faultHook", fault_hook, "disturbs a rank on purpose, to see what a slow or lost one does to a run");
  f.alias("ASGD", "DataParallelASGD");
  f.block("DataParallelASGD", servers, "workers push to and fetch from parameter servers");
  describe_transport(f);
  if (groups.any()) check_servers(f);
  unused_blocks.clear();
  for (const MethodEntry& entry : methods())
    if (entry.method != method && entry.method != MethodKind::none && f.given(entry.name))
      unused_blocks.emplace_back(entry.name);
}

}  // namespace tutti
