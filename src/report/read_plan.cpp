// SPDX-License-Identifier: Apache-2.0
// Reads what trainer plan --json writes, and finds the line that predicts a run.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>

#include "base/pattern.h"
#include "report/run_data.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

// The method of a run in the words of a plan, from "DataParallelSGD on 2 ranks, gradients in 1 bit through ...".
PlannedMethod method_of(const RunData& run) {
  static const Pattern bits(R"( in (?:([0-9:]+) bits?|(b?)float16))");
  const int ranks = std::atoi(run.setting("ranks").c_str());
  if (ranks == 1) return {"none", "-", 1, 0};
  std::string exchange = run.setting("exchange");
  if (const auto later = exchange.find(", then "); later != exchange.npos) exchange.erase(0, later + 7);
  PlannedMethod m{exchange.substr(0, exchange.find(' ')), "32", ranks, 0};
  if (m.method == "ASA")
    m.method = exchange.find("weights exchanged") == exchange.npos ? "ASA of gradients" : "ASA of weights";
  if (const auto found = bits.search(exchange))
    m.bits = !(*found)[1].empty() ? (*found)[1] : (*found)[2].empty() ? "16" : "bf16";
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

void add_prediction(RunData& run, const std::vector<PlanData>& plans) {
  if (run.predicted > 0 || plans.empty()) return;
  const PlannedMethod mine = method_of(run);
  for (const PlanData& plan : plans)
    for (const PlannedMethod& m : plan.methods)
      if (m.method == mine.method && m.bits == mine.bits && m.ranks == mine.ranks) {
        run.predicted = m.samples_per_second, run.predicted_by = plan.source;
        return;
      }
  const std::string exchange = run.setting("exchange");
  run.notes.push_back(fmt::format("'{}': no plan has a line for its exchange: {}", run.source,
                                  exchange.empty() ? "unknown" : exchange));
}

}  // namespace tutti::report
