// SPDX-License-Identifier: Apache-2.0
#include "actions/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>

#include "actions/auto_method.h"
#include "actions/binding.h"
#include "actions/check.h"
#include "actions/cpu.h"
#include "actions/device.h"
#include "actions/effective_config.h"
#include "actions/help.h"
#include "actions/prepare.h"
#include "actions/together.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/launcher.h"
#include "base/memory.h"
#include "comm/session.h"
#include "comm/watchdog.h"
#include "train/checkpoint.h"
#include "train/file.h"
#include "train/metrics/options.h"
#include "train/model_lock.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

// The watchdog's limits outside of trainings. A training sets those of its SGD block.
void watch(const config::TopLevel& top) { set_watch_limits({.stall = top.stall_timeout, .warn = top.stall_warning}); }

void announce(const Prepared& p) {
  const std::string bar(78, '#');
  log::line("");
  log::line(bar);
  log::line(fmt::format("#{:76}#", ""));
  log::line(fmt::format("# {:75}#", fmt::format("{} command ({} action)", p.command, p.action)));
  log::line(fmt::format("#{:76}#", ""));
  log::line(bar);
  log::line("");
}

std::string now_text() { return fmt::format("{:%Y/%m/%d %H:%M:%S}", local_time()); }

// Two runs must not work on one model at once. Rank 0 holds the locks to the end.
std::vector<ModelLock> lock_models(const std::vector<Prepared>& actions, Communicator& world) {
  std::map<std::filesystem::path, std::string> models;
  for (const auto& p : actions)
    if (const std::string& model = p.what->trained_model; !model.empty()) models.try_emplace(same_file(model), model);
  std::vector<ModelLock> locks;
  if (world.rank() != 0) return locks;
  for (const auto& [file, model] : models) locks.emplace_back(model);
  return locks;
}

std::string model_of(const config::Record& command) {
  try {
    return command.string("modelPath", "");
  } catch (const ConfigError&) {
    return {};  // of a command that reads none
  }
}

// A resumed run, and one that trains nothing and reads the model of an earlier run, append to the log: on all ranks or
// on none.
bool appends_to_log(const std::vector<Prepared>& actions, const config::CommandLine& line, bool append_log,
                    Communicator& world) {
  std::int64_t appends = append_log;
  const bool trains = std::ranges::any_of(actions, [](const auto& p) { return !p.what->trained_model.empty(); });
  if (world.rank() == 0)
    for (const auto& p : actions) {
      const std::string model = trains ? p.what->trained_model : model_of(line.config.block(p.command));
      const bool from_scratch = trains && !p.what->make_mode;
      appends = appends || (!from_scratch && !model.empty() && earlier_run_left_files(model));
    }
  world.broadcast(0, std::as_writable_bytes(std::span(&appends, 1)));
  return appends != 0;
}

void open_log(const config::TopLevel& top, bool append, int rank) {
  const std::string path = config::log_path(top, rank);
  std::error_code ignored;
  const bool adds = append && !path.empty() && std::filesystem::file_size(path, ignored) > 0 && !ignored;
  if (!path.empty()) log::line(fmt::format("Redirecting stderr to file {}{}", path, adds ? " (appending)" : ""));
  log::open({path, top.timestamping, rank, rank != 0 && path.empty(), append});
  if (!adds) return;
  log::line("");
  log::line(fmt::format("Log continued at {}; the lines above are from earlier runs.", now_text()));
}

// The effective settings: printed before anything runs, and by --check. Collective.
std::vector<std::string> settings_lines(const std::vector<Prepared>& actions, const CpuPlan& cpu,
                                        const DevicePlan& device, const HostPlace& place, Communicator& world) {
  std::vector<std::string> lines{"Effective settings:"};
  lines.push_back(fmt::format("  ranks      {} on {} host{} (rank {} on {})", world.size(), place.hosts,
                              place.hosts == 1 ? "" : "s", world.rank(), world.host()));
  lines.push_back(fmt::format("  processor  {}, {}", cpu.text, compute_text()));
  if (world.size() > 1)
    for (auto& binding : binding_lines(world, cpu.cores)) lines.push_back(std::move(binding));
  if (!device.text.empty()) lines.push_back(fmt::format("  device     {}", device.text));
  for (const auto& p : actions) {
    lines.push_back(fmt::format("{}, action {}", p.command, p.action));
    lines.push_back(p.what->settings);
  }
  return lines;
}

void print_configuration(const config::CommandLine& line, const config::TopLevel& top) {
  if (top.trace_level <= 0) return;
  log::line("");
  log::line("Configuration After Processing and Variable Resolution:");
  log::line("");
  for (const auto& l : config::configuration_lines(line)) log::line(l);
  log::line(fmt::format("Commands: {}", fmt::join(top.command, " ")));
  log::line(
      fmt::format("precision = \"{}\"", top.precision == config::TopLevel::Precision::float64 ? "double" : "float"));
}

// When a training begins. One that is finished, or refused, leaves the settings that its files were made by.
void keep_settings(const Run& run, const config::Record& top) {
  for (const auto& p : run.actions)
    if (p.what->begins)
      *p.what->begins = [model = p.what->trained_model, settings = effective_config(top, run.top, {p.command})] {
        write_settings_file(model, settings);
      };
}

void check_done_file(const config::Record& config, const config::TopLevel& top, Problems& problems) {
  if (top.done_file.empty()) return;
  if (const std::string why = why_unwritable(top.done_file, false); !why.empty())
    problems.add(
        Diagnostic{place_of(config, "doneFile"), fmt::format("doneFile: {}", why), "name a file that can be written"});
}

