// SPDX-License-Identifier: Apache-2.0
#include "collective/transport.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "tutti/error.h"
#include "tutti/shared_memory.h"

namespace tutti {
namespace {

struct Entry {
  Transport kind;
  const char* name;
  const char* text;
  std::unique_ptr<ShardTransport> (*make)(Communicator&, const ShardPlan&, const Codec&);
};

constexpr Entry kTransports[] = {
    {Transport::automatic, "auto", "", nullptr},
    {Transport::messages, "messages", "", make_message_transport},
    {Transport::shared_memory, "sharedMemory", " through shared memory", make_shared_memory_transport},
    {Transport::nccl, "nccl", " summed by NCCL", make_message_transport},
};

const Entry& entry(Transport transport) { return kTransports[static_cast<std::size_t>(transport)]; }

}  // namespace

std::unique_ptr<ShardTransport> make_transport(Transport transport, Communicator& comm, const ShardPlan& plan,
                                               const Codec& codec) {
  const bool messages = comm.size() == 1 || !is_host(codec.memory()) || &codec.on_host() != &codec;
  return entry(messages ? Transport::messages : transport).make(comm, plan, codec);
}

ResolvedTransport resolve_transport(Transport wanted, Communicator& comm) {
  if (wanted == Transport::nccl)
    throw ConfigError({}, "transport = nccl needs values in GPU memory, but this run computes on the CPU",
                      "transport = auto, or leave transport out");
  if (wanted == Transport::messages || comm.size() == 1) return Transport::messages;
  if (comm.share_memory(1)) return Transport::shared_memory;
  if (wanted == Transport::automatic) return Transport::messages;
  const auto names = hosts_of(comm);
  const std::size_t hosts = std::set<std::string>(names.begin(), names.end()).size();
  throw ConfigError(
      {},
      hosts > 1 ? fmt::format("transport = sharedMemory needs all ranks on one host, but these {} ranks are on {}",
                              comm.size(), hosts)
                : fmt::format("transport = sharedMemory: {} ranks cannot share memory (not allowed here, or "
                              "messageChecksums = all)",
                              comm.size()),
      hosts > 1 ? "transport = auto; or groups = byNode, with the transport in insideGroups"
                : "transport = auto, or transport = messages");
}

ResolvedTransport resolve_device_transport(Transport wanted, bool in_full, Communicator& comm) {
  // Bytes encoded on a device are sent as messages.
  if (wanted == Transport::shared_memory)
    throw ConfigError({}, "transport = sharedMemory needs values in host memory, but these are on a GPU",
                      "transport = auto, or deviceId = cpu");
  if (wanted == Transport::messages || !in_full || comm.size() == 1) return Transport::messages;
  std::string why;
  ResolvedTransport transport(Transport::nccl);
  transport.device_sums = make_device_sums(comm, why);
  if (transport.device_sums) {
    transport.text = " summed by " + transport.device_sums->name();
    return transport;
  }
  if (wanted == Transport::nccl)
    throw ConfigError({}, "transport = nccl: " + why, "transport = auto, or transport = messages");
  transport.kind = Transport::messages;
  transport.text = fmt::format(" (not by NCCL: {})", why);
  return transport;
}

ResolvedTransport resolve_mixed_transport(Transport wanted) {
  if (wanted != Transport::automatic && wanted != Transport::messages)
    throw ConfigError(
        {},
        fmt::format(
            "transport = {} needs all ranks on the same kind of device, but some compute on GPUs and others on the CPU",
            entry(wanted).name),
        "transport = auto, or deviceId = cpu");
  return Transport::messages;
}

const char* word_of(Transport transport) { return entry(transport).name; }

const char* to_string(Transport transport) { return entry(transport).text; }

}  // namespace tutti
