// SPDX-License-Identifier: Apache-2.0
// action = "edit": writes the model of a description that loads one, or runs a script of the model editing language
// (editPath). Before the run the same script is carried out without writing any file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "actions/evaluation_network.h"
#include "base/host.h"
#include "brainscript/edit_script.h"
#include "train/checkpoint.h"
#include "train/file.h"
#include "train/model_file.h"
#include "tutti/builder.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

struct EditOptions {
  std::string output_model_path, edit_path, ndl_macros;
  void describe(config::Fields&);
};

void EditOptions::describe(config::Fields& f) {
  f("outputModelPath", output_model_path, "path of the edited model");
  f("editPath", edit_path, "script in the model editing language; replaces the network description");
  f("ndlMacros", ndl_macros, "file of NDL macros for that script");
  if (edit_path.empty()) f.required("outputModelPath");
}

std::unique_ptr<Network> described_network(const ActionContext& context, std::int64_t& seed, Problems& problems,
                                           config::Notices& notices) {
  const auto before = problems.count();
  graph::Graph graph =
      build_network(context.command, {&problems, &notices, context.constant_seed, &seed, model_loader(context)});
  if (problems.count() > before) return nullptr;
  return std::make_unique<Network>(std::move(graph), NetworkOptions{});
}

std::unique_ptr<Network> initialized(graph::Graph graph) {
  auto network = std::make_unique<Network>(std::move(graph), NetworkOptions{});
  network->initialize_parameters();
  return network;
}

void save_edited(const std::string& path, Network& network) {
  create_directories(directory_of(path));
  save_model(path, view_model(network), true);
  log::line(fmt::format("Edited model saved to '{}'.", path));
}

brainscript::EditFiles files_of_run(const ActionContext& context) {
  brainscript::EditFiles files;
  files.load = model_loader(context);
  files.save = [](const std::string& path, graph::Graph graph) { save_edited(path, *initialized(std::move(graph))); };
  files.dump = [](const std::string& path, graph::Graph graph, const std::vector<std::string>& nodes, bool values) {
    const auto network = initialized(std::move(graph));
    create_directories(directory_of(path));
    DumpOptions options;
    options.names = nodes;
    options.print_values = values;
    write_file(path, [&](std::ostream& out) { dump_nodes(view_model(*network), options, out); });
  };
  return files;
}

// What a script saves it may load again, so a check keeps the graphs.
brainscript::EditFiles files_of_check(const ActionContext& context,
                                      const std::shared_ptr<std::map<std::filesystem::path, graph::Graph>>& saved) {
  brainscript::EditFiles files;
  files.load = [load = model_loader(context), saved](const std::string& path) {
    const auto own = saved->find(same_file(path));
    return own != saved->end() ? own->second : load(path);
  };
  files.save = [saved, writes = context.world->rank() == 0](const std::string& path, graph::Graph graph) {
    (*saved)[same_file(path)] = graph;
    Network network(std::move(graph), NetworkOptions{});
    if (writes) check_writable(path, view_model(network).bytes());
  };
  files.dump = [](const std::string&, graph::Graph graph, const std::vector<std::string>&, bool) {
    const Network network(std::move(graph), NetworkOptions{});
  };
  return files;
}

BuildContext for_script(const ActionContext& context, config::Notices* notices) {
  BuildContext build;
  build.notices = notices;
  build.force_constant_seed = context.constant_seed;
  return build;
}

std::optional<Action> make_edit_script(const ActionContext& context, const std::string& path) {
  std::optional<Action> action;
  check(context, [&] {
    const auto script = std::make_shared<brainscript::EditScript>(context.command);
    const auto saved = std::make_shared<std::map<std::filesystem::path, graph::Graph>>();
    for (const auto& file : script->written_files()) context.may_write(file.text, file.where.pos());
    if (!context.flawless()) return;
    try {
      script->run(files_of_check(context, saved), for_script(context, context.notices));
    } catch (const ModelToCome&) {
      // An earlier action of this run makes it; the script is carried out in its turn.
    }
    const auto paths = script->saved_models();
    if (paths.empty()) context.notice(fmt::format("'{}' saves no model, so the script has no effect", path));
    for (const auto& saves : paths) context.will_write(saves);
    action = Action{.settings = fmt::format("  script     {}\n  saves      {}", path, fmt::join(paths, ", ")),
                    .run = [context = context.for_running(), script] {
                      config::Notices said_already;
                      script->run(files_of_run(context), for_script(context, &said_already));
                    }};
  });
  return action;
}

std::optional<Action> make_edit(const ActionContext& context, EditOptions options) {
  if (!context.flawless()) return std::nullopt;
  if (!options.edit_path.empty()) return make_edit_script(context, context.command.value("editPath").text);
  const std::string& path = options.output_model_path;
  if (!context.may_write(path, "outputModelPath")) return std::nullopt;
  const std::int64_t seed = *context.seed;
  std::unique_ptr<Network> network;
  try {
    network = described_network(context, *context.seed, *context.problems, *context.notices);
    if (network && context.world->rank() == 0) check_writable(path, view_model(*network).bytes());
  } catch (const ModelToCome&) {
    // An earlier action of this run makes it, so this one checks again when its turn comes. The discarded network uses
    // no seeds.
    *context.seed = seed;
  } catch (const ConfigError& e) {
    context.problems->add(e);
  } catch (const Error& e) {
    context.problem("outputModelPath", e.what(), "choose another outputModelPath");
  }
  context.will_write(path);
  if (network) context.will_write_network(path, network->graph());
  return Action{.settings = fmt::format("  model      {}", path),
                .run = [context = context.for_running(), path, own_seed = seed]() mutable {
                  Problems problems;
                  config::Notices said_already;
                  const auto network = described_network(context, own_seed, problems, said_already);
                  problems.throw_if_any();
                  network->initialize_parameters();
                  save_edited(path, *network);
                }};
}

}  // namespace

ActionEntry edit_action() {
  return action_entry({"edit"}, false, make_edit,
                      "writes the model that a network description or an editing script (editPath) produces");
}

}  // namespace tutti::actions
