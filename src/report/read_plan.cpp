// SPDX-License-Identifier: Apache-2.0
// Reads what trainer plan --json writes, and finds the line that predicts a run.
#include <strings.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>

#include "report/run_data.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

// Keys and words are spelled as the user did.
bool same_word(const std::string& a, const std::string& b) { return strcasecmp(a.c_str(), b.c_str()) == 0; }

// Of the SGD block, as the metrics hold it.
std::string option_of(const RunData& run, const std::string& key) {
  for (const auto& [name, value] : run.settings)
    if (same_word(name, key))
      return value.size() > 1 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
  return {};
}

// The method of a run in the words of a plan.
PlannedMethod method_of(const RunData& run) {
  PlannedMethod m{option_of(run, "ParallelTrain: parallelizationMethod"), "32",
                  std::atoi(option_of(run, "ranks").c_str()), 0};
  if (m.ranks <= 1) return {"none", "-", 1, 0};
  const bool at_servers = same_word(m.method, "DataParallelASGD") || same_word(m.method, "ASGD");
  if (at_servers) m.method = "DataParallelASGD";
  for (const std::string& block : {m.method, at_servers ? "ASGD" : m.method})
    for (const char* key : {"exchangeBits", "gradientBits"})
      if (const auto bits = option_of(run, "ParallelTrain: " + block + ": " + key); !bits.empty()) m.bits = bits;
  if (same_word(m.method, "ASA"))
    m.method = same_word(option_of(run, "ParallelTrain: ASA: exchange"), "weights") ? "ASA of weights"
                                                                                    : "ASA of gradients";
  return m;
}

}  // namespace

bool is_plan(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line) || !line.starts_with('{')) return false;
  try {
    return YAML::Load(line)["event"].as<std::string>("") == "plan";
  } catch (const YAML::Exception&) {
    return false;
  }
}

PlanData read_plan(const std::string& path) {
  PlanData plan{path, {}};
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) try {
      const YAML::Node r = YAML::Load(line);          // JSON is YAML
      if (const YAML::Node measures = r["measures"])  // none of a method that is not possible
        plan.methods.push_back({r["method"].as<std::string>(), r["bits"].as<std::string>(), r["ranks"].as<int>(),
                                measures["samples_per_second"].as<double>()});
    } catch (const YAML::Exception& e) {
      throw Error("report: '" + path + "' is damaged: " + e.what() + "\nfix: trainer plan --json writes it again");
    }
  return plan;
}

void add_prediction(RunData& run, const PlanData& plan) {
  if (run.predicted > 0) return;
  const PlannedMethod mine = method_of(run);
  for (const PlannedMethod& m : plan.methods)
    if (same_word(m.method, mine.method) && same_word(m.bits, mine.bits) && m.ranks == mine.ranks)
      run.predicted = m.samples_per_second, run.predicted_by = plan.source;
}

}  // namespace tutti::report
