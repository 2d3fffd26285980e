// SPDX-License-Identifier: Apache-2.0
#include "train/background_writer.h"

#include <fmt/format.h>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "base/activity.h"
#include "tutti/log.h"

namespace tutti {

BackgroundWriter::~BackgroundWriter() { close(); }

void BackgroundWriter::close() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  job_ = {};
}

void BackgroundWriter::submit(Job job) {
  wait();
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    if (!job.first) job.first = std::move(job_.first);
    job_ = std::move(job);
  }
  begin();
}

void BackgroundWriter::begin() {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;
  }
  changed_.notify_all();
}

bool BackgroundWriter::busy(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return !waiting_; });
  return waiting_ && !job_.name.empty();
}

void BackgroundWriter::wait() {
  std::unique_lock lock(mutex_);
  auto next = std::chrono::seconds(30);
  const auto start = std::chrono::steady_clock::now();
  while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return !waiting_; })) {
    made_progress();
    if (job_.name.empty() || std::chrono::steady_clock::now() - start < next) continue;
    log::warning(fmt::format("the training has waited {} s for '{}' to be on disk. fix: a faster disk for modelPath",
                             next.count(), job_.name));
    next *= 2;
  }
}

int BackgroundWriter::failures_in_a_row() {
  const std::lock_guard lock(mutex_);
  return failures_;
}

void BackgroundWriter::run() {
  pthread_setname_np(pthread_self(), "checkpoints");  // for top -H
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return waiting_ || ending_; });
    if (!waiting_) return;
    lock.unlock();
    // Of this thread alone, on Linux: writing must not take the cores from threads that compute together, but go on.
    constexpr int kNice = 10;
    if (!job_.name.empty()) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
    attempt();
    lock.lock();
    if (why_.empty()) job_.write = {};  // frees its memory
    waiting_ = false;
    changed_.notify_all();
  }
}

// Nobody else uses the job meanwhile.
void BackgroundWriter::attempt() {
  std::string why;
  try {
    if (job_.first) job_.first(), job_.first = {};
    job_.write();
  } catch (const std::exception& e) {
    why = e.what();
  }
  int failures = 0;
  {
    const std::lock_guard lock(mutex_);
    why_ = why;
    failures = failures_ = why.empty() ? 0 : failures_ + 1;
  }
  if (failures > 0)
    log::warning(fmt::format("'{}' could not be saved ({}): training goes on, earlier checkpoints are intact. fix: {}",
                             job_.name, why, "free space there, or make it writable"));
}

std::string BackgroundWriter::finish(int attempts) {
  wait();
  for (int i = 1; i < attempts && !why_.empty() && job_.write; ++i) {
    std::this_thread::sleep_for(std::chrono::seconds(i));
    made_progress();
    begin();
    wait();
  }
  return why_;
}

}  // namespace tutti
