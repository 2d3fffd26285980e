// SPDX-License-Identifier: Apache-2.0
#include "simulator/servers.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "parallel/parameter_server/shard.h"
#include "simulator/events.h"

namespace tutti::simulator {
namespace {

// Of a worker's exchange; above that, shards are put together.
double most_messages(int workers) { return std::clamp(8192.0 / workers, 16.0, 64.0); }

// A thread that waits sleeps about a quarter of the time that it has been idle, and not longer than this: while its
// rank waits, and while it computes (src/base/nap.h, src/parallel/parameter_server/request_loop.cpp).
constexpr double kWaitingNap = 100e-6, kComputingNap = 1000e-6;

// The size of parts of messages that share a link. Every part is an event, so with many workers messages are not cut.
double part_of(const ServerLoad& load, const Cluster& cluster) {
  const double parts = std::floor(2048.0 / (load.workers * static_cast<double>(load.shards.size())));
  if (parts < 2 || !std::isfinite(cluster.bandwidth)) return std::numeric_limits<double>::infinity();
  return std::ranges::max_element(load.shards, {}, &ShardLoad::bytes)->bytes / std::min(parts, 16.0);
}

class Served {
 public:
  Served(const ServerLoad& load, const MessageCost& cost, const Cluster& cluster, int exchanges)
      : load_(load),
        cost_(cost),
        link_{cluster.bandwidth, cluster.latency + cost.latency, part_of(load, cluster)},
        cores_(static_cast<std::size_t>(cluster.shared_cores > 0 ? std::min<double>(cluster.shared_cores, cluster.ranks)
                                                                 : cluster.ranks),
               Core(agenda_)),
        hosts_(static_cast<std::size_t>(cluster.ranks)),
        exchanges_(exchanges) {
    for (Host& h : hosts_) h.arrived.resize(load.shards.size());
  }

  // By worker: when it has made so many exchanges.
  std::vector<std::vector<double>> run() {
    for (int w = 0; w < load_.workers; ++w) compute(w);
    agenda_.run();
    std::vector<std::vector<double>> done;
    for (int w = 0; w < load_.workers; ++w) done.push_back(host(w).done);
    return done;
  }
  ServedRun bytes() const {
    ServedRun run;
    for (const Host& h : hosts_) {
      run.sent = std::max(run.sent, h.port.bytes_out / exchanges_);
      run.received = std::max(run.received, h.port.bytes_in / exchanges_);
      run.total_sent += h.port.bytes_out, run.total_received += h.port.bytes_in;
    }
    return run;
  }

 private:
  struct Request {
    int worker = 0;
    std::size_t shard = 0;
  };
  struct Host {
    Port port;
    // The worker.
    std::vector<bool> arrived;  // responses, by shard
    std::size_t next = 0;       // place in the order of shards
    bool waits = false, takes = false;
    double waits_since = 0;
    std::vector<double> done;
    // The server.
    std::deque<Request> requests;
    bool serves = false;
    double idle_since = 0;
  };
  Host& host(int rank) { return hosts_[static_cast<std::size_t>(rank)]; }
  Core& core(int rank) { return cores_[static_cast<std::size_t>(rank) % cores_.size()]; }
  // Of the sender or of the receiver.
  double message(const ShardLoad& s) const { return (s.messages * cost_.per_message + s.bytes * cost_.per_byte) / 2; }
  std::size_t shard_at(int worker, std::size_t place) const {
    return (place + (load_.rotates ? static_cast<std::size_t>(worker) : 0)) % load_.shards.size();
  }
  int owner(const Request& r) const {
    const ShardLoad& s = load_.shards[r.shard];
    return load_.first_server + (s.owner - load_.first_server + r.worker % s.span) % load_.servers;
  }

  // Half a sleep, on the average.
  double nap(double idle_since, double longest) const {
    return load_.naps ? std::min((agenda_.now() - idle_since) / 4, longest) / 2 : 0;
  }

  void compute(int w) {
    core(w).run(load_.block, [this, w] {
      Host& h = host(w);
      std::fill(h.arrived.begin(), h.arrived.end(), false);
      h.next = 0;
      push(w);
    });
  }

  void push(int w) {
    Host& h = host(w);
    if (h.next == load_.shards.size()) {
      h.next = 0, h.takes = true;
      return take(w);
    }
    const std::size_t s = shard_at(w, h.next++);
    const ShardLoad& shard = load_.shards[s];
    const bool own = owner({w, s}) == w;
    const double seconds = shard.values * load_.encode + (own ? shard.values * load_.serve : message(shard));
    core(w).run(seconds, [this, w, s, own] {
      if (own)
        host(w).arrived[s] = true;
      else
        simulator::send(agenda_, host(w).port, host(owner({w, s})).port, load_.shards[s].bytes, link_, [this, w, s] {
          request({w, s});
        });
      push(w);
    });
  }

