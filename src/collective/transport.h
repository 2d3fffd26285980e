// SPDX-License-Identifier: Apache-2.0
// transport.h -- what carries encoded shards between the ranks: messages or shared memory. Used by AllReduce; the
// choice of a transport changes no result.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "collective/shard_plan.h"
#include "comm/device_sums.h"
#include "tutti/codec.h"
#include "tutti/communicator.h"

namespace tutti {

enum class Transport { automatic, messages, shared_memory, nccl };
const char* word_of(Transport);    // as written in settings
const char* to_string(Transport);  // for the line about the exchange; empty for shards

// The transport in use. Values that NCCL cannot sum, because they have fewer bits or are sparse, are exchanged in
// shards.
struct ResolvedTransport {
  ResolvedTransport(Transport t = Transport::messages) : kind(t), text(to_string(t)) {}
  Transport kind;
  std::string text;
  std::shared_ptr<DeviceSums> device_sums;  // with Transport::nccl
};

// A bucket has one section per owner. Every rank writes its version of each section and offers it. The owner of a
// section reads the versions of all ranks and publishes their sum.
class ShardTransport {
 public:
  virtual ~ShardTransport() = default;
  // Where bytes are written, and where they are read after offered() or published() returns true.
  virtual std::byte* version_for(std::size_t bucket, int owner) = 0;            // of this rank, for each owner
  virtual const std::byte* version_of(std::size_t bucket, int rank) const = 0;  // of each rank, for this owner
  virtual std::byte* sum(std::size_t bucket) = 0;                               // of this owner
  virtual const std::byte* sum_of(std::size_t bucket, int owner) const = 0;

  // Call in this order; none of them waits. Fill versions after arm() and after all owners have published the previous
  // ones; read sums before the next offer().
  virtual void arm(std::size_t bucket) = 0;
  virtual void offer(std::size_t bucket) = 0;
  virtual bool offered(std::size_t bucket) = 0;  // by all ranks
  virtual void publish(std::size_t bucket) = 0;
  virtual bool published(std::size_t bucket) = 0;  // by all owners

  virtual int awaited(std::size_t bucket) const = 0;  // a rank whose part is missing; -1 if none or unknown
  virtual void flush(std::size_t bucket) = 0;         // own messages have been sent
  virtual void poll() {}                              // call while waiting
};

// Communicator and plan must outlive them. Collective.
std::unique_ptr<ShardTransport> make_message_transport(Communicator&, const ShardPlan&, const Codec&);
std::unique_ptr<ShardTransport> make_shared_memory_transport(Communicator&, const ShardPlan&, const Codec&);
// The result of resolve_transport(). Output of device codecs always travels in messages.
std::unique_ptr<ShardTransport> make_transport(Transport transport, Communicator&, const ShardPlan&, const Codec&);
// Returns the transport to use. Throws ConfigError if these ranks cannot use the requested one. Collective.
ResolvedTransport resolve_transport(Transport wanted, Communicator&);
// The same for values in GPU memory. `in_full`: some of them are exchanged in 32 bits.
ResolvedTransport resolve_device_transport(Transport wanted, bool in_full, Communicator&);
// For ranks of which some have values in host memory and others on a GPU. Not collective.
ResolvedTransport resolve_mixed_transport(Transport wanted);

}  // namespace tutti
