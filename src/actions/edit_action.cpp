// SPDX-License-Identifier: Apache-2.0
// action = "edit" with editPath: runs a script of the model editing language. Before the run the same script is carried
// out without writing any file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "actions/evaluation_network.h"
#include "actions/model_actions.h"
#include "base/host.h"
#include "brainscript/edit_script.h"
#include "train/checkpoint.h"
#include "train/file.h"
#include "train/model_file.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

std::unique_ptr<Network> initialized(graph::Graph graph) {
  auto network = std::make_unique<Network>(std::move(graph), NetworkOptions{});
  network->initialize_parameters();
  return network;
}

brainscript::EditFiles files_of_run(const ActionContext& context) {
  brainscript::EditFiles files;
  files.load = model_loader(context);
  files.save = [](const std::string& path, graph::Graph graph) {
    const auto network = initialized(std::move(graph));
    create_directories(directory_of(path));
    save_edited_model(path, view_model(*network));
    log::line(fmt::format("Edited model saved to '{}'.", path));
  };
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
                                      const std::shared_ptr<std::map<std::string, graph::Graph>>& saved) {
  brainscript::EditFiles files;
  files.load = [load = model_loader(context), saved](const std::string& path) {
    const auto own = saved->find(path);
    return own != saved->end() ? own->second : load(path);
  };
  files.save = [saved, writes = context.world->rank() == 0](const std::string& path, graph::Graph graph) {
    (*saved)[path] = graph;
    Network network(std::move(graph), NetworkOptions{});
    if (writes) check_writable(path, view_model(network).bytes());
  };
  files.dump = [](const std::string&, graph::Graph graph, const std::vector<std::string>&, bool) {
    const Network network(std::move(graph), NetworkOptions{});
  };
  return files;
}

class EditScriptAction final : public Action {
 public:
  EditScriptAction(ActionContext context, brainscript::EditScript script)
      : context_(std::move(context)), script_(std::move(script)) {}

  std::string settings() const override {
    return fmt::format("  script     {}\n  saves      {}", context_.command.value("editPath").text,
                       fmt::join(script_.saved_models(), ", "));
  }
  void run() override {
    config::Notices said_already;
    BuildContext build;
    build.notices = &said_already;
    build.force_constant_seed = context_.constant_seed;
    script_.run(files_of_run(context_), build);
  }

 private:
  ActionContext context_;
  brainscript::EditScript script_;
};

}  // namespace

std::unique_ptr<Action> make_edit_script_action(const ActionContext& context) {
  const auto before = context.problems->count();
  std::unique_ptr<EditScriptAction> action;
  check(context, [&] {
    brainscript::EditScript script(context.command);
    BuildContext build;
    build.notices = context.notices;
    build.force_constant_seed = context.constant_seed;
    const auto saved = std::make_shared<std::map<std::string, graph::Graph>>();
    try {
      script.run(files_of_check(context, saved), build);
    } catch (const ModelToCome&) {
      // An earlier action of this run makes it; the script is carried out in its turn.
    }
    const auto paths = script.saved_models();
    if (paths.empty())
      context.notices->lines.push_back(
          fmt::format("'{}' saves no model, so the script has no effect", context.command.value("editPath").text));
    context.models_to_come->insert(paths.begin(), paths.end());
    action = std::make_unique<EditScriptAction>(context.for_running(), std::move(script));
  });
  if (context.problems->count() > before) return nullptr;
  return action;
}

}  // namespace tutti::actions
