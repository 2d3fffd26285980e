// SPDX-License-Identifier: Apache-2.0
// action.h -- an action of a command block. All actions are created and checked before the first one
// runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file_names.h"
#include "base/write_root.h"
#include "train/method_choice.h"
#include "tutti/communicator.h"
#include "tutti/config.h"
#include "tutti/graph.h"

namespace tutti {
struct TimedSteps;
struct TrialRun;
}  // namespace tutti

namespace tutti::actions {

// A checked action of a command block.
struct Action {
  std::string settings;  // the effective settings, one per line
  std::function<void()> run;
  // Trains some steps and leaves no files; empty for actions that do not train.
  std::function<TrialRun(std::int64_t warm_up, std::int64_t steps)> try_steps = {};
  // Times steps of one rank alone; likewise.
  std::function<TimedSteps(std::int64_t share, double seconds)> time_steps = {};
  std::string trained_model = {};  // the model path that a training locks; empty for other actions
  bool make_mode = false;          // continues from files of an earlier run of that model
  // Of a training: rank 0 calls it when the training begins; never if it is finished or refused. Set it before run().
  std::shared_ptr<std::function<void()>> begins = {};
};

// Thrown when an action is created: a network description or a reader needs a file that an earlier action of this run
// writes. The action is created again when its turn comes.
struct ModelToCome {
  std::string path;
  Action known = {};  // what can be said of the action already
};

// The place of the key, or of the block if the key is absent.
SourcePos place_of(const config::Record& block, const char* key);

struct ActionContext {
  config::Record command;  // the block
  std::string command_name;
  Communicator* world = nullptr;
  bool parallel = true;   // parallelTrain: false = every rank on its own
  bool all_ranks = true;  // the action runs on every rank, not only on rank 0
  bool constant_seed = false;
  std::string device = "cpu";  // of make_backend
  MethodChoice choice;         // of parallelizationMethod = auto
  bool progress_tracing = false;
  bool only_check = false;          // --check: nothing will run
  std::size_t problems_before = 0;  // when the creation of this action began
  // Used only to create actions; the pointers are invalid when actions run.
  Problems* problems = nullptr;
  config::Notices* notices = nullptr;
  std::int64_t* seed = nullptr;  // of BrainScript networks: one counter for the whole run
  // Files that earlier actions of this run will write, by same_file().
  std::set<std::filesystem::path>* models_to_come = nullptr;
  std::map<std::filesystem::path, std::string>* metrics_files = nullptr;  // and the commands whose training writes them
  // Their networks, if known before the run.
  std::map<std::filesystem::path, std::shared_ptr<const graph::Graph>>* graphs_to_come = nullptr;

  bool is_to_come(const std::string& file) const { return models_to_come && models_to_come->contains(same_file(file)); }
  // The same for a model: a training of "model.dnn" also writes "model.dnn.3".
  bool is_model_to_come(const std::string& model) const {
    return is_to_come(model) || is_to_come(without_epoch(model));
  }
  // This action will write it; what an earlier one would leave there no longer counts.
  void will_write(const std::string& file) const {
    if (models_to_come) models_to_come->insert(same_file(file));
    if (graphs_to_come) graphs_to_come->erase(same_file(file));
  }
  // After will_write().
  void will_write_network(const std::string& model, const graph::Graph& network) const {
    if (graphs_to_come) (*graphs_to_come)[same_file(model)] = std::make_shared<graph::Graph>(network);
  }
  bool flawless() const { return problems->count() == problems_before; }
  void problem(const SourcePos& where, std::string message, std::string fix = {}) const {
    problems->add(Diagnostic{where, std::move(message), std::move(fix)});
  }
  // At the place of the key, or of the command block if it is absent.
  void problem(const char* key, std::string message, std::string fix = {}) const {
    problem(place_of(command, key), std::move(message), std::move(fix));
  }
  // Adds a problem if --write-under forbids that file.
  bool may_write(const std::string& file, const SourcePos& where) const {
    std::string why = outside_write_root(file);
    if (why.empty()) return true;
    problem(where, std::move(why), kInWriteRoot);
    return false;
  }
  bool may_write(const std::string& file, const char* key) const { return may_write(file, place_of(command, key)); }
  void notice(std::string line) const { notices->lines.push_back(std::move(line)); }

  // What an action may keep.
  ActionContext for_running() const {
    ActionContext kept = *this;
    kept.problems = nullptr, kept.notices = nullptr, kept.seed = nullptr, kept.models_to_come = nullptr;
    kept.graphs_to_come = nullptr, kept.metrics_files = nullptr;
    return kept;
  }
};

struct ActionEntry {
  std::vector<std::string> names;
  bool on_all_ranks;  // otherwise on rank 0 only
  // Creates the action. Adds mistakes to context.problems; the action is then not run, or there is none.
  std::function<std::optional<Action>(const ActionContext&)> make;
  // The action's own keys of the command block: for help and for near misses.
  std::function<void(config::Fields&)> describe;
  std::string help;
};
const std::vector<ActionEntry>& action_table();
const ActionEntry* find_action(const std::string& name);

// Reads the action's keys of the command block, in which users may define variables.
template <class Options>
Options read_command(const ActionContext& context) {
  Options options;
  config::read_open_fields(context.command, context.command_name, [&](config::Fields& f) { options.describe(f); },
                           *context.problems, *context.notices,
                           {"action", "SGD", "reader", "cvReader", "BrainScriptNetworkBuilder", "SimpleNetworkBuilder",
                            "NDLNetworkBuilder", "KerasNetworkBuilder"});
  return options;
}

template <class Options>
ActionEntry action_entry(std::vector<std::string> names, bool on_all_ranks,
                         std::optional<Action> (*make)(const ActionContext&, Options), std::string help) {
  const auto read_and_make = [make](ActionContext context) {
    context.problems_before = context.problems->count();
    return make(context, read_command<Options>(context));
  };
  return {std::move(names), on_all_ranks, read_and_make, [](config::Fields& f) { Options().describe(f); },
          std::move(help)};
}

// The rows of the table, each in the file of its action.
ActionEntry train_action();
ActionEntry test_action();
ActionEntry cv_action();
ActionEntry write_action();
ActionEntry edit_action();
ActionEntry batch_statistics_action();
ActionEntry svd_action();
ActionEntry word_class_action();
ActionEntry dump_node_action();

// Runs `part` and collects the problems it throws.
template <class Part>
void check(const ActionContext& context, Part part) {
  try {
    part();
  } catch (const ConfigError& e) {
    context.problems->add(e);
  }
}

}  // namespace tutti::actions
