// SPDX-License-Identifier: Apache-2.0
// stripe_exchange.h -- sums gradients over the ranks in any number of bits, chunk by chunk, while the caller goes on:
//   1. every rank encodes its whole chunk with its residual and offers each stripe to the rank that owns it;
//   2. the owner decodes all versions in rank order, adds them, encodes the sum with its second residual, publishes it;
//   3. everybody decodes the same bytes, the owner too: the same gradients everywhere.
// A StripeRoute carries the bytes; where the library of the GPUs sums (chunk_sums.h), there are no stripes. One rank
// alone encodes and decodes. Sparse gradients go the same way line by line, in messages (sparse_exchange.h), as groups
// of their own. Nothing here blocks except complete() and flush().
#pragma once

#include <memory>
#include <vector>

#include "strategy/chunk_sums.h"
#include "strategy/route.h"
#include "strategy/sparse_exchange.h"
#include "strategy/stripes.h"
#include "tutti/communicator.h"
#include "tutti/strategy.h"

namespace tutti {

struct StripeSettings {
  Route route = Route::stripes;       // as resolve_road() has it
  DeviceSums* device_sums = nullptr;  // likewise; outlives the exchange
  bool gradients_stay = true;         // nobody writes to the place of a chunk between encode() and decode()
  std::size_t group_values = 0;       // at least so many values per group, where there are as many; 0 = as is best
};

class StripeExchange {
 public:
  // Collective: buffers and messages are planned here. Parameters, communicator and codec outlive the exchange.
  StripeExchange(Communicator&, Parameters&, const Codec&, const StripeSettings& = {});
  ~StripeExchange();

  void use(Residuals residuals) { residuals_ = residuals; }

  std::size_t groups() const { return plan_.groups.size(); }
  std::size_t group_of(std::size_t chunk) const { return plan_.group_of[chunk]; }
  bool first_of_group(std::size_t chunk) const { return plan_.groups[group_of(chunk)].first_chunk == chunk; }
  bool last_of_group(std::size_t chunk) const { return plan_.groups[group_of(chunk)].end_chunk == chunk + 1; }
  std::size_t first_chunk(std::size_t group) const { return plan_.groups[group].first_chunk; }
  std::size_t end_chunk(std::size_t group) const { return plan_.groups[group].end_chunk; }

  // Zeroes in a buffer of owners' residuals what this rank does not own.
  void keep_own_columns(float* owner_residual) const;

  // The life of a group: arm (messages may come in), announce, encode each chunk, launch, complete, decode each chunk.
  void arm(std::size_t group);
  void announce(std::size_t group);  // what is to be known of sparse gradients before they are complete
  void encode(std::size_t chunk);
  void launch(std::size_t group);
  bool in_flight(std::size_t group) const { return groups_[group].state != State::idle; }
  bool try_complete(std::size_t group);  // the global sums of a launched group are here; drives everything on the way
  void complete(std::size_t group);      // waits for them
  void decode(std::size_t chunk);        // into Parameters::gradients
  void advance();                        // sums what has come in, in the order of launches
  void flush();                          // own messages have left: buffers may be filled again

  ExchangeStats take_stats();
  // Seconds spent in here since the exchange was made; the caller takes differences.
  double seconds_worked() const { return worked_; }
  double seconds_waited() const { return waited_; }

 private:
  // A codec of a device goes on by itself: after launching its bytes are awaited, and after summing.
  enum class State { idle, armed, encoding, launched, summing, summed };
  struct Group {
    State state = State::idle;
    std::unique_ptr<SparseExchange> sparse;  // does all the work of its group
    std::uint64_t mark = 0;                  // of the codec: what was encoded last
  };

  bool by_library(std::size_t group) const { return sums_ && !groups_[group].sparse; }
  // Bytes that are the values: a rank need not write down for itself what stands in its gradients.
  bool in_place() const { return plain_ && ranks_ > 1 && !residuals_.local; }
  std::size_t largest_block() const;  // values that are summed at a time
  void host_looks() const { parameters_.gradients.memory().finish(); }
  void launch_library(std::size_t group);
  void send_when_encoded();
  bool sum_when_here(std::size_t group);
  void sum(std::size_t group);
  void sum_stripe(std::size_t chunk, std::size_t group);

  Communicator& comm_;
  Parameters& parameters_;
  const Codec& codec_;
  const int me_, ranks_;
  const bool plain_;  // the codec copies, and gradients stay where they are
  StripePlan plan_;
  std::unique_ptr<ChunkSums> sums_;  // in place of the route
  std::unique_ptr<StripeRoute> route_;
  std::vector<Group> groups_;
  std::vector<std::size_t> sparse_groups_;
  std::vector<std::size_t> launched_;                                // ring of groups that wait for their sum
  std::size_t launched_head_ = 0, launched_count_ = 0, unsent_ = 0;  // unsent: the last ones of the ring
  FloatBuffer scratch_;
  Residuals residuals_;
  ExchangeStats stats_;
  double worked_ = 0, waited_ = 0;
};

}  // namespace tutti