  void take(int w) {
    Host& h = host(w);
    if (h.next == load_.shards.size()) {
      h.takes = false;
      h.done.push_back(agenda_.now());
      if (static_cast<int>(h.done.size()) < exchanges_) compute(w);
      return;
    }
    const std::size_t s = shard_at(w, h.next);
    h.waits = !h.arrived[s];
    if (h.waits) return static_cast<void>(h.waits_since = agenda_.now());
    ++h.next;
    const ShardLoad& shard = load_.shards[s];
    const double seconds = shard.values * load_.decode + (owner({w, s}) == w ? 0 : message(shard));
    core(w).run(seconds, [this, w] { take(w); });
  }

  void request(const Request& r) {
    const int server = owner(r);
    Host& h = host(server);
    h.requests.push_back(r);
    if (h.serves) return;
    h.serves = true;
    const double longest = h.waits || server >= load_.workers ? kWaitingNap : kComputingNap;
    agenda_.at(agenda_.now() + nap(h.idle_since, longest), [this, server] { serve(server); });
  }

  void serve(int server) {
    Host& h = host(server);
    if (h.requests.empty()) {
      h.serves = false, h.idle_since = agenda_.now();
      return;
    }
    const Request r = h.requests.front();
    h.requests.pop_front();
    const ShardLoad& shard = load_.shards[r.shard];
    core(server).run(shard.values * load_.serve + 2 * message(shard), [this, server, r] {
      simulator::send(agenda_, host(server).port, host(r.worker).port, load_.shards[r.shard].bytes, link_,
                      [this, r] { respond(r); });
      serve(server);
    });
  }

  void respond(const Request& r) {
    Host& h = host(r.worker);
    h.arrived[r.shard] = true;
    if (!h.takes || !h.waits || shard_at(r.worker, h.next) != r.shard) return;
    h.waits = false;
    agenda_.at(agenda_.now() + nap(h.waits_since, kWaitingNap), [this, r] { take(r.worker); });
  }

  const ServerLoad& load_;
  const MessageCost cost_;
  const LinkTimes link_;
  Agenda agenda_;
  std::vector<Core> cores_;
  std::vector<Host> hosts_;
  const int exchanges_;
};

}  // namespace

ServerLoad server_load(const Parameters& layout, const std::string& name, int ranks, int servers, double head_bytes) {
  const auto codec = make_codec(coding(name));
  ServerLoad load;
  load.workers = ranks - servers;
  load.first_server = servers > 0 ? load.workers : 0, load.servers = servers > 0 ? servers : ranks;
  std::vector<int> owners;
  for (int s = 0; s < load.servers; ++s) owners.push_back(load.first_server + s);
  for (const ServerShardPlan& plan : plan_shards(layout, owners, false)) {
    const double bytes = static_cast<double>(plan.bytes(*codec) - kHeadBytes) + head_bytes;
    load.shards.push_back({plan.owner, static_cast<double>(plan.values), bytes, parts_of(bytes)});
  }
  const auto together = static_cast<std::size_t>(static_cast<double>(load.shards.size()) / most_messages(load.workers));
  if (together < 2) return load;
  std::vector<ShardLoad> fewer;
  for (std::size_t i = 0; i < load.shards.size(); i += together) {
    ShardLoad sum = load.shards[i];
    for (std::size_t k = i + 1; k < std::min(i + together, load.shards.size()); ++k) {
      const ShardLoad& s = load.shards[k];
      sum.values += s.values, sum.bytes += s.bytes, sum.messages += s.messages;
    }
    sum.span = static_cast<int>(std::min(together, load.shards.size() - i));
    fewer.push_back(sum);
  }
  load.shards = std::move(fewer);
  return load;
}

ServedRun run_servers(const ServerLoad& load, const MessageCost& cost, const Cluster& cluster, int warm_up,
                      int exchanges) {
  Served served(load, cost, cluster, warm_up + exchanges);
  const auto done = served.run();
  ServedRun run = served.bytes();
  for (const auto& times : done) {
    const double first = warm_up > 0 ? times[static_cast<std::size_t>(warm_up) - 1] : 0;
    run.seconds += (times.back() - first) / exchanges / static_cast<double>(done.size());
  }
  return run;
}

}  // namespace tutti::simulator
