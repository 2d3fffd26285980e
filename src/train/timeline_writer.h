// SPDX-License-Identifier: Apache-2.0
// timeline_writer.h -- SGD.timeline: the spans of all ranks (base/timeline.h) on the clock of rank 0, in the trace
// format of Chrome, which Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/timeline.h"
#include "tutti/communicator.h"

namespace tutti {

// Clocks of all ranks against that of rank 0. Collective; `all` is complete on rank 0 only.
struct ClockOffset {
  std::int64_t nanoseconds = 0;  // to be subtracted from the rank's time
  std::int64_t uncertainty = 0;  // half of the fastest round trip
};
std::vector<ClockOffset> measure_clock_offsets(Communicator&);

// The complete file. `start`: the time 0 of the trace, in nanoseconds of rank 0's clock.
class TimelineFile {
 public:
  TimelineFile(const std::string& path, const std::vector<std::string>& hosts, std::int64_t start);
  // Whole and valid JSON again when it returns. Throws Error.
  void append(int rank, const std::vector<Timeline::Span>&, std::int64_t offset);
  std::int64_t spans() const { return spans_; }

 private:
  void put(const std::string& events);
  std::string path_;
  std::fstream out_;
  std::streampos end_;  // where the next event goes
  std::int64_t start_ = 0, spans_ = 0;
  bool any_ = false;
};

class TimelineWriter {
 public:
  // Records the first `steps` minibatches of each epoch; 0 = all. Collective: measures the clocks.
  TimelineWriter(Communicator& world, const std::string& path, std::int64_t steps);
  ~TimelineWriter() { stop(); }
  TimelineWriter(const TimelineWriter&) = delete;
  TimelineWriter& operator=(const TimelineWriter&) = delete;

  // The calling thread trains from here on: epoch from 0, minibatches of it that are done.
  void start(std::int64_t epoch, std::int64_t minibatches_done);
  void end_step(std::int64_t minibatches_done) { start(epoch_, minibatches_done); }
  void stop() { detail::recorded_thread = nullptr; }
  // Writes what all ranks have recorded. Collective.
  void flush();

 private:
  void write(int rank, const std::vector<Timeline::Span>&, std::int64_t lost);

  Communicator& world_;
  const std::int64_t steps_;
  Timeline timeline_;
  std::vector<ClockOffset> offsets_;
  std::unique_ptr<TimelineFile> file_;  // of rank 0
  std::int64_t epoch_ = 0;
  bool full_ = false;
};

}  // namespace tutti
