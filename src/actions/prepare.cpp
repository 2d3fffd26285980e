// SPDX-License-Identifier: Apache-2.0
#include "actions/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/overrides.h"
#include "train/rank_agreement.h"
#include "train/sgd_options.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

std::vector<std::string> known_actions() {
  std::vector<std::string> names;
  for (const auto& entry : action_table()) names.insert(names.end(), entry.names.begin(), entry.names.end());
  return names;
}

// The top-level blocks that could be commands, for suggestions.
std::vector<std::string> blocks_of(const config::Record& top) {
  std::vector<std::string> names;
  for (const auto& key : top.keys())
    if (top.is_block(key)) names.push_back(key);
  return names;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  return did_you_mean(name, known, known.empty() ? "" : fmt::format("there are: {}", fmt::join(known, ", ")));
}

// Created when its turn comes, as the file that it needs is there then.
Action make_later(const ActionContext& context, const ActionEntry& entry, ModelToCome awaited) {
  Action later = std::move(awaited.known);
  later.settings += fmt::format("{}  begins     with '{}', which this run makes first",
                                later.settings.empty() ? "" : "\n", awaited.path);
  later.run = [context = context.for_running(), make = entry.make, seed = *context.seed, begins = later.begins,
               action = std::optional<Action>()]() mutable {  // kept after an error, as all others are (main.cpp)
    Problems problems;
    config::Notices notices;
    ActionContext now = context;
    now.problems = &problems, now.notices = &notices, now.seed = &seed;
    action = make(now);
    problems.throw_if_any();
    if (!action) throw Error("another rank failed to start this action");
    if (begins) *action->begins = *begins;
    for (const auto& line : notices.lines) log::warning(line);
    log::line(action->settings);
    action->run();
    action.reset();
  };
  return later;
}

std::vector<std::string> actions_of(const config::Record& command) {
  auto actions = command.strings("action");
  if (actions.empty()) actions = {"train"};
  return actions;
}

void prepare_command(const ActionContext& base, const std::string& name, std::vector<Prepared>& prepared) {
  const config::Record& command = base.command;
  for (const auto& action : actions_of(command)) {
    const ActionEntry* entry = find_action(action);
    if (!entry) {
      base.problem("action", fmt::format("unknown action: {}  in command set: {}", action, name),
                   suggestion(action, known_actions()));
      continue;
    }
    ActionContext context = base;
    context.all_ranks = entry->on_all_ranks;
    if (entry->names[0] == "train") config::check_truncated(command, *context.problems, *context.notices);
    check(context, [&] {
      std::optional<Action> made;
      try {
        made = entry->make(context);
      } catch (const ModelToCome& file) {
        made = make_later(context, *entry, file);
      }
      prepared.push_back({name, entry->names[0], entry->on_all_ranks, std::move(made)});
    });
  }
}

// The blocks of a command that its actions read, with the options that they know.
std::vector<config::KnownBlock> blocks_of_actions(const config::Record& command) {
  std::vector<config::KnownBlock> blocks;
  for (const auto& action : actions_of(command))
    if (const ActionEntry* entry = find_action(action); entry && entry->names[0] == "train") {
      blocks.push_back({"SGD", [](config::Fields& f) { SgdOptions().describe(f); }});
      blocks.push_back({"cvReader", [](config::Fields&) {}});
    }
  blocks.push_back({"reader", [](config::Fields&) {}});
  return blocks;
}

void note_unused_overrides(const config::CommandLine& line, const std::vector<config::RunningCommand>& commands,
                           Problems& problems, config::Notices& notices) {
  if (!problems.empty()) return;  // not everything has been read
  for (auto& found :
       config::unused_overrides(line.config, commands, [](config::Fields& f) { config::TopLevel().describe(f); })) {
    if (line.strict && config::on_command_line(found.where))
      problems.add(std::move(found));
    else
      notices.add(found);
  }
}

// Devices, threads and logs are a rank's own.
void require_same_commands(Communicator& world, const config::Record& config, const config::TopLevel& top) {
  std::string text = fmt::format(
      "command = {}\nparallelTrain = {}\nmakeMode = {}\nforceConstantRandomSeed = {}\nrandomSeedOffset = {}\n",
      fmt::join(top.command, ":"), top.parallel_train, top.make_mode, top.constant_seed, top.seed_offset);
  for (const std::string& name : top.command)
    if (config.is_block(name))
      text += fmt::format("{}.action = {}\n", name, fmt::join(actions_of(config.block(name)), ":"));
  require_same_settings(world, text);
}

}  // namespace

std::vector<Prepared> prepare(const config::CommandLine& line, const config::TopLevel& top, const std::string& device,
                              Communicator& world, Problems& problems, config::Notices& notices,
                              const MethodChoices& choices) {
  std::vector<Prepared> prepared;
  std::vector<config::RunningCommand> commands;
  std::set<std::filesystem::path> models_to_come;
  std::map<std::filesystem::path, std::string> metrics_files;
  std::map<std::filesystem::path, std::shared_ptr<const graph::Graph>> graphs_to_come;
  std::int64_t seed = 1 + top.seed_offset;
  ActionContext base;
  base.world = &world;
  base.parallel = top.parallel_train;
  base.constant_seed = top.constant_seed;
  base.device = device;
  base.progress_tracing = top.progress_tracing;
  base.only_check = line.check && !line.dry_run;
  base.problems = &problems;
  base.notices = &notices;
  base.models_to_come = &models_to_come;
  base.metrics_files = &metrics_files;
  base.graphs_to_come = &graphs_to_come;
  base.seed = &seed;
  require_same_commands(world, line.config, top);
  for (const auto& name : top.command) {
    if (!line.config.is_block(name)) {
      problems.add(Diagnostic{place_of(line.config, "command"), fmt::format("there is no command block '{}'", name),
                              suggestion(name, blocks_of(line.config))});
      continue;
    }
    base.command = line.config.block(name);
    base.command_name = name;
    base.choice = choices.contains(name) ? choices.at(name) : MethodChoice();
    prepare_command(base, name, prepared);
    commands.push_back({name, base.command, blocks_of_actions(base.command)});
  }
  note_unused_overrides(line, commands, problems, notices);
  return prepared;
}

}  // namespace tutti::actions
