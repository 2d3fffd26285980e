// SPDX-License-Identifier: Apache-2.0
// activity.h -- what the training thread of this process does right now, for the watchdog (src/comm/watchdog.h), which
// reads it from its own thread. Costs a few stores; other threads write nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

struct Activity {
  std::atomic<std::uint64_t> changes{0};             // grows with everything the thread does: progress
  std::atomic<std::int64_t> epoch{0}, minibatch{0};  // count from 1; 0 outside of training
  std::atomic<const char*> doing{"prepares"};        // a literal; what is waited for while `waiting`
  std::atomic<int> peer{-1}, bucket{-1};             // the rank of the world that it waits for; -1 = unknown
  std::atomic<bool> waiting{false};
  std::atomic<bool> training{false};  // progress is expected all the time
};

Activity& activity();  // of this process
namespace detail {
inline thread_local Activity* this_thread = nullptr;
}
// The calling thread is the one that trains.
inline void watch_this_thread() { detail::this_thread = &activity(); }
inline void made_progress() {
  if (Activity* a = detail::this_thread)
    a->changes.store(a->changes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}
// Counts from 1.
inline void now_at(std::int64_t epoch, std::int64_t minibatch) {
  Activity* a = detail::this_thread;
  if (!a) return;
  a->epoch.store(epoch, std::memory_order_relaxed);
  a->minibatch.store(minibatch, std::memory_order_relaxed);
  made_progress();
}

// While it lives, the thread does something else, or waits for another rank.
class Doing {
 public:
  explicit Doing(const char* what, bool waiting = false, int peer = -1, int bucket = -1) {
    Activity* a = detail::this_thread;
    if (!a) return;
    doing_ = a->doing.load(kRelaxed), waiting_ = a->waiting.load(kRelaxed);
    peer_ = a->peer.load(kRelaxed), bucket_ = a->bucket.load(kRelaxed);
    set(*a, what, waiting, peer, bucket);
  }
  ~Doing() {
    if (Activity* a = detail::this_thread; a && doing_) set(*a, doing_, waiting_, peer_, bucket_);
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static void set(Activity& a, const char* what, bool waiting, int peer, int bucket) {
    a.doing.store(what, kRelaxed), a.waiting.store(waiting, kRelaxed);
    a.peer.store(peer, kRelaxed), a.bucket.store(bucket, kRelaxed);
    made_progress();
  }
  const char* doing_ = nullptr;
  bool waiting_ = false;
  int peer_ = -1, bucket_ = -1;
};

class Waiting : public Doing {
 public:
  explicit Waiting(const char* what, int peer = -1, int bucket = -1) : Doing(what, true, peer, bucket) {}
  // The rank that is waited for now.
  void on(int peer) {
    if (Activity* a = detail::this_thread) a->peer.store(peer, std::memory_order_relaxed);
  }
};

// A command that trains: its ranks never rest, so one that makes no progress is stalled.
class TrainingTime {
 public:
  TrainingTime() { set(true); }
  ~TrainingTime() {
    set(false);
    now_at(0, 0);
  }
  TrainingTime(const TrainingTime&) = delete;
  TrainingTime& operator=(const TrainingTime&) = delete;

 private:
  static void set(bool training) {
    if (Activity* a = detail::this_thread) a->training.store(training, std::memory_order_relaxed);
  }
};

}  // namespace tutti
