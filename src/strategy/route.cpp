// SPDX-License-Identifier: Apache-2.0
#include "strategy/route.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "strategy/message_route.h"
#include "strategy/shared_route.h"
#include "tutti/error.h"
#include "tutti/shared_memory.h"

namespace tutti {
namespace {

struct Entry {
  Route route;
  const char* name;
  const char* text;
  std::unique_ptr<ShardTransport> (*make)(Communicator&, const ShardPlan&, const Codec&);
};

template <class Made>
std::unique_ptr<ShardTransport> make(Communicator& comm, const ShardPlan& plan, const Codec& codec) {
  return std::make_unique<Made>(comm, plan, codec);
}

constexpr Entry kRoutes[] = {
    {Route::automatic, "auto", "", nullptr},
    {Route::messages, "stripes", "", make<MessageRoute>},
    {Route::shared_memory, "sharedMemory", " through shared memory", make<SharedRoute>},
    {Route::nccl, "nccl", " summed by NCCL", make<MessageRoute>},
};

const Entry& entry(Route route) { return kRoutes[static_cast<std::size_t>(route)]; }

}  // namespace

std::unique_ptr<ShardTransport> make_route(Route route, Communicator& comm, const ShardPlan& plan, const Codec& codec) {
  const bool messages = comm.size() == 1 || !is_host(codec.memory()) || &codec.on_host() != &codec;
  return entry(messages ? Route::messages : route).make(comm, plan, codec);
}

Road resolve_road(Route wanted, Communicator& comm) {
  if (wanted == Route::nccl)
    throw ConfigError({}, "route = nccl is for values in memory of GPUs, and these are in the host's",
                      "route = auto, or leave route out");
  if (wanted == Route::messages || comm.size() == 1) return Route::messages;
  if (comm.share_memory(1)) return Route::shared_memory;
  if (wanted == Route::automatic) return Route::messages;
  const auto names = hosts_of(comm);
  const std::size_t hosts = std::set<std::string>(names.begin(), names.end()).size();
  throw ConfigError(
      {},
      hosts > 1 ? fmt::format("route = sharedMemory is for ranks of one host, and these {} ranks are on {}",
                              comm.size(), hosts)
                : fmt::format("route = sharedMemory: this system does not let {} ranks share memory", comm.size()),
      hosts > 1 ? "route = auto; or groups = byNode, with the route in insideGroups"
                : "route = auto, or route = stripes");
}

Road resolve_device_road(Route wanted, bool in_full, Communicator& comm) {
  // Bytes that a device makes leave it in messages.
  if (wanted == Route::shared_memory)
    throw ConfigError({}, "route = sharedMemory is for values in memory of the host, and these are on a GPU",
                      "route = auto, or deviceId = cpu");
  if (wanted == Route::messages || !in_full || comm.size() == 1) return Route::messages;
  std::string why;
  Road road(Route::nccl);
  road.device_sums = make_device_sums(comm, why);
  if (road.device_sums) {
    road.text = " summed by " + road.device_sums->name();
    return road;
  }
  if (wanted == Route::nccl) throw ConfigError({}, "route = nccl: " + why, "route = auto, or route = stripes");
  road.route = Route::messages;
  road.text = fmt::format(" (not by NCCL: {})", why);
  return road;
}

Road resolve_mixed_road(Route wanted) {
  if (wanted != Route::automatic && wanted != Route::messages)
    throw ConfigError({},
                      fmt::format("route = {} is not for ranks of which some compute on GPUs and others on the CPU",
                                  entry(wanted).name),
                      "route = auto, or deviceId = cpu");
  return Route::messages;
}

void describe_route(config::Fields& f, Route& route) {
  std::vector<std::pair<std::string, Route>> words;
  for (const Entry& e : kRoutes) words.emplace_back(e.name, e.route);
  f.choice("route", route, words,
           "how sums travel: shards = messages; sharedMemory = ranks of one host read each other's memory; nccl = "
           "GPUs sum among themselves, in 32 bits; auto = nccl or sharedMemory where it can be");
}

const char* text_of(Route route) { return entry(route).text; }

}  // namespace tutti
