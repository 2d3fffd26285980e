// SPDX-License-Identifier: Apache-2.0
// loader_pool.h -- threads that prepare the samples of a minibatch together while the network computes the last one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::reader {

// How many loaders suit this process: cores it may use that training leaves free; when there are none, a few that
// share.
std::size_t default_loaders();

class LoaderPool {
 public:
  // The caller of run() is one of the `loaders`; threads are started when first needed.
  explicit LoaderPool(std::size_t loaders) : loaders_(loaders < 1 ? 1 : loaders) {}
  ~LoaderPool();
  LoaderPool(const LoaderPool&) = delete;
  LoaderPool& operator=(const LoaderPool&) = delete;

  std::size_t loaders() const { return loaders_; }
  // Calls work(job, loader) once for each job from 0 on; loader < loaders() tells whose tools to use. Jobs are begun in
  // order. `work` must not throw.
  void run(std::size_t jobs, const std::function<void(std::size_t job, std::size_t loader)>& work);

 private:
  void serve(std::size_t loader);
  void take_jobs(std::size_t loader);

  std::size_t loaders_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::size_t round_ = 0, busy_ = 0;
  bool quit_ = false;
  const std::function<void(std::size_t, std::size_t)>* work_ = nullptr;
  std::size_t jobs_ = 0;
  std::atomic<std::size_t> next_{0};
};

}  // namespace tutti::reader
