// SPDX-License-Identifier: Apache-2.0
// Loaders take the next job from a counter, so that large images do not hold up the small ones.
#include "reader/loader_pool.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>

namespace tutti::reader {

std::size_t default_loaders() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                        ? CPU_COUNT(&allowed)
                        : static_cast<int>(std::thread::hardware_concurrency());
  const int left = cores - omp_get_max_threads();
  constexpr int most = 16;
  return static_cast<std::size_t>(left > 0 ? std::min(left, most) : std::max(cores / 8, 1));
}

LoaderPool::~LoaderPool() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_.notify_all();
  for (auto& t : threads_) t.join();
}

void LoaderPool::run(std::size_t jobs, const std::function<void(std::size_t, std::size_t)>& work) {
  if (loaders_ == 1 || jobs < 2) {
    for (std::size_t i = 0; i < jobs; ++i) work(i, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    jobs_ = jobs;
    next_ = 0;
    ++round_;
    while (threads_.size() + 1 < loaders_) threads_.emplace_back([this, n = threads_.size() + 1] { serve(n); });
    busy_ = threads_.size();
  }
  wake_.notify_all();
  take_jobs(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_ == 0; });
}

void LoaderPool::take_jobs(std::size_t loader) {
  for (std::size_t job = next_++; job < jobs_; job = next_++) (*work_)(job, loader);
}

void LoaderPool::serve(std::size_t loader) {
  std::size_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return quit_ || round_ != seen; });
    if (quit_) return;
    seen = round_;
    lock.unlock();
    take_jobs(loader);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace tutti::reader
