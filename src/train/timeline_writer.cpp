// SPDX-License-Identifier: Apache-2.0
#include "train/timeline_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>

#include "base/activity.h"
#include "base/write_root.h"
#include "comm/agreement.h"
#include "train/metrics/metrics.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {
namespace {

constexpr int kClockTag = 31011, kSpansTag = 31012;
constexpr std::size_t kCapacity = std::size_t{1} << 18;  // spans between two flushes
constexpr std::int64_t kMostSpans = 2'000'000;           // of a file: about 250 MB

std::int64_t now() { return Timeline::nanoseconds(Clock::now()); }

// One side of a round trip: of rank 0, or of rank `peer`.
std::int64_t receive_time(Communicator& world, int peer) {
  std::int64_t time = 0;
  world.receive(peer, kClockTag, std::as_writable_bytes(std::span(&time, 1)))->wait();
  return time;
}
void send_time(Communicator& world, int peer) {
  const std::int64_t time = now();
  world.send(peer, kClockTag, std::as_bytes(std::span(&time, 1)))->wait();
}

// As in NTP: the peer's answer was on its way for half of the round trip; the fastest of several is the most exact.
ClockOffset offset_of(Communicator& world, int peer) {
  constexpr int kRounds = 20;
  ClockOffset best{0, std::numeric_limits<std::int64_t>::max()};
  for (int i = 0; i < kRounds; ++i) {
    const std::int64_t sent = now();
    send_time(world, peer);
    const std::int64_t theirs = receive_time(world, peer), received = now();
    if (const std::int64_t half = (received - sent) / 2; half < best.uncertainty) best = {theirs - (sent + half), half};
  }
  send_time(world, peer);
  return best;
}

}  // namespace

std::vector<ClockOffset> measure_clock_offsets(Communicator& world) {
  constexpr int kRounds = 20;
  std::vector<ClockOffset> all(static_cast<std::size_t>(world.size()));
  const Waiting waiting("the clocks of the ranks");
  if (world.rank() == 0)
    for (int r = 1; r < world.size(); ++r) all[static_cast<std::size_t>(r)] = offset_of(world, r);
  else
    for (int i = 0; i < kRounds; ++i) receive_time(world, 0), send_time(world, 0);
  if (world.rank() != 0) receive_time(world, 0);  // rank 0 has what it needs
  return all;
}

TimelineFile::TimelineFile(const std::string& path, const std::vector<std::string>& hosts, std::int64_t start)
    : path_(path), start_(start) {
  require_in_write_root(path);
  std::error_code ignored;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ignored);
  out_.open(path, std::ios::in | std::ios::out | std::ios::trunc);
  out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  end_ = out_.tellp();
  std::string names;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    names += fmt::format(
        "{}\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"tid\":0,\"args\":{{\"name\":\"rank {} on {}\"}}}}",
        r > 0 ? "," : "", r, r, json_text(hosts[r]));
    names += fmt::format(
        ",\n{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"tid\":0,\"args\":{{\"sort_index\":{}}}}}", r,
        r);
    names += fmt::format(
        ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":0,\"args\":{{\"name\":\"training\"}}}}", r);
  }
  put(names);
}

void TimelineFile::append(int rank, const std::vector<Timeline::Span>& spans, std::int64_t offset) {
  fmt::memory_buffer events;
  for (const Timeline::Span& s : spans)
    fmt::format_to(
        std::back_inserter(events),
        ",\n{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"step\",\"pid\":{},\"tid\":0,\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":{{\"epoch\":{},\"minibatch\":{}}}}}",
        kWorkNames[static_cast<std::size_t>(s.work)], rank, static_cast<double>(s.begin - offset - start_) / 1e3,
        static_cast<double>(s.end - s.begin) / 1e3, s.epoch + 1, s.minibatch + 1);
  put(fmt::to_string(events));
  spans_ += static_cast<std::int64_t>(spans.size());
}

// The end of the file is written again.
void TimelineFile::put(const std::string& events) {
  out_.seekp(end_);
  out_ << events;
  end_ = out_.tellp();
  out_ << "\n]}\n";
  out_.flush();
  if (!out_) throw Error(fmt::format("'{}' cannot be written: {}", path_, std::strerror(errno)));
}

TimelineWriter::TimelineWriter(Communicator& world, const std::string& path, std::int64_t steps)
    : world_(world), steps_(steps), timeline_(kCapacity), offsets_(measure_clock_offsets(world)) {
  const auto hosts = hosts_of(world);
  if (world.rank() != 0) return;
  file_ = std::make_unique<TimelineFile>(path, hosts, now());
  std::int64_t most = 0, least_sure = 0;
  for (const ClockOffset& o : offsets_) {
    most = std::max(most, std::abs(o.nanoseconds));
    least_sure = std::max(least_sure, o.uncertainty);
  }
  log::line(
      fmt::format("Timeline: '{}' records {}; the clocks of the ranks differ by up to {:.3f} ms, known to {:.1f} us",
                  path, steps > 0 ? fmt::format("the first {} minibatches of each epoch", steps) : "every minibatch",
                  static_cast<double>(most) / 1e6, static_cast<double>(least_sure) / 1e3));
}

void TimelineWriter::start(std::int64_t epoch, std::int64_t minibatches_done) {
  epoch_ = epoch;
  timeline_.at(static_cast<std::int32_t>(epoch), static_cast<std::int32_t>(minibatches_done));
  const bool records = !full_ && (steps_ == 0 || minibatches_done < steps_);
  detail::recorded_thread = records ? &timeline_ : nullptr;
}

void TimelineWriter::write(int rank, const std::vector<Timeline::Span>& spans, std::int64_t lost) {
  if (!file_) return;
  try {
    file_->append(rank, spans, offsets_[static_cast<std::size_t>(rank)].nanoseconds);
  } catch (const Error& e) {
    log::warning(fmt::format("timeline: {}; nothing more is recorded in this run", e.what()));
    file_.reset();
  }
  if (lost > 0) log::line(fmt::format("Timeline: {} spans of rank {} did not fit into its memory", lost, rank));
}

void TimelineWriter::flush() {
  if (full_) return;
  Timeline* const recording = std::exchange(detail::recorded_thread, nullptr);
  struct Size {
    std::int64_t spans, lost;
  };
  const auto& mine = timeline_.spans();
  const auto sizes = from_all(world_, Size{static_cast<std::int64_t>(mine.size()), timeline_.lost()});
  if (world_.rank() == 0) {
    std::vector<Timeline::Span> theirs;
    for (int r = 0; r < world_.size(); ++r) {
      const Size& size = sizes[static_cast<std::size_t>(r)];
      theirs.resize(static_cast<std::size_t>(size.spans));
      if (r > 0 && size.spans > 0) world_.receive(r, kSpansTag, std::as_writable_bytes(std::span(theirs)))->wait();
      write(r, r == 0 ? mine : theirs, size.lost);
    }
    full_ = !file_ || file_->spans() >= kMostSpans;
    if (full_ && file_) log::line(fmt::format("Timeline: the file has {} spans and is complete", file_->spans()));
  } else if (!mine.empty()) {
    world_.send(0, kSpansTag, std::as_bytes(std::span(mine)))->wait();
  }
  std::int64_t full = full_;
  world_.broadcast(0, std::as_writable_bytes(std::span(&full, 1)));
  full_ = full != 0;
  timeline_.clear();
  detail::recorded_thread = full_ ? nullptr : recording;
}

}  // namespace tutti
