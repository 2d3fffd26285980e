// SPDX-License-Identifier: Apache-2.0
// run_data.h -- what the report shows of a run, read from its metrics (jsonl) or, where there are none, from its log.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tutti::report {

// Over epochs: 1.5 is the middle of the second one.
using Points = std::vector<std::pair<double, double>>;

// A result over time.
struct Result {
  std::string name;
  bool percent = false;  // an error rate
  bool rises = false;    // a larger value is a better one
  Points steps = {}, epochs = {}, validation = {};
};

// What one rank did, by epoch.
struct RankData {
  Points seconds;
  Points compute, read, wait, convert;  // shares of the epoch's time; `convert`: encode and decode
  Points bytes_sent;
};

struct RunData {
  std::string name;                          // in the page
  std::string source;                        // the file
  std::vector<std::string> notes;            // what could not be read
  std::map<std::string, std::string> texts;  // model, method, hosts, command
  // In the order in which the run prints them, "network" or "SGD: minibatchSize" with its value.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<Result> results;  // the criterion first
  Points samples_per_second, learning_rate;
  std::vector<RankData> ranks;
  std::size_t all_ranks = 0;  // ranks of the run according to its log; 0 = not known
  int epochs = 0;             // that the run is to train
  Points seconds, samples;    // of each epoch that the file has; samples: in those seconds, NaN = not known
  bool finished = false;
  double predicted = 0;      // samples per second that a plan or auto measured before; 0 = not known
  std::string predicted_by;  // the file of the plan, or "auto"

  Result& result(const std::string& name);
  std::string setting(const std::string& name) const;           // "" if the run has none of that name
  bool lacks_logs() const { return ranks.size() < all_ranks; }  // of other ranks
};

// Throw Error if the file cannot be read. A run without a single record has no results. Values of results may be inf or
// NaN. A log has a run for each command that trains.
RunData read_metrics(const std::string& path);
std::vector<RunData> read_log(const std::string& path);

// A line of the file that trainer plan --json writes.
struct PlannedMethod {
  std::string method, bits;
  int ranks = 1;
  double weights = 0, minibatch = 0;  // of the network and of all ranks; 0 = not known
  double samples_per_second = 0;
};
struct PlanData {
  std::string source;
  std::vector<PlannedMethod> methods;
};
bool is_plan(const std::string& path);
PlanData read_plan(const std::string& path);
// Sets `predicted` of the run, unless it is already set, from the plan nearest to it in the folders that has a line for
// its method, bits and number of ranks, and as far as both tell for as many weights and the same minibatch size. Notes
// if none has, and if two plans are equally near.
void add_prediction(RunData&, const std::vector<PlanData>&);

// The runs in a folder, or that of a file. Throws Error if there are none.
std::vector<RunData> read_runs(const std::vector<std::string>& folders);

}  // namespace tutti::report
