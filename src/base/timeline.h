// SPDX-License-Identifier: Apache-2.0
// timeline.h -- what the training thread of a rank did when: spans for SGD.timeline. The code that does the work marks
// its spans; src/train/timeline_writer.h turns recording on and writes the file. Off, a span costs a load and a
// branch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace tutti {

enum class Work : std::int32_t { read, copy, forward, backward, encode, wait, decode, update };
constexpr const char* kWorkNames[] = {"read", "copy", "forward", "backward", "encode", "wait", "decode", "update"};

class Timeline {
 public:
  struct Span {
    std::int64_t begin = 0, end = 0;  // nanoseconds of Clock
    std::int32_t epoch = 0, minibatch = 0;
    Work work = Work::read;
    std::int32_t unused = 0;
  };

  explicit Timeline(std::size_t capacity) { spans_.reserve(capacity); }
  void at(std::int32_t epoch, std::int32_t minibatch) { epoch_ = epoch, minibatch_ = minibatch; }
  // Does not allocate: spans that do not fit are only counted. Leaves out spans too short to be seen.
  void add(Work work, Clock::time_point begin, Clock::time_point end) {
    const std::int64_t from = nanoseconds(begin), to = nanoseconds(end);
    if (to - from < kShortest) return;
    if (spans_.size() == spans_.capacity())
      ++lost_;
    else
      spans_.push_back({from, to, epoch_, minibatch_, work, 0});
  }
  const std::vector<Span>& spans() const { return spans_; }
  std::int64_t lost() const { return lost_; }
  void clear() { spans_.clear(), lost_ = 0; }

  static std::int64_t nanoseconds(Clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  }

 private:
  static constexpr std::int64_t kShortest = 500;
  std::vector<Span> spans_;
  std::int64_t lost_ = 0;
  std::int32_t epoch_ = 0, minibatch_ = 0;
};

namespace detail {
inline thread_local Timeline* recorded_thread = nullptr;  // null: nothing is recorded
}

// Records its scope.
class TimelineSpan {
 public:
  explicit TimelineSpan(Work work) : to_(detail::recorded_thread), work_(work) {
    if (to_) begin_ = Clock::now();
  }
  ~TimelineSpan() {
    if (to_) to_->add(work_, begin_, Clock::now());
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  Timeline* const to_;
  const Work work_;
  Clock::time_point begin_;
};

// A Stopwatch that also records its scope.
class WorkTimer {
 public:
  WorkTimer(double& total, Work work) : total_(total), work_(work) {}
  ~WorkTimer() {
    const Clock::time_point end = Clock::now();
    total_ += std::chrono::duration<double>(end - start_).count();
    if (Timeline* to = detail::recorded_thread) to->add(work_, start_, end);
  }
  WorkTimer(const WorkTimer&) = delete;
  WorkTimer& operator=(const WorkTimer&) = delete;

 private:
  double& total_;
  const Work work_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace tutti
