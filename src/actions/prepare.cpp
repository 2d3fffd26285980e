// SPDX-License-Identifier: Apache-2.0
#include "actions/prepare.h"

#include "actions/evaluation_network.h"
#include "actions/later.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tutti::actions {
namespace {

std::vector<std::string> known_actions() {
  std::vector<std::string> names;
  for (const auto& entry : action_table()) names.insert(names.end(), entry.names.begin(), entry.names.end());
  return names;
}

// The blocks at the top that could be commands, to suggest from.
std::vector<std::string> blocks_of(const config::Record& top) {
  std::vector<std::string> names;
  for (const auto& key : top.keys())
    if (top.is_block(key)) names.push_back(key);
  return names;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  return known.empty() ? "" : fmt::format("there are: {}", fmt::join(known, ", "));
}

void prepare_command(const ActionContext& base, const std::string& name, std::vector<Prepared>& prepared) {
  const config::Record& command = base.command;
  auto actions = command.strings("action");
  if (actions.empty()) actions = {"train"};
  for (const auto& action : actions) {
    const ActionEntry* entry = find_action(action);
    if (!entry) {
      const auto where = command.find("action");
      base.problems->add(Diagnostic{where ? where->where : command.where(),
                                    fmt::format("unknown action: {}  in command set: {}", action, name),
                                    suggestion(action, known_actions())});
      continue;
    }
    ActionContext context = base;
    context.all_ranks = entry->on_all_ranks;
    config::check_truncated(command, *context.problems);
    check(context, [&] {
      std::unique_ptr<Action> made;
      try {
        made = entry->make(context);
      } catch (const ModelToCome& file) {
        made = make_later(context, entry->make, "", file.path);
      }
      prepared.push_back({name, entry->names[0], entry->on_all_ranks, std::move(made)});
    });
  }
}

}  // namespace

std::vector<Prepared> prepare(const config::CommandLine& line, const config::TopLevel& top, const std::string& device,
                              Communicator& world, Problems& problems, config::Notices& notices) {
  std::vector<Prepared> prepared;
  std::set<std::string> models_to_come;
  std::int64_t seed = 1;
  ActionContext base;
  base.world = &world;
  base.parallel = top.parallel_train;
  base.constant_seed = top.constant_seed;
  base.device = device;
  base.progress_tracing = top.progress_tracing;
  base.problems = &problems;
  base.notices = &notices;
  base.models_to_come = &models_to_come;
  base.seed = &seed;
  for (const auto& name : top.command) {
    if (!line.config.is_block(name)) {
      const auto where = line.config.find("command");
      problems.add(Diagnostic{where ? where->where : line.config.where(),
                              fmt::format("there is no command block '{}'", name),
                              suggestion(name, blocks_of(line.config))});
      continue;
    }
    base.command = line.config.block(name);
    base.command_name = name;
    prepare_command(base, name, prepared);
  }
  return prepared;
}

}  // namespace tutti::actions
