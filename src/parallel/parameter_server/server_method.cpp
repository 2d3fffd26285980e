// SPDX-License-Identifier: Apache-2.0
// The methods at servers, DataParallelASGD and asynchronous EASGD: their parts and their texts.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "parallel/local_gradients.h"
#include "parallel/parameter_server/client.h"
#include "parallel/parameter_server/elastic_client.h"
#include "tutti/error.h"

namespace tutti {

std::string ServerClient::describe() const {
  std::string text =
      fmt::format("DataParallelASGD with {} worker{} and {} server{}{}, ", workers_, workers_ == 1 ? "" : "s", servers_,
                  servers_ == 1 ? "" : "s", options_.servers > 0 ? " of their own" : " beside them");
  text += pushes_gradients() ? "gradients pushed" : options_.average ? "weights averaged" : "deltas pushed";
  text += options_.every_minibatch
              ? " after every minibatch"
              : fmt::format(" every {} samples of {}", options_.sync_period.at(static_cast<std::size_t>(epoch_)),
                            options_.waits_for_all() ? "each worker" : "a worker");
  text += fmt::format(" in {}", make_codec(options_.bits.codec())->name());
  switch (options_.policy) {
    case ServerOptions::Policy::async:
      text += options_.max_staleness >= 0
                  ? fmt::format(", asynchronously, at most {} pushes stale", options_.max_staleness)
                  : ", asynchronously";
      break;
    case ServerOptions::Policy::sync:
      text += options_.backup_workers > 0 ? fmt::format(", synchronously, {} of them backup", options_.backup_workers)
                                          : ", synchronously";
      break;
    case ServerOptions::Policy::mixed:
      text += fmt::format(", {} pushes to an update", std::max<std::int64_t>(1, workers_ / options_.soft_sync));
      break;
  }
  if (pipelined_) text += ", fetched one push late";
  return text;
}

std::string ServerClient::loop_text(std::int64_t epoch) const {
  return fmt::format(", DataParallelASGD training (myRank = {}, numNodes = {}, SamplesSyncToServer = {}){}",
                     comm_.rank(), comm_.size(),
                     options_.every_minibatch ? 0 : options_.sync_period.at(static_cast<std::size_t>(epoch)),
                     pipelined_ ? ", BufferedAsyncGradientAggregation is ENABLED" : "");
}

namespace {

// Settings that are impossible with this number of ranks.
void check_ranks(const ServerOptions& o, const Communicator& comm) {
  if (o.servers > 0 && o.servers >= comm.size())
    throw ConfigError({},
                      fmt::format("servers = {} leaves no worker among {} rank{}", o.servers, comm.size(),
                                  comm.size() == 1 ? "" : "s"),
                      "start more ranks, or servers = 0, where ranks serve beside their work");
  const std::int64_t workers = comm.size() - o.servers;
  if (o.backup_workers > 0 && o.backup_workers >= workers)
    throw ConfigError(
        {}, fmt::format("backupWorkers = {} must be less than the number of workers ({})", o.backup_workers, workers),
        fmt::format("backupWorkers = {} or less, or more ranks", workers - 1));
  if (o.policy == ServerOptions::Policy::mixed && workers % o.soft_sync != 0) {
    std::string possible;
    for (std::int64_t n = 1; n <= workers; ++n)
      if (workers % n == 0) possible += fmt::format("{}{}", possible.empty() ? "" : ", ", n);
    throw ConfigError({},
                      fmt::format("softSync = {} does not divide {} worker{}: every update is made of "
                                  "workers/softSync pushes",
                                  o.soft_sync, workers, workers == 1 ? "" : "s"),
                      fmt::format("softSync = {}", possible));
  }
}

}  // namespace

MethodTraits ServerOptions::traits() const {
  MethodTraits t;
  t.at_servers = true;
  t.serving_ranks = static_cast<int>(servers);
  t.work_queue = !waits_for_all();
  t.backup_workers = backup_workers > 0;
  return t;
}

ParallelMethod ServerOptions::make(const MethodContext& context) const {
  const ServerOptions& o = *this;
  Communicator& comm = context.comm;
  check_ranks(o, comm);
  auto client = std::make_unique<ServerClient>(o, context);
  ServerClient& c = *client;
  ParallelMethod m = make_local_sgd(std::move(client), c.describe(), comm);
  if (o.push == ServerOptions::Push::gradients) {
    m.traits.updates_elsewhere = true;
    m.traits.overflow = OverflowCheck::exchange_zeros;
  }
  m.data.share = m.data.unit_share = {comm.rank() < c.workers() ? comm.rank() : -1, c.workers()};
  m.data.work_queue = [&c] { return c.work_queue(); };
  m.data.skipper = &c;
  m.served_weights = [&c] { return c.served_weights(); };
  m.loop_text = [&c](std::int64_t epoch) { return c.loop_text(epoch); };
  return m;
}

ParallelMethod make_asynchronous_easgd(const EasgdOptions& o, const MethodContext& context) {
  Communicator& comm = context.comm;
  if (o.servers >= comm.size())
    throw ConfigError({},
                      fmt::format("EASGD wants {} rank{} for the center alone and this run has {}", o.servers,
                                  o.servers == 1 ? "" : "s", comm.size()),
                      fmt::format("servers = 0, or start the trainer with mpiexec -n {} or more", o.servers + 1));
  if (comm.size() > 1 && !comm.threads_may_talk())
    throw ConfigError({}, "EASGD with policy = async needs an MPI library that lets threads talk (MPI_THREAD_MULTIPLE)",
                      "policy = sync, or another library");
  auto client = std::make_unique<ElasticClient>(o, context);
  const ElasticClient& c = *client;
  ParallelMethod m = make_local_sgd(std::move(client), c.describe(), comm);
  m.traits.state_name = "asynchronous EASGD";
  m.data.share = m.data.unit_share = {comm.rank() < c.workers() ? comm.rank() : -1, c.workers()};
  m.data.work_queue = [&c] { return c.work_queue(); };
  m.served_weights = [&c] { return c.served_weights(); };
  return m;
}

}  // namespace tutti
