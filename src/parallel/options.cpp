// SPDX-License-Identifier: Apache-2.0
#include "parallel/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "comm/agreement.h"
#include "parallel/groups/groups.h"

namespace tutti {

namespace {

constexpr const char* kBackupBetween = "backupWorkers cannot work between groups: it drops gradients of single ranks";

constexpr std::array<const char*, 5> kAutoAllow{"16bit", "4bit", "1bit", "local", "async"};

ParallelTrainOptions default_inside(int depth) {
  ParallelTrainOptions o;
  o.method = DataParallelOptions();
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
  std::string text = name_of(method);
  if (groups.any()) text += fmt::format(" between groups ({}) with {}", groups.text(), inside().name());
  return text;
}

void ParallelTrainOptions::describe_start(config::Fields& f) {
  f("parallelizationStartEpoch", start_epoch,
    "first epoch of parallel training, counted from 1; before it every rank trains on its own, or, with "
    "ModelParallel or shardOptimizer, all ranks sum their gradients in 32 bits");
  if (start_epoch < 1) f.problem("parallelizationStartEpoch", "epochs count from 1", "write 1 or more");
  f("parallelizationStartSample", start_sample,
    "samples at the start of that epoch that still belong to the warm start");
  if (start_sample < 0) f.problem("parallelizationStartSample", "a number of samples cannot be negative");
  f("distributedMBReading", distributed_reading, "accepted; every rank always reads only its own part of a minibatch");
  distributed_reading_given = f.given("distributedMBReading");
}

// These settings concern the exchange between groups and have no effect inside groups.
void ParallelTrainOptions::describe_groups(config::Fields& f) {
  groups.describe(f);
  if (groups.any() && automatic)
    f.problem("groups", "parallelizationMethod = auto chooses among methods without groups",
              "name the method between the groups, or leave groups out");
  if (groups.any() && !exchanges())
    f.problem("groups", "groups need a method between the groups",
              "add parallelizationMethod = DataParallelSGD (or another one)");
  constexpr const char* help = "settings of ParallelTrain for the ranks of a group; may contain groups again";
  if (groups.any()) {
    inside_groups.depth = depth + 1;
    if (inside_groups.level.empty()) inside_groups.level.push_back(inside());
    inside_groups.level[0].double_precision = double_precision;
    f.block("insideGroups", inside_groups, help);
  } else if (depth == 0) {  // the first level is always explained, deeper ones where there are some
    std::optional<InsideGroups> unused;
    f.block("insideGroups", unused, help);
    if (unused)
      f.problem("insideGroups", "insideGroups has no effect without groups", "add groups = byNode, size:4 or n:2");
  }
  if (groups.any() && !inside().exchanges())
    f.problem("insideGroups", "the ranks of a group must exchange gradients or weights",
              "choose another method in insideGroups, or leave groups out");
}

void ParallelTrainOptions::describe_transport(config::Fields& f) {
  f.no_effect("packThresholdSizeInKB", "gradients are exchanged in buckets");
  std::vector<std::pair<std::string, Transport>> words;
  for (const auto t : {Transport::automatic, Transport::messages, Transport::shared_memory, Transport::nccl})
    words.emplace_back(word_of(t), t);
  words.emplace_back("stripes", Transport::messages);  // the word of earlier versions, as `route` for the setting
  f.choice("transport", transport, words,
           "what carries sums: messages = MPI; sharedMemory = memory that the ranks of one host share; nccl = between "
           "GPUs, in 32 bits; auto = nccl or sharedMemory where possible");
  f.alias("route", "transport");
  if (transport != Transport::automatic && exchanges() && !traits().shards)
    f.problem("transport",
              fmt::format("transport has no effect: {} with these settings does not exchange shards", name_of(method)),
              "leave transport out");
  else if (transport == Transport::nccl && exchanges() && !traits().in_full)
    f.problem("transport", fmt::format("NCCL sums in 32 bits, but {} is set to exchange fewer", name_of(method)),
              "leave transport out, or exchange 32 bits");
}

// The blocks of all methods are read, so that mistakes are found; only the block of the selected method has an effect.
template <class Options>
void ParallelTrainOptions::describe_method(config::Fields& f) {
  if constexpr (!std::is_same_v<Options, NoExchange>) {
    const bool chosen = std::holds_alternative<Options>(method);
    Options value = chosen ? std::get<Options>(method) : Options();
    bool given = f.given(Options::name), has_effect = chosen;
    if constexpr (requires { value.given; }) has_effect = given = value.given = given || value.given;
    if constexpr (requires { value.double_precision; }) value.double_precision = double_precision;
    if (std::optional<Options> absent; given || has_effect)
      f.block(Options::name, value, Options::help);
    else
      f.block(Options::name, absent, Options::help);
    if constexpr (requires { Options::without_block; })
      if (chosen && !given)
        f.problem("parallelizationMethod", fmt::format("{} needs its block of settings", Options::name),
                  Options::without_block);
    if (chosen)
      method = std::move(value);
    else if (given)
      unused_blocks.emplace_back(Options::name);
  }
}

// Groups with servers of their own, each with a master that is a worker of the servers between the groups.
void ParallelTrainOptions::check_masters(config::Fields& f) const {
  const ParallelTrainOptions in = inside();
  if (!traits().at_servers)
    return f.problem("insideGroups",
                     "methods with parameter servers do not keep ranks in step, so only parameter servers can work "
                     "between their groups",
                     "DataParallelASGD or EASGD with policy = async between the groups, or DataParallelSGD in "
                     "insideGroups");
  if (in.groups.any())
    f.problem("insideGroups", "a hierarchy of parameter servers has two levels, so its groups are not divided again",
              "remove groups from insideGroups");
  const auto* servers = std::get_if<ServerOptions>(&method);
  if (!servers) return;
  constexpr const char* kMaster = "the master of a group pushes the changes of its group's weights";
  if (servers->push == ServerOptions::Push::gradients)
    f.problem("groups", fmt::format("{}, so push = gradients cannot work between groups of parameter servers", kMaster),
              "push = deltas here; push = gradients may stand in insideGroups");
  if (servers->average)
    f.problem("groups", fmt::format("{}, so SimModelAverage cannot work between groups of parameter servers", kMaster),
              "remove SimModelAverage");
  if (servers->backup_workers > 0) f.problem("groups", kBackupBetween, "backupWorkers in insideGroups");
  if (servers->waits_for_all() && !in.keeps_step())
    f.problem(
        "groups",
        "groups can wait for each other only if the ranks within them keep step, and those of insideGroups do not",
        "policy = async between the groups, or policy = sync without backupWorkers in insideGroups");
}

// Groups that push and fetch as one worker each.
void ParallelTrainOptions::check_servers(config::Fields& f) const {
  if (inside().traits().at_servers) return check_masters(f);
  if (!traits().at_servers) return;
  if (!inside().sums_gradients())
    f.problem("insideGroups", "a group acts as one worker of the parameter servers, so its ranks must sum gradients",
              "write insideGroups = [ parallelizationMethod = DataParallelSGD ], or ASA of gradients");
  const auto* servers = std::get_if<ServerOptions>(&method);
  if (!servers) return;
  if (servers->backup_workers > 0)
    f.problem("groups", kBackupBetween,
              "remove backupWorkers or groups, or use DataParallelASGD with backupWorkers in insideGroups");
  if (servers->push != ServerOptions::Push::gradients) return;
  if (!servers->every_minibatch)
    f.problem("groups", "groups push gradients after every minibatch", "leave syncPeriod out, or push = deltas");
  if (inside().delayed())
    f.problem("groups", "delayed gradients inside groups cannot be pushed to servers",
              "set push = deltas, or remove useBufferedAsyncGradientAggregation from insideGroups");
}

// With auto, `method` is what a run takes that times nothing.
void ParallelTrainOptions::describe_choice(config::Fields& f) {
  auto words = method_words();
  const std::size_t auto_row = std::variant_size_v<MethodOptions>;
  if (depth == 0) words.emplace_back("auto", auto_row);
  std::size_t row = automatic ? auto_row : method.index();
  f.choice("parallelizationMethod", row, words,
           "how the ranks exchange what they learned; auto = the fastest, by timing, of those that give the result of "
           "DataParallelSGD in 32 bits");
  automatic = row == auto_row;
  if (automatic) row = MethodOptions(DataParallelOptions()).index();
  if (row != method.index()) method = default_method(row);
  if (depth > 0) return;
  f("autoAllow", auto_allow,
    "what auto may also take, though results differ: 16bit, 4bit, 1bit = gradients in that many bits; local = "
    "ModelAveragingSGD, BlockMomentumSGD, EASGD; async = DataParallelASGD");
  for (const std::string& word : auto_allow)
    if (std::ranges::find(kAutoAllow, word) == kAutoAllow.end())
      f.problem("autoAllow", fmt::format("autoAllow has no word '{}'", word),
                did_you_mean(word, {kAutoAllow.begin(), kAutoAllow.end()},
                             fmt::format("there are: {}", fmt::join(kAutoAllow, ", "))));
}

void ParallelTrainOptions::describe(config::Fields& f) {
  if (depth > 0) f.inherit_nothing();
  describe_choice(f);
  describe_groups(f);
  if (depth == 0) describe_start(f);
  f("syncPerfStats", sync_perf_stats, "print the time of every n-th exchange; 0 = none");
  if (sync_perf_stats < 0)
    f.problem("syncPerfStats", "a number of minibatches cannot be negative", "write 0 for no timing lines");
  f.alias("ASGD", ServerOptions::name);
  unused_blocks.clear();
  for_each_method([&]<class Options>() { describe_method<Options>(f); });
  if (depth == 0) f.block("faultHook", fault_hook, "slows down or ends a rank on purpose, to test a run");
  describe_transport(f);
  if (groups.any()) check_servers(f);
  const auto* const averages = std::get_if<ModelAveragingOptions>(&method);
  if (groups.any() && averages && averages->stream.settings.streams() && inside().delayed())
    f.problem("insideGroups",
              "ModelAveragingSGD with fragments or overlap averages by the samples of each group, which are not known "
              "in time if gradients come one step late within the groups",
              "remove useBufferedAsyncGradientAggregation, or fragments and overlap, or use BlockMomentumSGD");
}

namespace {

// Collective.
ResolvedTransport transport_of(const ParallelTrainOptions& options, Communicator& comm) {
  const MethodTraits traits = options.traits();
  if (!traits.shards && !traits.library_sums) return Transport::messages;
  const bool all_on_devices = all_agree(comm, options.on_device), all_on_hosts = all_agree(comm, !options.on_device);
  if (!all_on_devices && !all_on_hosts) return resolve_mixed_transport(options.transport);
  if (options.on_device) return resolve_device_transport(options.transport, traits.in_full, comm);
  return traits.library_sums ? Transport::messages : resolve_transport(options.transport, comm);
}

}  // namespace

ParallelMethod make_method(const ParallelTrainOptions& o, const MethodContext& context) {
  if (o.groups.any()) return make_grouped(o, context);
  MethodContext own = context;
  own.transport = transport_of(o, context.comm);
  own.print_every = o.sync_perf_stats;
  return std::visit([&](const auto& method) { return method.make(own); }, o.method);
}

std::vector<std::pair<std::string, std::size_t>> method_words() {
  std::vector<std::pair<std::string, std::size_t>> words;
  for_each_method([&]<class Options>() { words.emplace_back(Options::name, words.size()); });
  words.emplace_back("ASGD", MethodOptions(ServerOptions()).index());
  return words;
}

MethodOptions default_method(std::size_t row) {
  MethodOptions method;
  for_each_method([&]<class Options>() {
    if (row-- == 0) method = Options();
  });
  return method;
}

}  // namespace tutti
