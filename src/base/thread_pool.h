// SPDX-License-Identifier: Apache-2.0
// thread_pool.h -- threads that share work, such as preparing or copying the samples of a minibatch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti {

// The number of cores this process may use.
std::size_t cores_allowed();

class ThreadPool {
 public:
  // The caller of run() is one of the `threads`; the others are started on first use.
  explicit ThreadPool(std::size_t threads) : size_(threads < 1 ? 1 : threads) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return size_; }
  // Calls work(job, thread) once for each job from 0 on; thread < size() identifies the thread. Jobs start in order.
  // `work` must not throw.
  void run(std::size_t jobs, const std::function<void(std::size_t job, std::size_t thread)>& work);

 private:
  void serve(std::size_t thread);
  void take_jobs(std::size_t thread);

  std::size_t size_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::size_t round_ = 0, busy_ = 0;
  bool quit_ = false;
  const std::function<void(std::size_t, std::size_t)>* work_ = nullptr;
  std::size_t jobs_ = 0;
  std::atomic<std::size_t> next_{0};
};

}  // namespace tutti