void check_log(const config::Record& config, const config::TopLevel& top, int rank, Problems& problems) {
  const std::string path = config::log_path(top, rank), why = path.empty() ? "" : outside_write_root(path);
  if (!why.empty()) problems.add(Diagnostic{place_of(config, "stderr"), fmt::format("stderr: {}", why), kInWriteRoot});
}

void write_done_file(const config::TopLevel& top, Communicator& world) {
  if (top.done_file.empty() || world.rank() != 0) return;
  create_directories(directory_of(top.done_file));
  write_file(top.done_file, [&](std::ostream& out) {
    out << fmt::format("Successfully finished at {} on {}\n", now_text(), world.host());
  });
}

// parallelizationMethod = auto: the command line is read again, with words that name the methods.
MethodChoices settle_methods(int argc, const char* const* argv, const std::string& directory, config::CommandLine& line,
                             const config::TopLevel& top, const HostPlace& place, Communicator& world,
                             config::Notices& notices) {
  std::vector<std::string> overrides;
  MethodChoices choices =
      choose_methods({{argv + 1, argv + argc}, directory, line, top, place}, world, notices, overrides);
  if (overrides.empty()) return choices;
  std::vector<const char*> words(argv, argv + argc);
  for (const std::string& word : overrides) words.push_back(word.c_str());
  std::filesystem::current_path(directory);
  line = config::parse_command_line(static_cast<int>(words.size()), words.data());
  return choices;
}

// The first lines of the log.
void print_heading(const config::CommandLine& line, const config::TopLevel& top, const CpuPlan& cpu,
                   const config::Notices& notices) {
  log::line(version_text());
  if (const char* before = std::getenv(launcher::kStory)) log::line(fmt::format("trainer launch: {}", before));
  log::line("");
  print_configuration(line, top);
  if (top.cpu_threads != 0) log::line(fmt::format("Using {} CPU threads.", cpu.threads));
  for (const auto& n : notices.lines) log::warning(n);
  if (!cpu.advice.empty()) log::warning(cpu.advice);
  log::release_warnings();
}

}  // namespace

std::unique_ptr<Run> prepare_run(int argc, const char* const* argv, Communicator& world, int& code) {
  const std::string directory = std::filesystem::current_path().string();
  const auto refuse = [&] {
    if (world.rank() == 0) log::release_warnings();
    return code = wrong_configuration, nullptr;
  };
  code = 0;
  auto run = std::make_unique<Run>();
  config::CommandLine line;
  config::TopLevel& top = run->top;
  config::Notices notices;
  if (!together(world, [&] { line = config::parse_command_line(argc, argv); })) return refuse();
  if (const auto answered = answer(line, world)) return code = *answered, nullptr;
  const bool only_checks = line.check && !line.dry_run;
  if (only_checks) only_plan_memory();

  Problems problems;
  HostPlace place = find_place(world);
  CpuPlan cpu;
  DevicePlan device;
  std::vector<Prepared>& actions = run->actions;
  log::hold_warnings();
  const bool planned = together(world, [&] {
    notices = line.notices;
    // A single rank under mpiexec also takes the parallel path, so that its cost can be measured.
    const int ranks = find_launcher().present ? std::max(world.size(), 2) : world.size();
    top = config::read_top_level(line.config, ranks, problems, notices);
    if (problems.empty()) watch(top), device = plan_device(top, place, only_checks);
    if (!device.notice.empty()) notices.lines.push_back(device.notice);
    cpu = plan_cpu(wanted_threads(line.config), place, top.deterministic);
  });
  if (!planned) return refuse();
  // Has collective calls, so it starts only if every rank has found its device.
  const bool ready = together(world, [&] {
    const MethodChoices choices = settle_methods(argc, argv, directory, line, top, place, world, notices);
    if (!line.config.has("numCPUThreads") && threads_of_environment() != 0) cpu.text += ", by OMP_NUM_THREADS";
    actions = prepare(line, top, device.device, world, problems, notices, choices);
    check_log(line.config, top, world.rank(), problems);
    if (world.rank() == 0) check_done_file(line.config, top, problems);
    problems.throw_if_any();
  });
  if (!ready) return refuse();
  if (const std::string mixed = tell_mixed(device, world); !mixed.empty()) notices.lines.push_back(mixed);
  if (line.check || line.dry_run) {
    if (world.rank() == 0) log::release_warnings();
    print_check(world, *run, line, notices, settings_lines(actions, cpu, device, place, world), place.local_ranks,
                device.device);
    return (run->dry = line.dry_run) ? std::move(run) : nullptr;
  }
  if (!together(world, [&] { run->locks = lock_models(actions, world); })) return refuse();
  const bool append = appends_to_log(actions, line, top.append_log, world);
  if (!together(world, [&] { open_log(top, append, world.rank()); })) return refuse();
  print_heading(line, top, cpu, notices);
  if (world.rank() == 0) keep_settings(*run, line.config);
  for (const auto& l : settings_lines(actions, cpu, device, place, world)) log::line(l);
  return run;
}

void run_actions(Run& run, Communicator& world) {
  if (run.dry) return dry_run(run, world);
  for (const auto& p : run.actions) {
    announce(p);
    watch(run.top);
    if (p.on_all_ranks || world.rank() == 0) p.what->run();
    world.barrier();
    if (run.top.trace_level > 0) {
      log::line("");
      log::line(fmt::format("Action \"{}\" complete.", p.action));
      log::line("");
    }
  }
  write_done_file(run.top, world);
  log::line(run.top.timestamping ? "__COMPLETED__" : "COMPLETED.");
  log::close();
}

}  // namespace tutti::actions
