// SPDX-License-Identifier: Apache-2.0
// Reads the lines of src/train/metrics/json_lines.cpp. A run that was started again has a start record for each start.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "report/run_data.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

constexpr std::size_t kMostSteps = 2000;  // minibatch lines that are read; a page cannot show more

double number(const YAML::Node& node) {
  return node && node.IsScalar() && node.Scalar() != "null" ? node.as<double>(std::numeric_limits<double>::quiet_NaN())
                                                            : std::numeric_limits<double>::quiet_NaN();
}
std::string text(const YAML::Node& node) { return node ? node.as<std::string>("") : ""; }

void add(Points& to, double x, double y) {
  if (std::isfinite(x) && std::isfinite(y)) to.emplace_back(x, y);
}

// "a,a,b": each host once.
std::string distinct_hosts(const std::string& list) {
  std::vector<std::string> hosts;
  std::istringstream in(list);
  for (std::string host; std::getline(in, host, ',');)
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  return fmt::format("{}", fmt::join(hosts, ", "));
}

// "  network    text" lines, each perhaps followed by indented ones.
void read_settings(const std::string& lines, std::vector<std::pair<std::string, std::string>>& to) {
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const bool named = line.size() > 13 && line.starts_with("  ") && line[2] != ' ';
    if (!named && !to.empty() && !line.empty())
      to.back().second += "\n" + line;
    else if (named)
      to.emplace_back(line.substr(2, line.find(' ', 2) - 2), line.substr(13));
  }
}

// "key = value" lines in blocks; keys are named with their blocks.
void read_options(const std::string& lines, std::vector<std::pair<std::string, std::string>>& to) {
  std::istringstream in(lines);
  std::vector<std::string> blocks;
  for (std::string line; std::getline(in, line);) {
    const auto begin = line.find_first_not_of(' ');
    if (begin == line.npos) continue;
    const std::string words = line.substr(begin);
    if (words == "]") {
      if (!blocks.empty()) blocks.pop_back();
      continue;
    }
    const auto equals = words.find(" = ");
    if (equals == words.npos) continue;
    const std::string key = words.substr(0, equals), value = words.substr(equals + 3);
    if (value == "[") {
      blocks.push_back(key);
      continue;
    }
    std::string path;
    for (const auto& block : blocks) path += block + ": ";
    to.emplace_back(path + key, value);
  }
}

class Reading {
 public:
  explicit Reading(RunData& run) : run_(run) {}

  void record(const YAML::Node& r) {
    const std::string event = text(r["event"]);
    if (event == "start") return start(r);
    const double x = (number(r["samples"]) + shift_) / samples_per_epoch_;
    if (event == "interval" || event == "epoch" || event == "validation") results(event, r, x);
    if (event == "interval") {
      has_steps_ = true;
      add(run_.samples_per_second, x, number(r["measures"]["samples_per_second"]));
    }
    if (event == "epoch") epoch(r, x);
    if (event == "end") run_.finished = true;
  }

 private:
  void start(const YAML::Node& r) {
    samples_per_epoch_ = std::max(number(r["samples_per_epoch"]), 1.0);
    // Earlier epochs may have had another length.
    const double at = (number(r["epoch"]) - 1) * samples_per_epoch_ + number(r["samples_in_epoch"]);
    shift_ = std::isfinite(at) ? at - number(r["samples"]) : 0;  // files of earlier versions do not tell
    run_.epochs = r["epochs"].as<int>(0);
    run_.finished = false;
    if (const YAML::Node measures = r["measures"])
      if (const double predicted = number(measures["predicted_samples_per_second"]); predicted > 0)
        run_.predicted = predicted, run_.predicted_by = "auto";
    for (const char* name : {"model", "method", "hosts", "command"}) run_.texts[name] = text(r[name]);
    run_.settings = {{"ranks", fmt::format("{} on {}", text(r["ranks"]), distinct_hosts(text(r["hosts"])))}};
    read_settings(text(r["settings"]), run_.settings);
    read_options(text(r["options"]), run_.settings);
  }
  void results(const std::string& event, const YAML::Node& r, double x) {
    for (const auto& entry : r["results"]) {
      Result& result = run_.result(entry.first.as<std::string>());
      result.percent = entry.second["error_rate"].as<bool>(false);
      result.rises = entry.second["larger_is_better"].as<bool>(false);
      const double y = number(entry.second["mean"]) * (result.percent ? 100 : 1);  // null if not finite
      (event == "interval" ? result.steps : event == "epoch" ? result.epochs : result.validation).emplace_back(x, y);
    }
  }
  void epoch(const YAML::Node& r, double x) {
    const double seconds = number(r["measures"]["seconds"]);
    run_.seconds.emplace_back(x, seconds);
    run_.samples.emplace_back(x, number(r["measures"]["samples_per_second"]) * seconds);
    add(run_.learning_rate, x, number(r["measures"]["learning_rate_per_sample"]));
    if (!has_steps_) add(run_.samples_per_second, x, number(r["measures"]["samples_per_second"]));
    const YAML::Node ranks = r["ranks"];
    run_.ranks.resize(std::max(run_.ranks.size(), ranks["total_seconds"].size()));
    for (std::size_t rank = 0; rank < ranks["total_seconds"].size(); ++rank) {
      const auto of = [&](const char* name) { return number(ranks[name][rank]); };
      const double total = std::max(of("total_seconds"), 1e-9);
      RankData& d = run_.ranks[rank];
      add(d.seconds, x, total);
      add(d.compute, x, of("compute_seconds") / total);
      add(d.read, x, of("read_seconds") / total);
      add(d.wait, x, of("wait_seconds") / total);
      add(d.convert, x, (of("encode_seconds") + of("decode_seconds")) / total);
      add(d.bytes_sent, x, of("bytes_sent"));
    }
  }

  RunData& run_;
  double samples_per_epoch_ = 1, shift_ = 0;
  bool has_steps_ = false;
};

bool is_step(const std::string& line) { return line.starts_with("{\"event\":\"interval\""); }

}  // namespace

Result& RunData::result(const std::string& name) {
  const auto at = std::find_if(results.begin(), results.end(), [&](const Result& r) { return r.name == name; });
  if (at != results.end()) return *at;
  results.push_back({name});
  return results.back();
}

std::string RunData::setting(const std::string& name) const {
  for (const auto& [key, value] : settings)
    if (key == name) return value;
  return {};
}

RunData read_metrics(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("report: '{}' cannot be read\nfix: check its permissions", path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  const auto steps = static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), is_step));
  const std::size_t every = (steps + kMostSteps - 1) / kMostSteps;
  RunData run;
  run.source = path;
  Reading reading(run);
  std::size_t step = 0, unreadable = 0;
  for (const auto& line : lines) {
    if (is_step(line) && step++ % every != 0) continue;
    try {
      reading.record(YAML::Load(line));  // JSON is YAML
    } catch (const YAML::Exception&) {
      ++unreadable;
    }
  }
  if (unreadable > 0)
    run.notes.push_back(
        fmt::format("{} line{} of '{}' could not be read", unreadable, unreadable == 1 ? "" : "s", path));
  if (every > 1) run.notes.push_back(fmt::format("every {}th of {} minibatch records is shown", every, steps));
  return run;
}

}  // namespace tutti::report
