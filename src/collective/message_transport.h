// SPDX-License-Identifier: Apache-2.0
// message_transport.h -- exchanges shards as messages: each version to its owner, each sum to all. With a single rank,
// its version is the sum and nothing is sent.
#pragma once

#include <memory>
#include <vector>

#include "collective/transport.h"

namespace tutti {

class MessageTransport : public ShardTransport {
 public:
  // Uses tags 2g and 2g + 1 for bucket g. Communicator and plan must outlive it.
  MessageTransport(Communicator&, const ShardPlan&, const Codec&);

  std::byte* version_for(std::size_t bucket, int owner) override;
  const std::byte* version_of(std::size_t bucket, int rank) const override;
  std::byte* sum(std::size_t bucket) override;
  const std::byte* sum_of(std::size_t bucket, int owner) const override;
  void arm(std::size_t bucket) override;
  void offer(std::size_t bucket) override;
  bool offered(std::size_t bucket) override;
  void publish(std::size_t bucket) override;
  bool published(std::size_t bucket) override;
  void flush(std::size_t bucket) override;

 private:
  struct BucketState {
    MessageBytes own;     // this rank's version, a section per owner
    MessageBytes others;  // the other ranks' versions of this rank's section, a slot per rank
    MessageBytes sums;    // a section per owner
    std::vector<std::unique_ptr<Transfer>> send_own, receive_others, send_sums, receive_sums;
  };
  void plan_messages(Communicator&, std::size_t bucket);

  const ShardPlan& plan_;
  const int me_, ranks_;
  std::vector<BucketState> buckets_;
};

}  // namespace tutti
