// SPDX-License-Identifier: Apache-2.0
#include "actions/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/available_memory.h"
#include "base/memory.h"
#include "config/changes.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

// The memory that all ranks of this host plan to allocate, in bytes.
double needed_here(Communicator& world, double of_this_rank) {
  const auto hosts = hosts_of(world);
  std::vector<double> needs(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&of_this_rank, 1)), std::as_writable_bytes(std::span(needs)));
  double sum = 0;
  for (std::size_t r = 0; r < needs.size(); ++r)
    if (hosts[r] == hosts[static_cast<std::size_t>(world.rank())]) sum += needs[r];
  return sum;
}

std::string memory_line(double of_this_rank, double of_host, int ranks, const std::string& device) {
  std::string line = fmt::format("  memory     {} for weights, gradients, optimizer and the values of a minibatch",
                                 bytes_text(of_this_rank));
  if (ranks > 1) line += fmt::format(" on this rank, {} on the {} ranks of this host", bytes_text(of_host), ranks);
  if (device != "cpu") line += "; GPU memory was allocated as a trial and is not counted";
  if (const auto left = available_memory())
    line += fmt::format("; {} are free", bytes_text(static_cast<double>(*left)));
  return line;
}

std::string memory_warning(double of_host) {
  const auto left = available_memory();
  if (!left || of_host <= static_cast<double>(*left)) return {};
  return fmt::format(
      "the run needs {} of memory on this host and {} are free: it would be refused. fix: lower minibatchSize, split "
      "minibatches with numSubminibatches or maxSamplesInRAM, or use a host with more memory",
      bytes_text(of_host), bytes_text(static_cast<double>(*left)));
}

void print_options(const Check& check) {
  const auto print = [&](const std::string& heading, const auto& to_text) {
    log::result(heading);
    const std::string top = to_text(options_text("top", check.top));
    if (!top.empty()) log::result(top);
    for (const auto& p : check.actions)
      if (const std::string text = p.what ? to_text(p.what->options()) : ""; !text.empty())
        log::result(fmt::format("{}, action {}:\n{}", p.command, p.action, text));
  };
  print("What differs from the defaults:", [](const OptionsText& t) { return t.changed; });
  if (check.all) print("All effective options:", [](const OptionsText& t) { return t.all; });
}

}  // namespace

OptionsText options_text(const std::string& name, const std::function<void(config::Fields&)>& now,
                         const std::function<void(config::Fields&)>& usual) {
  return {config::dump_changes(name, now, usual, 2), config::dump_fields(name, now, 2)};
}

void print_check(Communicator& world, const Check& check) {
  const auto mine = static_cast<double>(planned_memory());
  const double here = needed_here(world, mine);
  if (world.rank() != 0) return;
  for (const auto& n : check.notices) log::result(log::titled("Note", n));
  print_options(check);
  for (const auto& l : check.settings) log::result(l);
  log::result(memory_line(mine, here, check.place.local_ranks, check.device));
  if (const std::string warning = memory_warning(here); !warning.empty()) log::result("Warning: " + warning);
  if (!check.all) log::result("(-v prints every option as it holds)");
  log::result("Checked: the configuration is fine. Nothing was trained.");
}

}  // namespace tutti::actions
