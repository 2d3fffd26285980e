// SPDX-License-Identifier: Apache-2.0
#include "parallel/method_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "comm/agreement.h"
#include "parallel/all_reduce_gradients.h"
#include "parallel/groups/groups.h"
#include "parallel/local_gradients.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Options = ParallelTrainOptions;

ParallelMethod make_none(const Options&, ResolvedTransport, const MethodContext& c) { return make_local(c.comm); }

ParallelMethod make_gradients(const Options& o, ResolvedTransport transport, const MethodContext& c) {
  return make_data_parallel(o.data_parallel, o.sync_perf_stats, std::move(transport), c.comm);
}

ParallelMethod make_averaging(const Options& o, ResolvedTransport transport, const MethodContext& c) {
  return make_model_averaging(o.model_averaging ? &*o.model_averaging : nullptr, o.sync_perf_stats,
                              std::move(transport), c.comm);
}

ParallelMethod make_blocks(const Options& o, ResolvedTransport transport, const MethodContext& c) {
  return make_block_momentum(o.block_momentum.value_or(BlockMomentumOptions{}), o.sync_perf_stats, std::move(transport),
                             c.comm);
}

ParallelMethod make_all_to_all(const Options& o, ResolvedTransport transport, const MethodContext& c) {
  return make_asa(o.asa, o.sync_perf_stats, std::move(transport), c.comm);
}

ParallelMethod make_elastic(const Options& o, ResolvedTransport transport, const MethodContext& c) {
  return make_easgd(o.easgd, o.sync_perf_stats, std::move(transport), c.comm);
}

ParallelMethod make_servers(const Options& o, ResolvedTransport, const MethodContext& c) {
  return make_parameter_server(o.servers, o.sync_perf_stats, c.optimizer, c.comm);
}

// What else is exchanged goes in shards.
bool sums_by_library(const ParallelTrainOptions& options) {
  return options.method == MethodKind::asa && options.asa.all_reduce == AsaOptions::AllReduce::library;
}

}  // namespace

const std::vector<MethodEntry>& methods() {
  static const std::vector<MethodEntry> table{
      {MethodKind::none, "none", make_none, "every rank trains alone, on all data"},
      {MethodKind::data_parallel, "DataParallelSGD", make_gradients, "gradients are exchanged after every minibatch"},
      {MethodKind::model_averaging, "ModelAveragingSGD", make_averaging, "weights are averaged every so often"},
      {MethodKind::block_momentum, "BlockMomentumSGD", make_blocks, "averaged weights are smoothed block by block"},
      {MethodKind::asgd, "DataParallelASGD", make_servers, "workers push to and pull from parameter servers"},
      {MethodKind::asa, "ASA", make_all_to_all, "gradients summed, or weights averaged, in every minibatch"},
      {MethodKind::easgd, "EASGD", make_elastic, "ranks train alone and are pulled to a common center"},
  };
  return table;
}

const MethodEntry& method_entry(MethodKind method) {
  for (const MethodEntry& entry : methods())
    if (entry.method == method) return entry;
  assert(false);
  return methods().front();
}

std::vector<std::pair<std::string, MethodKind>> method_words() {
  std::vector<std::pair<std::string, MethodKind>> words;
  for (const MethodEntry& entry : methods()) words.emplace_back(entry.name, entry.method);
  words.emplace_back("ASGD", MethodKind::asgd);
  return words;
}

bool sums_gradients(const ParallelTrainOptions& options) {
  if (options.groups.any() && !sums_gradients(options.inside())) return false;
  return options.method == MethodKind::data_parallel ||
         (options.method == MethodKind::asa && options.asa.what == AsaOptions::What::gradients);
}

bool uses_work_queue(const ParallelTrainOptions& options) {
  return (options.method == MethodKind::asgd && options.servers.policy != ServerOptions::Policy::sync) ||
         (options.method == MethodKind::easgd && options.easgd.policy == EasgdOptions::Policy::async &&
          options.easgd.division == EasgdOptions::Division::work_queue);
}

bool meets_at_servers(const ParallelTrainOptions& options) {
  return options.method == MethodKind::asgd ||
         (options.method == MethodKind::easgd && options.easgd.policy == EasgdOptions::Policy::async);
}

bool has_transports(const ParallelTrainOptions& options) {
  return options.method != MethodKind::none && !meets_at_servers(options) && !sums_by_library(options);
}

bool travels_in_full(const ParallelTrainOptions& options) {
  const auto full = [](const ExchangeBits& bits) { return bits.kind == ExchangeBits::Kind::full; };
  switch (options.method) {
    case MethodKind::data_parallel: {
      const auto& bits = options.data_parallel.gradient_bits.values;
      return std::any_of(bits.begin(), bits.end(), [](std::int64_t b) { return b >= 32; });
    }
    case MethodKind::model_averaging:
      return !options.model_averaging || full(options.model_averaging->bits);
    case MethodKind::block_momentum:
      return !options.block_momentum || full(options.block_momentum->bits);
    case MethodKind::asa:
      return full(options.asa.bits);
    case MethodKind::easgd:
      return full(options.easgd.bits);
    case MethodKind::asgd:
    case MethodKind::none:
      break;
  }
  return false;
}

int ranks_that_serve(const ParallelTrainOptions& options) {
  if (options.method == MethodKind::asgd) return static_cast<int>(options.servers.servers);
  return meets_at_servers(options) ? static_cast<int>(options.easgd.servers) : 0;
}

bool runs_behind(const ParallelTrainOptions& options) {
  return (options.method == MethodKind::data_parallel && options.data_parallel.buffered_async) ||
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

ParallelMethod make_method(const ParallelTrainOptions& o, const MethodContext& context) {
  if (o.groups.any()) return make_grouped(o, context);
  return method_entry(o.method).make(o, transport_of(o, context.comm), context);
}

}  // namespace tutti
