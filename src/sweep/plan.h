// SPDX-License-Identifier: Apache-2.0
// plan.h -- the file of `trainer sweep`: which runs there are. The same file and configs give the same runs, so a sweep
// that was interrupted finds finished runs by the names of their folders.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/error.h"

namespace tutti::sweep {

enum class Method { grid, random, halving };

struct Parameter {
  std::string key;                  // "Train.SGD.minibatchSize", or a variable of the config
  std::vector<std::string> values;  // empty: a range
  double from = 0, to = 0;
  bool logarithmic = false, integer = false;
  SourcePos at;  // in the file of the sweep
};

struct Plan {
  std::string file, text;              // of the sweep
  std::vector<std::string> configs;    // config files
  std::vector<std::string> arguments;  // of every run
  std::vector<Parameter> parameters;
  Method method = Method::grid;
  std::int64_t runs = 0;  // of random and halving
  std::uint64_t seed = 1;
  std::int64_t ranks = 1;     // of a run
  std::int64_t parallel = 0;  // runs at once; 0 = as many as the cores allow
  std::string objective;      // "validation.errs"; empty = the first evaluation, of validation data if there are any
  SourcePos objective_at;
  bool maximize = false;
  std::int64_t first_epochs = 1, factor = 3;  // of halving
  std::string output;
  std::vector<std::string> slurm;  // options of sbatch
};

// Throws ConfigError with places in the file, and Error.
Plan read_plan(const std::string& path);

// One run of the sweep.
struct Run {
  std::string name;                                         // "run-1f03ab77": of the settings and the configs
  std::vector<std::pair<std::string, std::string>> values;  // parameter and value
  std::string folder;                                       // output/name
  std::string log() const { return folder + "/log"; }
  std::string output() const { return folder + "/output"; }  // what it prints apart from the log
};
std::vector<Run> make_runs(const Plan&);

// The words after the program's name that start a run. Reads the config, to redirect every file that it writes to the
// folder of the run. `until`: pauses in the training, after that epoch; 0 = everything. A training that has ended
// before, as by patience, is not continued.
struct RunWords {
  std::vector<std::string> words;
  bool whole = true;  // nothing is left to do after it
  int epochs = 0;     // that the last training has at its end: less than `until` if its maxEpochs is
};
RunWords words_of(const Plan&, const Run&, int until);
// Asks the trainer whether it uses the parameters of this run. Throws ConfigError with their places if it does not.
void check_parameters(const Plan&, const Run&);
// Throws ConfigError if a network description or an editing script names a file of the config that each run has for
// itself: a file that this run would share with the others.
void check_files(const Plan&, const Run&);

}  // namespace tutti::sweep
