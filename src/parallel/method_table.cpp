// SPDX-License-Identifier: Apache-2.0
#include "parallel/method_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "comm/agreement.h"
#include "parallel/data_parallel.h"
#include "parallel/groups/groups.h"
#include "parallel/local_gradients.h"
#include "parallel/warm_start.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::unique_ptr<Strategy> make_local(const ParallelTrainOptions&, ResolvedTransport, Communicator& comm) {
  return std::make_unique<Local>(comm);
}

std::unique_ptr<Strategy> make_data_parallel(const ParallelTrainOptions& options, ResolvedTransport transport,
                                             Communicator& comm) {
  return std::make_unique<DataParallel>(options.data_parallel, options.sync_perf_stats, std::move(transport), comm);
}

std::unique_ptr<Strategy> make_averaging(const ParallelTrainOptions& options, ResolvedTransport transport,
                                         Communicator& comm) {
  return make_model_averaging(options.model_averaging ? &*options.model_averaging : nullptr, options.sync_perf_stats,
                              std::move(transport), comm);
}

std::unique_ptr<Strategy> make_blocks(const ParallelTrainOptions& options, ResolvedTransport transport,
                                      Communicator& comm) {
  return make_block_momentum(options.block_momentum.value_or(BlockMomentumOptions{}), options.sync_perf_stats,
                             std::move(transport), comm);
}

std::unique_ptr<Strategy> make_all_to_all(const ParallelTrainOptions& options, ResolvedTransport transport,
                                          Communicator& comm) {
  return make_asa(options.asa, options.sync_perf_stats, std::move(transport), comm);
}

std::unique_ptr<Strategy> make_elastic(const ParallelTrainOptions& options, ResolvedTransport transport,
                                       Communicator& comm) {
  return make_easgd(options.easgd, options.sync_perf_stats, std::move(transport), comm);
}

std::unique_ptr<Strategy> make_servers(const ParallelTrainOptions& options, ResolvedTransport, Communicator& comm) {
  return make_parameter_server(options.servers, options.sync_perf_stats, comm);
}

// What else is exchanged goes in shards.
bool sums_by_library(const ParallelTrainOptions& options) {
  return options.method == ParallelMethod::asa && options.asa.all_reduce == AsaOptions::AllReduce::library;
}

}  // namespace

const std::vector<MethodEntry>& methods() {
  static const std::vector<MethodEntry> table{
      {ParallelMethod::none, "none", make_local, "every rank trains alone, on all data"},
      {ParallelMethod::data_parallel, "DataParallelSGD", make_data_parallel,
       "gradients are exchanged after every minibatch"},
      {ParallelMethod::model_averaging, "ModelAveragingSGD", make_averaging, "weights are averaged every so often"},
      {ParallelMethod::block_momentum, "BlockMomentumSGD", make_blocks, "averaged weights are smoothed block by block"},
      {ParallelMethod::asgd, "DataParallelASGD", make_servers, "workers push to and pull from parameter servers"},
      {ParallelMethod::asa, "ASA", make_all_to_all, "gradients summed, or weights averaged, in every minibatch"},
      {ParallelMethod::easgd, "EASGD", make_elastic, "ranks train alone and are pulled to a common center"},
  };
  return table;
}

const MethodEntry& method_entry(ParallelMethod method) {
  for (const MethodEntry& entry : methods())
    if (entry.method == method) return entry;
  assert(false);
  return methods().front();
}

std::vector<std::pair<std::string, ParallelMethod>> method_words() {
  std::vector<std::pair<std::string, ParallelMethod>> words;
  for (const MethodEntry& entry : methods()) words.emplace_back(entry.name, entry.method);
  words.emplace_back("ASGD", ParallelMethod::asgd);
  return words;
}

std::string runnable_methods() {
  std::string names;
  for (const MethodEntry& entry : methods())
    if (entry.make) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

bool sums_gradients(const ParallelTrainOptions& options) {
  if (options.groups.any() && !sums_gradients(options.inside())) return false;
  return options.method == ParallelMethod::data_parallel ||
         (options.method == ParallelMethod::asa && options.asa.what == AsaOptions::What::gradients);
}

bool uses_work_queue(const ParallelTrainOptions& options) {
  return (options.method == ParallelMethod::asgd && options.servers.policy != ServerOptions::Policy::sync) ||
         (options.method == ParallelMethod::easgd && options.easgd.policy == EasgdOptions::Policy::async &&
          options.easgd.division == EasgdOptions::Division::work_queue);
}

bool meets_at_servers(const ParallelTrainOptions& options) {
  return options.method == ParallelMethod::asgd ||
         (options.method == ParallelMethod::easgd && options.easgd.policy == EasgdOptions::Policy::async);
}

bool has_transports(const ParallelTrainOptions& options) {
  return options.method != ParallelMethod::none && !meets_at_servers(options) && !sums_by_library(options);
}

bool travels_in_full(const ParallelTrainOptions& options) {
  const auto full = [](const ExchangeBits& bits) { return bits.kind == ExchangeBits::Kind::full; };
  switch (options.method) {
    case ParallelMethod::data_parallel: {
      const auto& bits = options.data_parallel.gradient_bits.values;
      return std::any_of(bits.begin(), bits.end(), [](std::int64_t b) { return b >= 32; });
    }
    case ParallelMethod::model_averaging:
      return !options.model_averaging || full(options.model_averaging->bits);
    case ParallelMethod::block_momentum:
      return !options.block_momentum || full(options.block_momentum->bits);
    case ParallelMethod::asa:
      return full(options.asa.bits);
    case ParallelMethod::easgd:
      return full(options.easgd.bits);
    case ParallelMethod::asgd:
    case ParallelMethod::none:
      break;
  }
  return false;
}

int ranks_that_serve(const ParallelTrainOptions& options) {
  if (options.method == ParallelMethod::asgd) return static_cast<int>(options.servers.servers);
  return meets_at_servers(options) ? static_cast<int>(options.easgd.servers) : 0;
}

bool runs_behind(const ParallelTrainOptions& options) {
  return (options.method == ParallelMethod::data_parallel && options.data_parallel.buffered_async) ||
         (options.groups.any() && runs_behind(options.inside()));
}

namespace {

ResolvedTransport transport_of(const ParallelTrainOptions& options, Communicator& comm) {
  if (!has_transports(options) && !sums_by_library(options)) return Transport::messages;
  const bool all_on_devices = all_agree(comm, options.on_device), all_on_hosts = all_agree(comm, !options.on_device);
  if (!all_on_devices && !all_on_hosts) return resolve_mixed_transport(options.transport);
  if (options.on_device) return resolve_device_transport(options.transport, travels_in_full(options), comm);
  return sums_by_library(options) ? Transport::messages : resolve_transport(options.transport, comm);
}

}  // namespace

std::unique_ptr<Strategy> make_method(const ParallelTrainOptions& options, Communicator& comm) {
  if (options.groups.any()) return make_grouped(options, comm);
  const MethodEntry& entry = method_entry(options.method);
  assert(entry.make);
  return entry.make(options, transport_of(options, comm), comm);
}

std::unique_ptr<Strategy> make_strategy(const ParallelTrainOptions& options, Communicator& comm) {
  auto strategy = make_method(options, comm);
  if (options.method == ParallelMethod::none) return strategy;
  return std::make_unique<WarmStart>(std::make_unique<Local>(comm), std::move(strategy), options.start_epoch - 1,
                                     options.start_sample, comm);
}

std::unique_ptr<Strategy> make_local_strategy(Communicator& comm) { return std::make_unique<Local>(comm); }

}  // namespace tutti
