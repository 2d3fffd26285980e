// SPDX-License-Identifier: Apache-2.0
// admission.h -- decides which workers may push, and which pushes form one update, if that depends on all workers: with
// a staleness bound, with backup workers and with soft synchronization. One handler decides before any weights are
// sent. And a histogram of the staleness of pushes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/parameter_server/request_loop.h"

namespace tutti {

struct AdmissionRequest {
  std::int64_t step = 0;     // backup workers: the update that the push is for
  std::int64_t samples = 0;  // samples of the push
  std::int64_t leaves = 0;   // the worker will not push any more for now
};
struct AdmissionResponse {
  std::int64_t batch = -1;  // the batch of the push; -1: it is too late and dropped
  std::int64_t size = 0;    // pushes of the batch
  std::int64_t step = 0;    // backup workers: the update that needs gradients now
  std::int64_t staleness = 0;
};
constexpr std::size_t kAdmissionBytes = 32;
static_assert(sizeof(AdmissionRequest) <= kAdmissionBytes && sizeof(AdmissionResponse) <= kAdmissionBytes);

class AdmissionHandler : public RequestHandler {
 public:
  std::size_t handle(int client, std::span<std::byte> message) final;
  // Call inside Server::exclusively(), while no request is in flight: all workers start from the same weights.
  void restart();

 protected:
  enum class State { computing, asking, admitted, dropped, away };
  struct Worker {
    State state = State::computing;
    AdmissionRequest request;
    AdmissionResponse response;
    std::int64_t missed = 0;  // pushes of other workers since its last one
  };
  explicit AdmissionHandler(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  // Handles a new request or a worker that leaves: admits and drops pushes.
  virtual void decide() = 0;

  std::vector<Worker> workers_;
  std::vector<int> queue_;  // workers with requests, in order of arrival
  std::int64_t batches_ = 0;
};

// A push may miss at most `most` pushes of other workers. A worker whose push would exceed that bound for another
// worker waits for it; workers that block each other push together, as one update. No other waiting happens (after the
// bound of Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013).
std::unique_ptr<AdmissionHandler> make_bounded_admission(int workers, std::int64_t most);

// An update takes the first (workers - `backups`) gradients and drops later ones (Chen et al., "Revisiting Distributed
// Synchronous SGD", ICLR workshop 2016). It does not wait for workers without samples in a step.
std::unique_ptr<AdmissionHandler> make_backup_admission(int workers, std::int64_t backups);

// One count for each number of pushes of other workers that a push missed; the last counts all above.
struct StalenessCounts {
  static constexpr std::size_t kBins = 64;
  std::vector<std::int64_t> bins = std::vector<std::int64_t>(kBins);
  std::int64_t pushes = 0, sum = 0, largest = 0;
  void add(std::int64_t staleness);
  StalenessCounts& operator+=(const StalenessCounts&);
  void add_up(Communicator&);  // collective
  std::string text() const;    // "mean 1.50, max 3; 12 pushes: 0: 2, 1: 4, ..."
};

}  // namespace tutti
