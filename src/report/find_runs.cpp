// SPDX-License-Identifier: Apache-2.0
// Which files of a folder are runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "report/run_data.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;

// Of a training: other commands write lines of the same form.
bool is_metrics(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  return std::getline(in, line) && line.starts_with("{\"event\":\"start\"");
}

// Logs of other ranks belong to that of rank 0.
bool is_log(const fs::path& path) {
  const std::string name = path.filename().string();
  if (const auto at = name.rfind("rank"); at != name.npos && at + 4 < name.size() &&
                                          name.find_first_not_of("0123456789", at + 4) == name.npos &&
                                          name.substr(at) != "rank0")
    return false;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.find("Finished Epoch[") != line.npos) return true;
  return false;
}

bool may_be_log(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "log" || name.find(".log") != name.npos || name.ends_with(".txt") || name.ends_with(".err") ||
         name.ends_with(".out");
}

std::vector<fs::path> files_below(const fs::path& folder) {
  constexpr int kDepth = 3;
  std::vector<fs::path> files;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at.depth() >= kDepth) at.disable_recursion_pending();
    if (at->is_regular_file(error)) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Runs, and the plans that were made for them.
struct Found {
  std::vector<RunData> runs;
  std::vector<PlanData> plans;
};

void add_log(std::vector<RunData>& runs, const fs::path& path) {
  for (RunData& run : read_log(path.string())) runs.push_back(std::move(run));
}

Found found_in(const fs::path& given) {
  std::error_code error;
  if (!fs::exists(given, error))
    throw Error(fmt::format("report: there is no '{}'\nfix: name folders of runs, or their files", given.string()));
  Found found;
  std::vector<RunData>& runs = found.runs;
  if (!fs::is_directory(given, error)) {
    if (is_plan(given.string()))
      found.plans.push_back(read_plan(given.string()));
    else if (is_metrics(given))
      runs.push_back(read_metrics(given.string()));
    else if (is_log(given))
      add_log(runs, given);
  } else {
    const auto files = files_below(given);
    for (const auto& f : files) {
      if (f.extension() == ".jsonl" && is_metrics(f)) runs.push_back(read_metrics(f.string()));
      if (f.extension() == ".jsonl" && is_plan(f.string())) found.plans.push_back(read_plan(f.string()));
    }
    if (runs.empty())
      for (const auto& f : files)
        if (may_be_log(f) && is_log(f)) add_log(runs, f);
  }
  if (runs.empty() && found.plans.empty())
    throw Error(fmt::format(
        "report: '{}' has neither metrics nor a log of a training\nfix: train with SGD = [ metrics = [ jsonl "
        "= \"run.jsonl\" ] ], or with stderr = run.log",
        given.string()));
  return found;
}

// The shortest names that tell the runs apart: the parts of their paths that they do not share, and the commands of a
// log that has several.
void name_runs(std::vector<RunData>& runs) {
  std::vector<std::vector<std::string>> parts;
  for (const RunData& r : runs) {
    parts.emplace_back();
    for (const auto& part : fs::absolute(r.source).lexically_normal()) parts.back().push_back(part.string());
  }
  const auto all_share = [&](auto at) {
    return std::all_of(parts.begin(), parts.end(),
                       [&](const auto& p) { return p.size() > 1 && at(p) == at(parts.front()); });
  };
  while (runs.size() > 1 && all_share([](const auto& p) { return p.front(); }))
    for (auto& p : parts) p.erase(p.begin());
  while (runs.size() > 1 && all_share([](const auto& p) { return p.back(); }))
    for (auto& p : parts) p.pop_back();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    RunData& run = runs[r];
    run.name = runs.size() == 1 ? parts[r].back() : fmt::format("{}", fmt::join(parts[r], "/"));
    const auto is_same = [&](const RunData& other) { return other.source == run.source; };
    const std::string& command = run.texts["command"];
    if (!command.empty() && std::count_if(runs.begin(), runs.end(), is_same) > 1) run.name += ": " + command;
  }
}

}  // namespace

std::vector<RunData> read_runs(const std::vector<std::string>& folders) {
  std::vector<Found> all;
  std::vector<PlanData> plans;  // named on their own: for all runs
  for (const auto& folder : folders) {
    const Found& found = all.emplace_back(found_in(folder));
    if (found.runs.empty()) plans.insert(plans.end(), found.plans.begin(), found.plans.end());
  }
  std::vector<RunData> runs;
  for (Found& found : all) {
    found.plans.insert(found.plans.end(), plans.begin(), plans.end());
    for (RunData& run : found.runs) {
      add_prediction(run, found.plans);
      runs.push_back(std::move(run));
    }
  }
  if (runs.empty()) throw Error("report: only plans are named\nfix: name the folders of runs as well");
  name_runs(runs);
  return runs;
}

}  // namespace tutti::report
