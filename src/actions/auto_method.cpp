// SPDX-License-Identifier: Apache-2.0
#include "actions/auto_method.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "actions/method_trials.h"
#include "base/launcher.h"
#include "parallel/hybrid/cost.h"
#include "train/checkpoint.h"
#include "train/rank_agreement.h"
#include "train/rank_state.h"
#include "train/sgd_options.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

constexpr double kAutoTrialSeconds = 0.3;
constexpr int kFinalRounds = 3;

// The training that a command makes, if its method is `auto`.
struct AutoTraining {
  std::string command;
  config::Record sgd;
  SgdOptions options;
};

std::vector<AutoTraining> trainings_with_auto(const config::CommandLine& line, const config::TopLevel& top) {
  std::vector<AutoTraining> found;
  for (const std::string& name : top.command) {
    if (!line.config.is_block(name)) continue;
    const config::Record command = line.config.block(name);
    if (!trains(command) || !command.is_block("SGD")) continue;
    Problems reported_later;
    config::Notices noted_later;
    const config::Record sgd = command.block("SGD");
    SgdOptions o = read_sgd_options(sgd, reported_later, noted_later);
    if (reported_later.empty() && o.parallel.automatic) found.push_back({name, sgd, std::move(o)});
  }
  return found;
}

std::vector<Candidate> admitted(const AutoTraining& t, int ranks) {
  return candidates_of_auto(t.sgd, ranks, t.options.parallel.auto_allow);
}

std::string candidate_name(const Candidate& c) {
  return full_name({.method = c.method, .bits = c.bits, .refused = {}});
}

// What the checkpoint holds that this training resumes from; nothing of a training that did not use auto. Collective.
MethodChoice recorded(const AutoTraining& t, const config::Record& command, Communicator& world) {
  const std::string model =
      t.sgd.has_own("modelPath") ? t.options.model_path : command.string("modelPath", std::string());
  MethodChoice choice;
  if (model.empty() || !(command.boolean("makeMode", true) || launcher::has_begun(model))) return choice;
  peek_state(model, t.options.max_epochs, world, [&](Archive& a) { choice.archive(a); });
  broadcast_text(world, choice.method);
  world.broadcast(0, writable_bytes(choice.samples_per_second));
  world.broadcast(0, writable_bytes(choice.ranks));
  return choice;
}

// "auto" and what its trials gave.
class Choosing {
 public:
  Choosing(const AutoRun& run, const AutoTraining& training, Communicator& world)
      : world_(world),
        candidates_(admitted(training, world.size())),
        trials_(run.words, run.directory, training.command, world, run.place) {}

  const Candidate& decide(MethodChoice& choice, std::string& no_gain) {
    trials_.size_trials(kAutoTrialSeconds);
    const double single = trials_.speed_of_one();
    for (std::size_t i = 0; i < candidates_.size(); ++i) timed_.push_back({i, trials_.measure(candidates_[i], {1, 1})});
    sort();
    for (int round = 1; round < (trials_.slow() ? 2 : kFinalRounds); ++round)
      for (std::size_t i = 0; i < std::min<std::size_t>(timed_.size(), 2); ++i) time_again(timed_[i]);
    sort();
    std::array<double, 2> decided{static_cast<double>(timed_[0].candidate), single};
    world_.broadcast(0, std::as_writable_bytes(std::span(decided)));
    const auto best = static_cast<std::size_t>(decided[0]);
    const Forecast& f = std::ranges::find(timed_, best, &Timed::candidate)->forecast;
    if (!f.refused.empty()) throw ConfigError({}, f.refused);
    choice = {full_name(f), reason(best, f, decided[1]), f.samples_per_second, world_.size()};
    no_gain = no_gain_text(f.samples_per_second, decided[1], world_.size());
    return candidates_[best];
  }

 private:
  struct Timed {
    std::size_t candidate = 0;
    Forecast forecast;
  };

  // The fastest first.
  void sort() {
    std::ranges::stable_sort(timed_, std::greater(), [](const Timed& t) { return t.forecast.samples_per_second; });
  }

