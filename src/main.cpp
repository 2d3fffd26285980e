// SPDX-License-Identifier: Apache-2.0
// The MPI session, and the only catch. What is wrong with the configuration was agreed on by all ranks and ends them
// together (exit 2); anything later takes the others down at once, for they may sit in a collective.
#include <strings.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "actions/completion.h"
#include "actions/diff_command.h"
#include "actions/run.h"
#include "base/activity.h"
#include "base/exit_codes.h"
#include "base/launcher.h"
#include "base/memory.h"
#include "base/stop_request.h"
#include "base/time_slice.h"
#include "comm/session.h"
#include "doctor/doctor.h"
#include "doctor/request.h"
#include "launch/supervisor.h"
#include "openmp_spin.h"
#include "planner/planner.h"
#include "report/report.h"
#include "simulator/simulator.h"
#include "starter/starter.h"
#include "sweep/sweep.h"

namespace {

// Commands that work without MPI, with the words behind their name.
struct Command {
  std::string_view name;
  int (*run)(int argc, const char* const* argv);
};
constexpr Command commands[] = {
    {"completion", tutti::actions::run_completion},
    {"diff", tutti::actions::run_diff},
    {"doctor", tutti::doctor::run},
    {"launch", tutti::launch::run},
    {"man", tutti::actions::run_man},
    {"new", tutti::starter::run},
    {"plan", tutti::planner::run},
    {"report", tutti::report::run},
    {"simulate", tutti::simulator::run},
    {"sweep", tutti::sweep::run},
};

bool is_command(std::string_view word) {
  const auto& all = tutti::actions::command_list();
  return std::ranges::find(all, word, &tutti::actions::CommandHelp::name) != all.end();
}

// The message about a first word that is meant as a command; empty if it is none, or may be a key, which alone means
// true.
std::string unknown_command(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  std::error_code ignored;
  if (word.empty() || word.front() == '-' || word.find_first_of("=[{$./ \n") != word.npos ||
      strcasecmp(word.c_str(), "help") == 0 || std::filesystem::is_regular_file(word, ignored))
    return {};
  if (is_command(word)) return {};
  std::vector<std::string> names;
  for (const auto& command : tutti::actions::command_list()) names.emplace_back(command.name);
  const bool settings = std::any_of(argv + 2, argv + argc, [](std::string_view w) { return w.find('=') != w.npos; });
  const std::string fix = tutti::did_you_mean(
      word, names, settings ? "" : "trainer --help lists the commands; settings are written key=value");
  if (fix.empty()) return {};
  return tutti::render({{}, "there is no command '" + word + "'", fix});
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails with EFBIG instead, like one to a full disk
  tutti::limit_openmp_spinning();
  for (const Command& command : commands)
    if (argc > 1 && command.name == argv[1]) return command.run(argc - 2, argv + 2);
  tutti::ask_for_short_time_slices();
  if (argc > 1 && std::string_view(argv[1]) == "plan-rank") return tutti::planner::run_rank(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "simulate-rank") return tutti::simulator::run_rank(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "doctor-rank") return tutti::doctor::run_rank(argc, argv);
  if (const std::string message = unknown_command(argc, argv); !message.empty()) {
    std::fputs(message.c_str(), stderr);
    return tutti::kWrongConfiguration;
  }
  tutti::watch_this_thread();
  // Commands on model files end as other programs do: a shell's loop over models ends with Ctrl-C.
  if (argc < 2 || !is_command(argv[1])) tutti::end_on_signals(tutti::kPreempted, !tutti::find_launcher().present);
  tutti::MpiSession mpi(&argc, &argv);
  if (mpi.world().rank() == 0) tutti::launcher::tell(tutti::launcher::kConnected);
  // Outside of the try block, so that a failure does not destroy it: that would join the run's threads, and one of them
  // may wait for a rank that waits for this one.
  std::unique_ptr<tutti::actions::Run> run;
  const auto fail = [&](const std::string& text, int code) {
    if (run) run->locks.clear();
    mpi.fail(text, code);
  };
  try {
    int code = 0;
    run = tutti::actions::prepare_run(argc, argv, mpi.world(), code);
    if (run) tutti::actions::run_actions(*run, mpi.world());
    run.reset();
    mpi.end(code);
    return code;
  } catch (const tutti::StopRun& stop) {
    run.reset();
    mpi.end(stop.code);
    return stop.code;
  } catch (const tutti::CodedError& error) {
    fail(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    fail(tutti::kOutOfMemory, tutti::kFailed);
  } catch (const std::exception& error) {
    fail(error.what(), tutti::kFailed);
  }
}
