// SPDX-License-Identifier: Apache-2.0
// Reads what trainer plan --json writes, and finds the line that predicts a run.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/pattern.h"
#include "report/run_data.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;

// The method of a run in the words of a plan, from "DataParallelSGD on 2 ranks, gradients in 1 bit through ...".
PlannedMethod method_of(const RunData& run) {
  static const Pattern bits(R"( in (?:([0-9:]+) bits?|(b?)float16))");
  const int ranks = std::atoi(run.setting("ranks").c_str());
  if (ranks == 1) return {"none", "-", 1};
  std::string exchange = run.setting("exchange");
  if (const auto later = exchange.find(", then "); later != exchange.npos) exchange.erase(0, later + 7);
  PlannedMethod m{exchange.substr(0, exchange.find(' ')), "32", ranks};
  if (m.method == "ASA")
    m.method = exchange.find("weights exchanged") == exchange.npos ? "ASA of gradients" : "ASA of weights";
  if (const auto found = bits.search(exchange))
    m.bits = !(*found)[1].empty() ? (*found)[1] : (*found)[2].empty() ? "16" : "bf16";
  return m;
}

// The number in this setting of a run; 0 if it has none.
double number_in(const RunData& run, const char* setting, const Pattern& pattern) {
  const auto found = pattern.search(run.setting(setting));
  return found ? std::atof((*found)[1].c_str()) : 0;
}

bool differ(double a, double b) { return a > 0 && b > 0 && a != b; }

// Larger is nearer: by the folders that both files are in, then by how few more folders the plan is in.
std::pair<std::ptrdiff_t, std::ptrdiff_t> nearness(const PlanData& plan, const RunData& run) {
  const auto folder_of = [](const std::string& file) { return fs::absolute(file).lexically_normal().parent_path(); };
  const fs::path of_plan = folder_of(plan.source), of_run = folder_of(run.source);
  const auto both =
      std::distance(of_plan.begin(), std::mismatch(of_plan.begin(), of_plan.end(), of_run.begin(), of_run.end()).first);
  return {both, both - std::distance(of_plan.begin(), of_plan.end())};
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
                                r["weights"].as<double>(0), r["minibatch"].as<double>(0),  // not in older plans
                                measures["samples_per_second"].as<double>()});
    } catch (const YAML::Exception& e) {
      throw Error("report: '" + path + "' is damaged: " + e.what() + "\nfix: trainer plan --json writes it again");
    }
  return plan;
}

void add_prediction(RunData& run, const std::vector<PlanData>& plans) {
  if (run.predicted > 0 || plans.empty()) return;
  static const Pattern weights("([0-9]+) parameters in "), minibatch(" steps of ([0-9]+) samples each");
  PlannedMethod mine = method_of(run);
  mine.weights = number_in(run, "network", weights), mine.minibatch = number_in(run, "schedule", minibatch);
  const PlanData *nearest = nullptr, *as_near = nullptr;
  bool of_others = false;
  for (const PlanData& plan : plans)
    for (const PlannedMethod& m : plan.methods) {
      if (m.method != mine.method || m.bits != mine.bits || m.ranks != mine.ranks) continue;
      const bool other = differ(m.weights, mine.weights) || differ(m.minibatch, mine.minibatch);
      of_others = of_others || other;
      std::error_code ignored;
      if (other || (nearest && fs::equivalent(nearest->source, plan.source, ignored))) continue;
      if (nearest && nearness(plan, run) == nearness(*nearest, run)) as_near = &plan;
      if (nearest && nearness(plan, run) <= nearness(*nearest, run)) continue;
      run.predicted = m.samples_per_second, run.predicted_by = plan.source;
      nearest = &plan, as_near = nullptr;
    }
  const std::string exchange = run.setting("exchange");
  if (as_near)
    run.notes.push_back(fmt::format("'{}': '{}' and '{}' are both plans for its exchange; the first one is shown",
                                    run.source, nearest->source, as_near->source));
  else if (!nearest && of_others)
    run.notes.push_back(
        fmt::format("'{}': the plans for its exchange are of another network or minibatch size", run.source));
  else if (!nearest)
    run.notes.push_back(fmt::format("'{}': no plan has a line for its exchange: {}", run.source,
                                    exchange.empty() ? "unknown" : exchange));
}

}  // namespace tutti::report
