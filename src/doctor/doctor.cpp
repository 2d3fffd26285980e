// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <string>

#include "base/clock.h"
#include "base/exit_codes.h"
#include "doctor/request.h"
#include "launch/mpiexec_line.h"
#include "launch/process.h"

namespace tutti::doctor {
namespace {

constexpr const char* kUsage =
    "usage: trainer doctor [-n RANKS] [--hosts A:4,B:4 | --hostfile FILE] [configFile=FILE ...]\n\n"
    "Looks for what stops or slows runs on these hosts, or on this one: MPI, names, cores, memory, shared memory, "
    "GPUs,\n"
    "clocks, the same program and data on every host, the folder of the models, and the bandwidth and latency between\n"
    "every two hosts. One line for each thing: ok, warning or failure, with the fix. --mpiexec and --agent are those "
    "of\n"
    "trainer launch. With a configuration, the data are the files of its readers and the folder is that of its model.\n"
    "Exit code: 0 all is well, 1 warnings, 2 failures.\n";

constexpr double kPatience = 60;  // seconds without a line until ranks count as hanging

void print(const Finding& f) {
  std::puts(to_string(f).c_str());
  std::fflush(stdout);
}

// Starts the ranks with the line that `trainer launch` would use.
void look_through_ranks(const Request& request, Findings& findings) {
  const launch::MpiexecLine line = launch::mpiexec_line(request.launch, request.launch.ranks, request.launch.hosts);
  std::deque<std::string> last;
  bool any = false, hangs = false;
  auto heard = Clock::now();
  int code = 1;
  try {
    launch::Process process(line.words, launch::Process::Output::lines, line.variables);
    const auto take = [&](bool, const std::string& text) {
      heard = Clock::now();
      Finding f;
      if (from_record(text, f)) {
        print(f), findings.push_back(f), any = true;
      } else if (text.find_first_not_of("-\r\n ") != text.npos) {
        last.push_back(text.substr(0, text.find_last_not_of("\r\n") + 1));
        if (last.size() > 3) last.pop_front();
      }
    };
    while (process.running() && !hangs) {
      process.read(100, take);
      hangs = seconds_since(heard) > kPatience;
    }
    if (hangs) process.kill_tree();
    process.read(0, take);
    code = process.exit_code();
  } catch (const Error& e) {
    last.emplace_back(e.what());
  }
  if (any && code == 0 && !hangs) return;
  std::string said;
  for (const std::string& l : last) said += (said.empty() ? "" : " / ") + l;
  findings.push_back({Level::failure, "ranks",
                      fmt::format("{}{}",
                                  hangs ? fmt::format("nothing was heard for {:.0f} s", kPatience)
                                        : fmt::format("mpiexec ended with code {}", code),
                                  said.empty() ? "" : ": " + said),
                      "try the line by hand: " + to_string(line)});
  print(findings.back());
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    const Request request = read_request({argv, argv + argc});
    if (request.launch.help) return std::fputs(kUsage, stdout), 0;
    Findings findings;
    look_at_this_host(request, findings);
    const bool reachable = look_at_hosts(request, findings);
    for (const Finding& f : findings) print(f);
    if (reachable) {
      look_through_ranks(request, findings);
    } else {
      findings.push_back({Level::warning, "ranks", "not started, as not all hosts can be reached", "see above"});
      print(findings.back());
    }
    const auto count = [&](Level level) {
      return std::ranges::count_if(findings, [&](const Finding& f) { return f.level == level; });
    };
    const auto counted = [&](Level level, const char* word) {
      return fmt::format("{} {}{}", count(level), word, count(level) == 1 ? "" : "s");
    };
    std::printf("%ld ok, %s, %s\n", static_cast<long>(count(Level::ok)), counted(Level::warning, "warning").c_str(),
                counted(Level::failure, "failure").c_str());
    return count(Level::failure) > 0 ? 2 : count(Level::warning) > 0 ? 1 : 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", launch::in_words_of("doctor", e.what()).c_str());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::doctor
