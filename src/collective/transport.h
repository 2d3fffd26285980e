// SPDX-License-Identifier: Apache-2.0
// transport.h -- by which transport encoded shards go between the ranks: as messages, or through memory that all of
// them see. Used by AllReduce, which knows what stands in them; a transport changes no number.
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
const char* word_of(Transport);    // in settings
const char* to_string(Transport);  // for a line about the exchange; empty for shards

// The transport in use. What NCCL does not sum, because it travels in fewer bits or is sparse, goes in shards.
struct ResolvedTransport {
  ResolvedTransport(Transport t = Transport::messages) : kind(t), text(to_string(t)) {}
  Transport kind;
  std::string text;
  std::shared_ptr<DeviceSums> device_sums;  // with Transport::nccl
};

// A bucket has a section per owner. Every rank makes its version of each section and offers them; the owner of a
// section finds there those of all ranks, and publishes their sum.
class ShardTransport {
 public:
  virtual ~ShardTransport() = default;
  // Where bytes are put, and where they are found once offered() or published() says so.
  virtual std::byte* version_for(std::size_t bucket, int owner) = 0;            // of this rank, for each owner
  virtual const std::byte* version_of(std::size_t bucket, int rank) const = 0;  // of each rank, for this owner
  virtual std::byte* sum(std::size_t bucket) = 0;                               // of this owner
  virtual const std::byte* sum_of(std::size_t bucket, int owner) const = 0;

  // In this order, none of them waits. Versions may be filled after arm(), and after the bucket has been published by
  // all; sums are read before the next offer().
  virtual void arm(std::size_t bucket) = 0;
  virtual void offer(std::size_t bucket) = 0;
  virtual bool offered(std::size_t bucket) = 0;  // by all ranks
  virtual void publish(std::size_t bucket) = 0;
  virtual bool published(std::size_t bucket) = 0;  // by all owners

  virtual void flush(std::size_t bucket) = 0;  // own messages have left
  virtual void poll() {}                       // while waiting
};

// As resolve_transport() has it. What codecs of a device encode goes in messages whatever it is.
std::unique_ptr<ShardTransport> make_transport(Transport transport, Communicator&, const ShardPlan&, const Codec&);
// Collective: the transport to use. One that these ranks do not have is a ConfigError.
ResolvedTransport resolve_transport(Transport wanted, Communicator&);
// The same for values in memory of GPUs; `in_full`: some of them travel in 32 bits.
ResolvedTransport resolve_device_transport(Transport wanted, bool in_full, Communicator&);
// Where values of some ranks are in the host's memory and those of others in a GPU's. Not collective.
ResolvedTransport resolve_mixed_transport(Transport wanted);

}  // namespace tutti
