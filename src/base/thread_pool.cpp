// SPDX-License-Identifier: Apache-2.0
// Threads take the next job from a counter, so that large ones do not hold up the small ones.
#include "base/thread_pool.h"

#include <sched.h>

namespace tutti {

std::size_t cores_allowed() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<std::size_t>(CPU_COUNT(&allowed))
                                                               : std::thread::hardware_concurrency();
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_.notify_all();
  for (auto& t : threads_) t.join();
}

void ThreadPool::run(std::size_t jobs, const std::function<void(std::size_t, std::size_t)>& work) {
  if (size_ == 1 || jobs < 2) {
    for (std::size_t i = 0; i < jobs; ++i) work(i, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    jobs_ = jobs;
    next_ = 0;
    ++round_;
    while (threads_.size() + 1 < size_) threads_.emplace_back([this, n = threads_.size() + 1] { serve(n); });
    busy_ = threads_.size();
  }
  wake_.notify_all();
  take_jobs(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_ == 0; });
}

void ThreadPool::take_jobs(std::size_t thread) {
  for (std::size_t job = next_++; job < jobs_; job = next_++) (*work_)(job, thread);
}

void ThreadPool::serve(std::size_t thread) {
  std::size_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return quit_ || round_ != seen; });
    if (quit_) return;
    seen = round_;
    lock.unlock();
    take_jobs(thread);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace tutti
