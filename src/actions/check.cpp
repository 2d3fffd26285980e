// SPDX-License-Identifier: Apache-2.0
#include "actions/check.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "actions/effective_config.h"
#include "base/memory.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

// The sum of a figure over all ranks of this host.
double sum_here(Communicator& world, double of_this_rank) {
  const auto hosts = hosts_of(world);
  std::vector<double> needs(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&of_this_rank, 1)), std::as_writable_bytes(std::span(needs)));
  double sum = 0;
  for (std::size_t r = 0; r < needs.size(); ++r)
    if (hosts[r] == hosts[static_cast<std::size_t>(world.rank())]) sum += needs[r];
  return sum;
}

std::string on_host_text(double of_host, int ranks) {
  return ranks > 1 ? fmt::format(" on this rank, {} on the {} ranks of this host", bytes_text(of_host), ranks) : "";
}

std::string memory_line(double of_this_rank, double of_host, int ranks, const std::string& device) {
  std::string line = fmt::format("  memory     {} for weights, gradients, optimizer and the values of a minibatch{}",
                                 bytes_text(of_this_rank), on_host_text(of_host, ranks));
  if (device != "cpu") line += "; GPU memory was allocated as a trial and is not counted";
  if (const auto left = available_memory())
    line += fmt::format("; {} are free", bytes_text(static_cast<double>(*left)));
  return line;
}

// All that was allocated so far, memory that is freed already included.
std::string allocated_line(const Run& run, double of_this_rank, double of_host, int ranks) {
  const bool timed = std::ranges::any_of(run.actions, [](const Prepared& p) {
    return p.what->settings.find(", the fastest of those timed on ") != std::string::npos;
  });
  return fmt::format(
      "  memory     {} of host memory for weights, gradients, optimizer, exchange and the values of a minibatch{}{}",
      bytes_text(of_this_rank), on_host_text(of_host, ranks), timed ? "; what auto has tried is counted, too" : "");
}

std::string memory_warning(double of_host) {
  const auto left = available_memory();
  if (!left || of_host <= static_cast<double>(*left)) return {};
  return fmt::format(
      "the run needs {} of memory on this host and {} are free: it would be refused. fix: lower minibatchSize, split "
      "minibatches with numSubminibatches or maxSamplesInRAM, or use a host with more memory",
      bytes_text(of_host), bytes_text(static_cast<double>(*left)));
}

// All that is no setting is a comment, so that the whole output is a config.
void print_comment(const std::string& text) {
  std::string out = "# ";
  for (const char c : text) out += c == '\n' ? std::string("\n# ") : std::string(1, c);
  log::result(out);
}

std::string step_line(const std::string& command, const TrialRun& step) {
  const EpochTimes& t = step.times;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return fmt::format(
      "{}: one step of {} samples from the initial weights: criterion {:.6g} per sample; {:.3f} s (reading {:.3f}, "
      "network {:.3f}, exchange {:.3f}, update {:.3f}); this rank has used {} of memory at most",
      command, step.samples, step.criterion, t.total, t.read, t.network,
      t.exchange.encode + t.exchange.wait + t.exchange.decode, t.update,
      bytes_text(static_cast<double>(usage.ru_maxrss) * 1024));
}

}  // namespace

void print_check(Communicator& world, const Run& run, const config::CommandLine& line, const config::Notices& notices,
                 const std::vector<std::string>& settings, int local_ranks, const std::string& device) {
  const auto mine = static_cast<double>(planned_memory());
  const double here = sum_here(world, mine);
  if (world.rank() != 0) return;
  for (const auto& n : notices.lines) print_comment(log::titled("Note", n));
  print_comment("What the configuration sets, as a config of its own; paths start at " +
                std::filesystem::current_path().string());
  std::string text = config::to_text(effective_config(line.config, run.top, run.top.command), line.verbose);
  while (text.ends_with('\n')) text.pop_back();
  log::result(text);
  for (const auto& l : settings) print_comment(l);
  if (!line.dry_run) {
    print_comment(memory_line(mine, here, local_ranks, device));
    if (const std::string warning = memory_warning(here); !warning.empty()) print_comment("Warning: " + warning);
  }
  if (!line.verbose) print_comment("(-v adds the options that are not set, as comments)");
  if (!line.dry_run) print_comment("Checked: the configuration is fine. Nothing was trained.");
}

void dry_run(const Run& run, Communicator& world) {
  log::open({"", false, world.rank(), world.rank() != 0, false});
  for (const auto& p : run.actions) {
    if (!p.what->try_steps) {
      if (world.rank() == 0) print_comment(fmt::format("{}, action {}: checked only", p.command, p.action));
      continue;
    }
    const TrialRun step = p.what->try_steps(0, 1);
    world.barrier();
    if (world.rank() == 0) print_comment(step_line(p.command, step));
  }
  const auto mine = static_cast<double>(allocated_memory());
  const double here = sum_here(world, mine);
  const int ranks = find_place(world).local_ranks;
  if (world.rank() != 0) return;
  print_comment(allocated_line(run, mine, here, ranks));
  print_comment("Dry run: the configuration is fine. Nothing was written.");
}

}  // namespace tutti::actions
