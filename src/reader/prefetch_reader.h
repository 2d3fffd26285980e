// SPDX-License-Identifier: Apache-2.0
// prefetch_reader.h -- a Reader whose thread prepares the next minibatches while the current one computes. The caller
// makes them itself while that is quicker than waking the thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "reader/minibatch_maker.h"
#include "tutti/work_queue.h"

namespace tutti::reader {

class PrefetchReader final : public Reader {
 public:
  // `depth` minibatches are kept ready beside the one in use; of work units that are handed out one at most, because
  // what waits here is work that no other rank can take.
  explicit PrefetchReader(MinibatchMaker maker, std::size_t depth = 2);
  ~PrefetchReader() override;
  const std::vector<StreamInfo>& streams() const override { return maker_.streams(); }
  std::int64_t sweep_samples() override;
  void start_epoch(const EpochPlan&) override;
  const Batch* next() override;
  const Batch* ahead() override;
  std::string place(std::uint32_t sequence) override;
  bool takes_work_units() const override { return maker_.takes_work_units(); }

 private:
  using Clock = std::chrono::steady_clock;
  // Notes when the thread waits for a work unit: it does not use the maker then.
  struct NotedQueue final : WorkQueue {
    explicit NotedQueue(PrefetchReader& r) : reader(r) {}
    void start_range() override { source->start_range(); }
    std::int64_t next() override;
    PrefetchReader& reader;
    WorkQueue* source = nullptr;
  };
  void work();
  void make_one(std::unique_lock<std::mutex>&);
  void halt(std::unique_lock<std::mutex>&);
  std::size_t wanted() const;
  bool alone() const;

  MinibatchMaker maker_;  // of make_one() while busy_, else of the caller
  std::vector<Share> ring_;

  std::mutex mutex_;
  std::condition_variable wake_worker_, wake_caller_;
  std::size_t made_ = 0, taken_ = 0;  // minibatches of this epoch so far; share i lies at i % ring size
  bool running_ = false;              // there is more to make
  bool busy_ = false;                 // one is being made, without the lock
  bool in_queue_ = false;             // busy_ with a wait for a work unit, which may take until this rank goes on
  bool quit_ = false;
  bool waits_ = false;  // the caller has nothing to do
  // Where work units are handed out: whether one is made ready while the caller works, from how long making and working
  // take.
  bool from_queue_ = false, early_ = false;
  NotedQueue queue_{*this};
  Clock::time_point given_;
  Clock::duration making_{};
  int quick_ = 0;  // made in a row in less time than a thread takes to wake up
  std::exception_ptr failure_;
  std::thread worker_;
};

}  // namespace tutti::reader
