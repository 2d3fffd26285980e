// SPDX-License-Identifier: Apache-2.0
// action.h -- an action of a command block (semantics 14): made and checked before anything runs, then run in turn.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/config.h"
#include "tutti/graph.h"

namespace tutti::actions {

// For --check: the options of an action's blocks that differ from their defaults, and all as they hold.
struct OptionsText {
  std::string changed, all;
  OptionsText& operator+=(const OptionsText& more) {
    changed += more.changed, all += more.all;
    return *this;
  }
};
OptionsText options_text(const std::string& name, const std::function<void(config::Fields&)>& now,
                         const std::function<void(config::Fields&)>& usual);
template <class Options>
OptionsText options_text(const std::string& name, const Options& options) {
  Options now = options, usual;
  return options_text(
      name, [&](config::Fields& f) { now.describe(f); }, [&](config::Fields& f) { usual.describe(f); });
}

class Action {
 public:
  virtual ~Action() = default;
  virtual std::string settings() const = 0;  // the effective settings, one per line
  virtual OptionsText options() const { return {}; }
  // The model path that a training locks. Empty for actions that train nothing.
  virtual std::string trained_model() const { return {}; }
  virtual bool resumes() const { return false; }  // goes on from what an earlier run left there; for rank 0
  virtual void run() = 0;
};

struct ActionContext {
  config::Record command;  // the block
  std::string command_name;
  Communicator* world = nullptr;
  bool parallel = true;   // parallelTrain: false = every rank by itself
  bool all_ranks = true;  // the action runs on every rank, not on rank 0 alone
  bool constant_seed = false;
  std::string device = "cpu";  // of make_backend
  bool progress_tracing = false;
  bool only_check = false;  // --check: nothing is going to run
  // For making actions only: what they point to is gone when actions run.
  Problems* problems = nullptr;
  config::Notices* notices = nullptr;
  std::int64_t* seed = nullptr;                     // of BrainScript networks: one counter for the whole run
  std::set<std::string>* models_to_come = nullptr;  // what earlier actions of this run will write
  // Their networks, as far as they are known before the run.
  std::map<std::string, std::shared_ptr<const graph::Graph>>* graphs_to_come = nullptr;

  bool is_to_come(const std::string& file) const { return models_to_come && models_to_come->contains(file); }
  // The same for a model: the training of "model.dnn" also writes "model.dnn.3".
  bool is_model_to_come(const std::string& model) const {
    return is_to_come(model) || is_to_come(model.substr(0, model.rfind('.')));
  }

  // What an action may keep.
  ActionContext for_running() const {
    ActionContext kept = *this;
    kept.problems = nullptr, kept.notices = nullptr, kept.seed = nullptr, kept.models_to_come = nullptr;
    kept.graphs_to_come = nullptr;
    return kept;
  }
};

// Makes the action; mistakes land in context.problems (the action is then never run, or nullptr comes back).
struct ActionEntry {
  std::vector<std::string> names;
  bool on_all_ranks;  // the others run on rank 0 only
  std::function<std::unique_ptr<Action>(const ActionContext&)> make;
  // The action's own keys of the command block: for help and for near misses.
  std::function<void(config::Fields&)> describe;
  std::string help;
};
const std::vector<ActionEntry>& action_table();
const ActionEntry* find_action(const std::string& name);

// Reads the action's keys out of the command block, where keys of the user's own are fine (semantics 1.4).
template <class Options>
Options read_command(const ActionContext& context) {
  Options options;
  config::read_open_fields(context.command, context.command_name, [&](config::Fields& f) { options.describe(f); },
                           *context.problems, *context.notices,
                           {"action", "SGD", "reader", "cvReader", "BrainScriptNetworkBuilder", "SimpleNetworkBuilder",
                            "NDLNetworkBuilder", "KerasNetworkBuilder"});
  return options;
}

// Runs `part` and keeps what it complains about.
template <class Part>
void check(const ActionContext& context, Part part) {
  try {
    part();
  } catch (const ConfigError& e) {
    context.problems->add(e);
  }
}

}  // namespace tutti::actions
