// SPDX-License-Identifier: Apache-2.0
// method_trials.h -- times steps of a config's training under other parallel methods. Every trial is a whole training,
// made as for a run, on all ranks at once: so threads, shared cores, caches and links are those of the run. Used by
// `trainer plan` and by parallelizationMethod = auto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actions/action.h"
#include "actions/forecast.h"
#include "config/command_line.h"
#include "config/top_level.h"
#include "tutti/communicator.h"

namespace tutti::actions {

struct Candidate {
  const char* method;
  std::string bits;
  // The word of autoAllow; "": not needed, as the result is that of DataParallelSGD in 32 bits.
  const char* allowed_by;
  std::string settings;  // of ParallelTrain
  // Of a method that exchanges after blocks: settings for trials without an exchange and with one after every step.
  std::string never = {}, always = {};
  std::int64_t steps = 0, samples = 0;  // between two exchanges, in steps or in samples over all ranks
  bool meets_at_end = false;            // ranks wait for each other only at the end of an epoch, or of a trial
};
constexpr const char* kOnlyPlanned = "only planned";  // allowed_by of what `auto` never takes
// Every method in 32, 16, 4 and 1 bits; methods of weights and servers also in those of their block. `sgd`: the
// config's own settings, whose periods count.
std::vector<Candidate> candidates(const config::Record& sgd, int ranks);
// Those that `auto` may take with these words of autoAllow.
std::vector<Candidate> candidates_of_auto(const config::Record& sgd, int ranks,
                                          const std::vector<std::string>& allowed);

bool trains(const config::Record& command);
// The command that trains, or the first one.
std::string first_training(const config::Record& top, const std::vector<std::string>& commands);
// The word of a command line that changes these settings of ParallelTrain.
std::string parallel_override(const config::Record& top, const std::string& command, const std::string& settings);

// The first training that a command line names, with the settings of SGD. Plans the processor (cpu.h). Collective.
struct TrainingOfConfig {
  std::string command;
  config::Record sgd;
  HostPlace place;
};
TrainingOfConfig find_training(const std::vector<std::string>& words, Communicator& world);
// The training, made as for a run, with these settings of ParallelTrain in place of its own ("" = its own). Throws
// ConfigError.
Action make_training(const std::vector<std::string>& words, const std::string& directory, const std::string& command,
                     Communicator& ranks, const HostPlace& place, const std::string& parallel);

class MethodTrials {
 public:
  // `words`: of the command line, started in `directory`. The processor must be planned (cpu.h).
  MethodTrials(std::vector<std::string> words, std::string directory, std::string command, Communicator& world,
               const HostPlace& place)
      : words_(std::move(words)),
        directory_(std::move(directory)),
        command_(std::move(command)),
        world_(world),
        place_(place) {}

  // Finds how many steps take so many seconds. Collective, as the rest; throws ConfigError or Error on all ranks if
  // the config is wrong.
  void size_trials(double seconds);
  // Whether trials take so long that fewer rounds of them must do.
  bool slow() const { return slow_; }
  // Settings that are not possible with this config are no error: `refused` says why.
  Forecast measure(const Candidate&, const LinkFigures&);
  // Of rank 0 alone with the whole minibatch, in samples per second; the others wait without using their cores.
  double speed_of_one();

  std::size_t weights() const { return weights_; }
  std::int64_t minibatch() const { return minibatch_; }

 private:
  Measured run(Communicator& ranks, const std::string& parallel, std::int64_t steps);
  void measure_epochs(Forecast&, const Candidate&, const LinkFigures&);

  const std::vector<std::string> words_;
  const std::string directory_, command_;
  Communicator& world_;
  const HostPlace place_;
  std::int64_t least_steps_ = 0, steps_ = 0, minibatch_ = 0, epoch_samples_ = 0;
  std::size_t weights_ = 0;
  bool slow_ = false;
};

}  // namespace tutti::actions