  void time_again(Timed& t) {
    if (!t.forecast.refused.empty()) return;
    take_faster(t.forecast, trials_.measure(candidates_[t.candidate], {1, 1}));
  }

  std::string reason(std::size_t best, const Forecast& f, double single) const {
    std::string text =
        fmt::format("the fastest of those timed on {} ranks: {:.0f} samples/s", world_.size(), f.samples_per_second);
    for (const Timed& t : timed_) {
      if (t.candidate == best) continue;
      const Forecast& other = t.forecast;
      text += other.refused.empty() ? fmt::format("; {} {:.0f}", full_name(other), other.samples_per_second)
                                    : fmt::format("; {} not possible: {}", full_name(other), other.refused);
    }
    return text + fmt::format("; one rank alone {:.0f}", single);
  }

  Communicator& world_;
  const std::vector<Candidate> candidates_;
  MethodTrials trials_;
  std::vector<Timed> timed_;
};

std::string names(const std::vector<Candidate>& all) {
  std::vector<std::string> words;
  for (const Candidate& c : all) words.push_back(candidate_name(c));
  return fmt::format("{}", fmt::join(words, ", "));
}

// Trials print nothing, and what they would warn of the run itself will say.
class Quiet {
 public:
  explicit Quiet(int rank) : rank_(rank) { log::open({"", false, rank_, true, false}); }
  ~Quiet() { log::open({"", false, rank_, rank_ != 0, false}); }
  Quiet(const Quiet&) = delete;

 private:
  const int rank_;
};

// The settings of ParallelTrain; "" leaves the config as it is.
std::string choose(const AutoRun& run, const AutoTraining& t, Communicator& world, MethodChoice& choice,
                   config::Notices& notices) {
  const std::vector<Candidate> all = admitted(t, world.size());
  choice = recorded(t, run.line.config.block(t.command), world);
  for (const Candidate& c : candidates(t.sgd, world.size()))
    if (candidate_name(c) == choice.method && c.allowed_by != std::string_view(kOnlyPlanned)) {
      choice.reason = fmt::format("as when this training began: {:.0f} samples/s on {} ranks were timed",
                                  choice.samples_per_second, choice.ranks);
      return c.settings;
    }
  choice = {};
  choice.method = candidate_name(all[0]);
  if (world.size() == 1) {
    choice.reason = "as one rank exchanges nothing; nothing was timed";
    return all[0].settings;
  }
  if (run.line.check && !run.line.dry_run) {
    choice.reason =
        fmt::format("for this check; a run times {} on its {} ranks and takes the fastest", names(all), world.size());
    return {};
  }
  if (world.rank() == 0)
    log::line(fmt::format("parallelizationMethod = auto: timing {} for '{}'", names(all), t.command));
  std::string no_gain;
  try {
    const Quiet quiet(world.rank());
    Choosing choosing(run, t, world);
    const std::string settings = choosing.decide(choice, no_gain).settings;
    if (!no_gain.empty()) notices.lines.push_back(no_gain);
    return settings;
  } catch (const ConfigError& e) {  // which the run reports in full, or which concerns only the trials
    const std::string text = e.what();
    choice.reason = fmt::format("as nothing could be timed: {}", text.substr(0, text.find('\n')));
    return all[0].settings;
  }
}

}  // namespace

MethodChoices choose_methods(const AutoRun& run, Communicator& world, config::Notices& notices,
                             std::vector<std::string>& overrides) {
  MethodChoices choices;
  const std::vector<AutoTraining> trainings = trainings_with_auto(run.line, run.top);
  std::string text;
  for (const AutoTraining& t : trainings)
    text += fmt::format("{}.SGD.ParallelTrain.parallelizationMethod = auto\n", t.command);
  require_same_settings(world, text);
  for (const AutoTraining& t : trainings) {
    const std::string settings = choose(run, t, world, choices[t.command], notices);
    if (!settings.empty()) overrides.push_back(parallel_override(run.line.config, t.command, settings));
  }
  return choices;
}

}  // namespace tutti::actions
