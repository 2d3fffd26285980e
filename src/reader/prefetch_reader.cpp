// SPDX-License-Identifier: Apache-2.0
// The thread sleeps while the ring is full; the caller sleeps while it is empty. An error is kept until the minibatches
// before it are used up, so that it shows at the same step whatever the timing.
#include "reader/prefetch_reader.h"

#include <algorithm>

namespace tutti::reader {
namespace {

// Waking a thread that sleeps costs both sides some microseconds, more where they share a core.
constexpr std::chrono::microseconds quick{10};
constexpr int quick_in_a_row = 16;

}  // namespace

PrefetchReader::PrefetchReader(MinibatchMaker maker, std::size_t depth) : maker_(std::move(maker)) {
  for (std::size_t i = 0; i < depth + 1; ++i) ring_.emplace_back(maker_.streams());
}

PrefetchReader::~PrefetchReader() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_worker_.notify_all();
  if (worker_.joinable()) worker_.join();
}

// Stops: nothing is being made, and the caller owns the maker.
void PrefetchReader::halt(std::unique_lock<std::mutex>& lock) {
  running_ = false;
  wake_caller_.wait(lock, [&] { return !busy_; });
}

std::int64_t PrefetchReader::sweep_samples() {
  std::unique_lock lock(mutex_);
  wake_caller_.wait(lock, [&] { return !busy_; });
  return maker_.sweep_samples();
}

std::string PrefetchReader::place(std::uint32_t sequence) {
  std::unique_lock lock(mutex_);
  wake_caller_.wait(lock, [&] { return !busy_ || in_queue_; });
  return maker_.place(sequence);
}

std::int64_t PrefetchReader::NotedQueue::next() {
  const auto note = [this](bool waits) {
    const std::lock_guard lock(reader.mutex_);
    reader.in_queue_ = waits;
    reader.wake_caller_.notify_all();
  };
  note(true);
  const std::int64_t unit = source->next();
  note(false);
  return unit;
}

void PrefetchReader::start_epoch(const EpochPlan& plan) {
  std::unique_lock lock(mutex_);
  halt(lock);
  made_ = taken_ = 0;
  failure_ = nullptr;
  from_queue_ = plan.work_queue != nullptr;
  early_ = false;
  given_ = Clock::now();
  EpochPlan noted = plan;
  queue_.source = plan.work_queue;
  if (from_queue_) noted.work_queue = &queue_;
  maker_.start(noted);
  running_ = true;
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
  wake_worker_.notify_one();
}

const Batch* PrefetchReader::next() {
  std::unique_lock lock(mutex_);
  // The last share is free once its successor is requested; it becomes the spare place of the ring. Work units are
  // taken early only if making a minibatch takes more than a twentieth of a step: others wait for the units of a late
  // rank.
  early_ = taken_ > 0 && making_ * 20 > Clock::now() - given_;
  if (alone() && made_ == taken_ && running_ && !busy_) make_one(lock);
  waits_ = true;
  if (from_queue_ && !alone()) wake_worker_.notify_one();
  wake_caller_.wait(lock, [&] { return made_ > taken_ || !running_; });
  waits_ = false;
  given_ = Clock::now();
  if (made_ == taken_) {
    if (failure_) std::rethrow_exception(failure_);
    return nullptr;
  }
  Share& share = ring_[taken_ % ring_.size()];
  ++taken_;
  if (!alone()) wake_worker_.notify_one();
  return &share.finish();
}

const Batch* PrefetchReader::ahead() {
  const std::lock_guard lock(mutex_);
  return made_ > taken_ ? &ring_[taken_ % ring_.size()].finish() : nullptr;
}

// Whether the caller makes them, and the thread sleeps. A single slow one hands over to the thread: the next are often
// slow as well.
bool PrefetchReader::alone() const { return quick_ == quick_in_a_row; }

// How many the thread is to have ready beside the one in use.
std::size_t PrefetchReader::wanted() const {
  if (alone()) return 0;
  if (from_queue_) return waits_ || early_ ? 1 : 0;
  return ring_.size() - 1;  // one place stays with the caller, who may still be reading the share taken last
}

void PrefetchReader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_worker_.wait(lock, [&] { return quit_ || (running_ && !busy_ && made_ - taken_ < wanted()); });
    if (quit_) return;
    make_one(lock);
  }
}

// Makes the next minibatch, in the thread or in the caller.
void PrefetchReader::make_one(std::unique_lock<std::mutex>& lock) {
  Share& share = ring_[made_ % ring_.size()];
  busy_ = true;
  lock.unlock();
  bool more = false;
  std::exception_ptr failure;
  const auto start = Clock::now();
  try {
    more = maker_.make(share);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  busy_ = in_queue_ = false;
  wake_caller_.notify_all();
  making_ = Clock::now() - start;
  quick_ = making_ < quick ? std::min(quick_ + 1, quick_in_a_row) : 0;
  if (!running_) return;
  if (more) ++made_;
  running_ = more;
  failure_ = failure;
}

}  // namespace tutti::reader
