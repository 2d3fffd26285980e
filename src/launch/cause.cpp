// SPDX-License-Identifier: Apache-2.0
#include "launch/cause.h"

#include <fmt/format.h>

#include "base/exit_codes.h"
#include "base/pattern.h"

namespace tutti::launch {

void note_cause(const std::string& output, Cause& cause) {
  static const Pattern watchdog(R"(rank (\d+) on (\S+) (is frozen|cannot be reached|died|is late)[^:]*)");
  static const Pattern killed(R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+))");
  // The rank that these name, not the one that reports it.
  static const Pattern differs(R"('[^']*' of rank (\d+) on ([^\s,]+)(?:, .*)? differs from.*)");
  static const Pattern damaged(R"(of \d+ bytes from rank (\d+) on (\S+) was damaged.*)");
  static const Pattern failed(R"(^\[rank (\d+) on (\S+)\] (.*))");
  static const Pattern daemon(R"(Remote daemon: .* on node (\S+))");
  // Open MPI 5 breaks its message into two lines, and lines of ranks may come between them.
  const std::string joined = cause.begun + output;
  const bool complete = killed.search(joined).has_value();
  const std::string& line = complete ? joined : output;
  if (complete)
    cause.begun.clear();
  else if (output.find("noticed that process rank") != output.npos)
    cause.begun = output.substr(0, output.find_last_not_of("\r\n ") + 1) + " ";
  // Of a late rank, which may come back; with a time or a rank in front of it.
  if (line.find("Warning: ") != line.npos || line.find("trainer launch: attempt") != line.npos) return;
  if (line.find("The watchdog ends the run") != line.npos) cause.ending = true;
  if (const auto m = watchdog.search(line)) {
    cause = {(*m)[0], (*m)[2], true};
  } else if (const auto k = killed.search(line)) {
    if (cause.text.empty())
      cause = {fmt::format("rank {} on {} was ended by signal {}", (*k)[1], (*k)[2], (*k)[3]), (*k)[2], true};
  } else if (const auto w = differs.search(line)) {
    if (cause.text.empty()) cause = {(*w)[0], (*w)[2], true};
  } else if (const auto b = damaged.search(line)) {
    if (cause.text.empty()) cause = {fmt::format("a message {}", (*b)[0]), (*b)[2], true};
  } else if (const auto f = failed.search(line)) {
    if (cause.text.empty() && (*f)[3].find("watchdog") == std::string::npos)
      cause = {fmt::format("rank {} on {}: {}", (*f)[1], (*f)[2], (*f)[3]), (*f)[2], true};
  } else if (const auto d = daemon.search(line)) {
    if (cause.text.empty()) cause = {fmt::format("mpiexec lost its connection to {}", (*d)[1]), (*d)[1], true};
  }
}

Judgement judge_exit(int code, bool stopping, int attempts_alike) {
  constexpr int kAlike = 3;
  if (code == kDone) return {Next::done, "finished"};
  if (code == kPreempted && (stopping || attempts_alike < kAlike))
    return {stopping ? Next::done : Next::start_again, "stopped by a signal"};
  if (stopping) return {Next::done, "ended while it was being stopped"};
  if (code == kNotANumber) return {Next::give_up, "the criterion is not a number: another attempt would end alike"};
  if (code == kWrongConfiguration && attempts_alike < kAlike)
    return {attempts_alike == 1 ? Next::give_up : Next::start_again, "the configuration is wrong"};
  if ((code == kFailed || code == kWrongConfiguration || code == kPreempted) && attempts_alike >= kAlike)
    return {Next::give_up, fmt::format("{} attempts in a row ended alike soon after they began", attempts_alike)};
  return {Next::start_again, "failed"};
}

}  // namespace tutti::launch
