// SPDX-License-Identifier: Apache-2.0
#include "sweep/result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/host.h"
#include "base/pattern.h"
#include "config/text.h"

namespace tutti::sweep {
namespace {

// "ce = 0.5 * 100; errs = 3.0% * 100": percentages as shares.
Values values_in(const std::string& text) {
  static const Pattern one(R"(([A-Za-z_][\w.\[\]]*) = ([-+.\w]+)(%?) \* \d+)");
  Values all;
  for (const Pattern::Match& m : one.search_all(text))
    all.emplace_back(m[1], std::atof(m[2].c_str()) / (m[3].empty() ? 1 : 100));
  return all;
}

const double* find(const Values& values, const std::string& name) {
  const auto at = std::ranges::find_if(values, [&](const auto& v) { return v.first == name; });
  return at == values.end() ? nullptr : &at->second;
}

std::optional<Score> pick(const Values& values, const std::string& name, const char* of) {
  if (values.empty()) return {};
  if (name.empty()) {
    const auto& [first, v] = values[values.size() > 1 ? 1 : 0];  // the first evaluation
    return Score{fmt::format("{}.{}", of, first), v};
  }
  const double* const v = find(values, name);
  return v ? std::optional(Score{fmt::format("{}.{}", of, name), *v}) : std::nullopt;
}

// The trainings that end early; `command`: the one that the log has come to.
void note_end(const std::string& line, const std::string& command, LogResult& result) {
  static const Pattern patience(R"(^Training ends after epoch \d+ of (\d+): )");
  static const Pattern summary(R"(^Result: after (\d+) of (\d+) epochs)");
  if (line.starts_with("Training ends"))
    if (const auto m = patience.search(line)) result.ended_early[command] = std::atoi((*m)[1].c_str());
  if (line.starts_with("Result: "))
    if (const auto m = summary.search(line); m && std::atoi((*m)[1].c_str()) < std::atoi((*m)[2].c_str()))
      result.ended_early[command] = std::atoi((*m)[2].c_str());
}

// The values of a line "Finished Epoch".
void note_epoch(const Pattern::Match& m, std::vector<EpochResult>& epochs) {
  const int number = std::atoi(m[1].c_str());
  auto at = std::ranges::find_if(epochs, [&](const EpochResult& e) { return e.epoch == number; });
  if (at == epochs.end()) at = epochs.insert(at, EpochResult{number, 0, {}, {}});
  at->epochs = std::atoi(m[2].c_str());
  (m[3] == "Training" ? at->training : at->validation) = values_in(m[4]);
}

void write_line(const std::string& path, const std::string& line) {
  write_file(path + ".tmp", [&](std::ostream& out) { out << line << "\n"; });
  std::filesystem::rename(path + ".tmp", path);
}

}  // namespace

LogResult read_log(const std::string& path) {
  static const Pattern epoch(R"(Finished Epoch\[ *(\d+) of (\d+)\]: \[(Training|Validate)\] (.*))");
  static const Pattern final(R"(Final Results: Minibatch\[1-\d+\]: (.*))");
  // AutoAdjust undoes the epochs after that of the model, whose name ends in the number.
  static const Pattern back(R"(Loading \(rolling back to\) previous model .*\.(\d+)\.\s*$)");
  static const Pattern heading(R"(^# (.+) command \(\w+ action\))");
  static const Pattern settings(R"(^(\S+), action (\w+)$)");
  LogResult result;
  std::map<std::string, std::vector<EpochResult>> epochs;  // by command
  std::string command;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // a line that is still being written
    if (const auto m = final.search(line)) result.test = values_in((*m)[1]);
    if (const auto m = back.search(line))
      std::erase_if(epochs[command], [&](const EpochResult& e) { return e.epoch > std::atoi((*m)[1].c_str()); });
    if (line.starts_with("# "))
      if (const auto m = heading.search(line)) command = (*m)[1];
    // The log lists all commands before the first one begins.
    if (line.find(", action ") != line.npos)
      if (const auto m = settings.search(line); m && config::to_lower((*m)[2]).starts_with("train"))
        result.training = (*m)[1];
    note_end(line, command, result);
    if (const auto m = epoch.search(line)) result.ended_early.erase(command), note_epoch(*m, epochs[command]);
  }
  result.epochs = std::move(epochs[result.training]);
  return result;
}

int finished_epochs(const LogResult& log) {
  int last = 0;
  for (const EpochResult& e : log.epochs) last = std::max(last, e.epoch);
  return last;
}

std::optional<Score> score(const LogResult& log, const std::string& objective, int epoch) {
  if (objective.empty()) {
    for (const char* kind : {"test", "validation", "training"})
      if (auto s = score(log, kind, epoch)) return s;
    return {};
  }
  const auto dot = objective.find('.');
  const std::string of = objective.substr(0, dot), name = dot == objective.npos ? "" : objective.substr(dot + 1);
  if (of == "test") {
    if (log.test.empty() || epoch != 0) return {};
    return pick(log.test, name.empty() ? log.test[0].first : name, "test");
  }
  const EpochResult* last = nullptr;
  for (const EpochResult& e : log.epochs)
    if ((epoch == 0 || e.epoch <= epoch) && (!last || e.epoch > last->epoch)) last = &e;
  if (!last) return {};
  return of == "validation" ? pick(last->validation, name, "validation") : pick(last->training, name, "training");
}

void check_objective(const Plan& plan, const Run& run, const LogResult& log) {
  if (plan.objective.empty()) return;
  std::vector<std::string> names;
  const auto add = [&](const char* of, const Values& values) {
    for (const auto& [name, value] : values)
      if (std::string full = fmt::format("{}.{}", of, name); std::ranges::find(names, full) == names.end())
        names.push_back(std::move(full));
  };
  for (const EpochResult& e : log.epochs) add("training", e.training), add("validation", e.validation);
  add("test", log.test);
  if (std::ranges::find(names, plan.objective) != names.end()) return;
  throw ConfigError(plan.objective_at,
                    fmt::format("the log '{}' has no '{}'; values: {}", run.log(), plan.objective,
                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
                    did_you_mean(plan.objective, names, "name one of these values, or leave objective out"));
}

std::optional<Ended> read_ended(const Run& run) {
  std::ifstream in(run.folder + "/ended");
  Ended e;
  return in >> e.code >> e.seconds ? std::optional(e) : std::nullopt;
}

void write_ended(const Run& run, const Ended& e) {
  write_line(run.folder + "/ended", fmt::format("{} {:.3f}", e.code, e.seconds));
}

double read_seconds(const Run& run) {
  std::ifstream in(run.folder + "/seconds");
  double seconds = 0;
  return in >> seconds ? seconds : 0;
}

double add_seconds(const Run& run, double more) {
  const double sum = read_seconds(run) + more;
  write_line(run.folder + "/seconds", fmt::format("{:.3f}", sum));
  return sum;
}

}  // namespace tutti::sweep
