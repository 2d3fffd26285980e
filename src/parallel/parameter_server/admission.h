// SPDX-License-Identifier: Apache-2.0
// admission.h -- who may push, and which pushes make an update together, where that depends on all workers: with
// a bound on staleness, and where updates do not wait for the slowest workers. One handler decides, before weights
// travel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/parameter_server/request_loop.h"

namespace tutti {

struct AdmissionRequest {
  std::int64_t step = 0;     // backup workers: the update that the push is for
  std::int64_t samples = 0;  // behind it
  std::int64_t leaves = 0;   // the worker does not push any more for now
};
struct AdmissionResponse {
  std::int64_t batch = -1;  // the push belongs to it; -1: it comes too late and is dropped
  std::int64_t size = 0;    // pushes of the batch
  std::int64_t step = 0;    // backup workers: the update for which gradients are wanted now
  std::int64_t staleness = 0;
};
constexpr std::size_t kAdmissionBytes = 32;
static_assert(sizeof(AdmissionRequest) <= kAdmissionBytes && sizeof(AdmissionResponse) <= kAdmissionBytes);

class AdmissionHandler : public RequestHandler {
 public:
  std::size_t handle(int client, std::span<std::byte> message) final;
  // Inside Server::exclusively(), while nobody asks: all workers compute, on the same weights.
  void restart();

 protected:
  enum class State { computing, asking, admitted, dropped, away };
  struct Worker {
    State state = State::computing;
    AdmissionRequest request;
    AdmissionResponse response;
    std::int64_t missed = 0;  // pushes of others since its last one
  };
  explicit AdmissionHandler(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  // A worker has asked or left: admits and drops.
  virtual void decide() = 0;

  std::vector<Worker> workers_;
  std::vector<int> queue_;  // who asks, in the order of asking
  std::int64_t batches_ = 0;
};

// A push may miss at most `most` pushes of others. Who would make another one miss more waits for that one; those who
// cannot go before each other go together, as one update. Nobody waits for anything else (after the bound of Ho et al.,
// "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013).
std::unique_ptr<AdmissionHandler> make_bounded_admission(int workers, std::int64_t most);

// An update takes the first workers - `backups` gradients; later ones are dropped (Chen et al., "Revisiting Distributed
// Synchronous SGD", ICLR workshop 2016). Workers without samples for a step are not waited for.
std::unique_ptr<AdmissionHandler> make_backup_admission(int workers, std::int64_t backups);

}  // namespace tutti
