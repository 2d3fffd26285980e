// SPDX-License-Identifier: Apache-2.0
// Reads a plain log, of this program or of CNTK: epochs, minibatch lines, and what each rank says of its time. The log
// of rank 3 beside run.log is run.log.rank3, or run.logrank3; beside run.logrank0 it is run.logrank3.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <fstream>
#include <map>
#include <set>
#include <string_view>

#include "base/pattern.h"
#include "report/run_data.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

const std::string kNumber = R"(([-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|inf|nan(?:\(ind\))?)))";  // CNTK on Windows: -nan(ind)

double to_number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

// An epoch that was trained again after an interruption is in a log twice, and the later line is valid.
void put(Points& to, double x, double y) {
  while (!to.empty() && to.back().first >= x - 1e-9) to.pop_back();
  to.emplace_back(x, y);
}

void cut_after(Points& points, double x) {
  while (!points.empty() && points.back().first > x) points.pop_back();
}

// "name = V * N" and "name = P% * N" of a line.
template <class Use>
double each_result(const std::string& text, const Use& use) {
  static const Pattern pattern(R"(([A-Za-z_][\w.\[\]]*) = )" + kNumber + R"((%?) \* ([0-9]+))");
  double count = 0;
  for (const Pattern::Match& m : pattern.search_all(text)) {
    use(m[1], to_number(m[2]), !m[3].empty());
    count = std::max(count, to_number(m[4]));
  }
  return count;
}

double value_of(const std::string& line, const std::string& name) {
  const auto at = line.find(name);
  const auto number = at == line.npos ? at : line.find_first_of("0123456789+-.", at + name.size());
  return number == line.npos ? 0 : to_number(line.substr(number));  // a log may be cut anywhere
}

double bytes_of(const std::string& line) {
  static const Pattern pattern(kNumber + R"( ([kMGT]?B) sent by this rank)");
  const auto m = pattern.search(line);
  if (!m) return 0;
  constexpr std::array units{"B", "kB", "MB", "GB", "TB"};
  double bytes = to_number((*m)[1]);
  for (const char* unit : units) {
    if ((*m)[2] == unit) break;
    bytes *= 1000;
  }
  return bytes;
}

// A training, or what is said before any command.
class LogReading {
 public:
  LogReading(const std::string& source, const std::string& command) {
    run_.source = source;
    run_.texts["command"] = command;
  }

  const std::string& command() { return run_.texts["command"]; }
  void set_finished(bool finished) { run_.finished = finished; }

  void line(const std::string& text) {
    static const Pattern epoch(R"(Finished Epoch\[ *([0-9]+) of ([0-9]+)\]: \[(Training|Validate)\] (.*))");
    // The tags of mpiexec may come first. The name of a search may not: its trials are no minibatches of the run.
    static const Pattern step(
        R"((?:^|[^A-Za-z:]|[^A-Za-z]:) Epoch\[ *([0-9]+) of [0-9]+\]-Minibatch\[ *[0-9]+- *([0-9]+)(?:, *([0-9.]+)%)?[^\]]*\]: (.*))");
    if (text.find("Epoch[") == text.npos) return other(text);
    if (const auto m = epoch.search(text)) return finished(*m);
    if (const auto m = step.search(text)) {
      const bool percent = !(*m)[3].empty();
      steps_.push_back({to_number((*m)[1]), to_number((*m)[percent ? 3 : 2]), percent ? 100.0 : 1.0, (*m)[4]});
    }
    times(text, 0);
  }

  // Of another rank's log: only its times.
  void times(const std::string& text, std::size_t rank) {
    static const Pattern heading(R"((Times|Exchange) of Epoch\[ *([0-9]+) of)");
    const auto m = heading.search(text);
    if (!m) return;
    if (run_.ranks.size() <= rank) run_.ranks.resize(rank + 1);
    RankData& d = run_.ranks[rank];
    const double x = to_number((*m)[2]);
    if ((*m)[1] == "Exchange") {
      const double ranks = std::clamp(value_of(text, "sent by this rank of "), 0.0, 1e6);
      run_.all_ranks = std::max(run_.all_ranks, static_cast<std::size_t>(ranks));
      return put(d.bytes_sent, x, bytes_of(text));
    }
    const double compute = value_of(text, "compute "), read = value_of(text, "waiting for data "),
                 encode = value_of(text, "encode "), wait = value_of(text, "wait for ranks "),
                 decode = value_of(text, "decode "), update = value_of(text, "update "),
                 rest = value_of(text, "other ");
    const double total = std::max(compute + read + encode + wait + decode + update + rest, 1e-9);
    put(d.seconds, x, total);
    put(d.compute, x, compute / total);
    put(d.read, x, read / total);
    put(d.wait, x, wait / total);
    put(d.convert, x, (encode + decode) / total);
  }

  // AutoAdjust has gone back to the model of an epoch.
  void undo(const std::string& text, std::size_t rank) {
    static const Pattern back(R"(Loading \(rolling back to\) previous model .*\.([0-9]+)\.\s*$)");
    if (text.find("(rolling back to)") == text.npos) return;
    const auto m = back.search(text);
    if (!m) return;
    const double x = to_number((*m)[1]);
    if (rank < run_.ranks.size()) {
      RankData& d = run_.ranks[rank];
      for (Points* p : {&d.seconds, &d.compute, &d.read, &d.wait, &d.convert, &d.bytes_sent}) cut_after(*p, x);
    }
    if (rank > 0) return;
    std::erase_if(steps_, [&](const Step& s) { return s.epoch > x; });
    for (Result& r : run_.results) cut_after(r.epochs, x), cut_after(r.validation, x);
    for (Points* p : {&run_.seconds, &run_.samples, &run_.learning_rate}) cut_after(*p, x);
  }

  // A minibatch line gives the part of the epoch in percent, or else only counts minibatches: how many an epoch has is
  // known at the end.
  RunData finish() {
    std::map<double, double> whole;  // of each epoch
    for (const Step& s : steps_) {
      double& most = whole[s.epoch];
      most = std::max({most, s.done, s.whole});
    }
    for (const Step& s : steps_) {
      const double x = s.epoch - 1 + s.done / whole[s.epoch];
      results(s.text, x, &Result::steps);
      put(run_.samples_per_second, x, value_of(s.text, "samplesPerSecond"));
    }
    if (steps_.empty())
      for (std::size_t i = 0; i < run_.seconds.size(); ++i)
        if (const auto [x, seconds] = run_.seconds[i]; seconds > 0)
          run_.samples_per_second.emplace_back(x, run_.samples[i].second / seconds);
    for (Result& r : run_.results) r.rises = rising_.contains(r.name);
    if (run_.lacks_logs())
      run_.notes.push_back(
          fmt::format("'{}': there are logs of {} of the {} ranks, so times and bytes of the others are not known",
                      run_.source, run_.ranks.size(), run_.all_ranks));
    return std::move(run_);
  }

 private:
  struct Step {
    double epoch, done, whole;  // percent of 100, or minibatches of at least 1
    std::string text;
  };

  void results(const std::string& text, double x, Points Result::*to) {
    each_result(text, [&](const std::string& name, double value, bool percent) {
      Result& r = run_.result(name);
      r.percent = percent;
      put(r.*to, x, value);
    });
  }

  void finished(const Pattern::Match& m) {
    const double x = to_number(m[1]);
    const std::string text = m[4];
    run_.epochs = static_cast<int>(to_number(m[2]));
    if (m[3] == "Validate") return results(text, x, &Result::validation);
    results(text, x, &Result::epochs);
    const double seconds = value_of(text, "epochTime"), count = each_result(text, [](auto&&...) {});
    put(run_.seconds, x, seconds);
    put(run_.samples, x, begun_here_ ? count : std::nan(""));
    begun_here_ = true;
    put(run_.learning_rate, x, value_of(text, "learningRatePerSample"));
  }

  // "DataParallelSGD in 32 bits, the fastest of those timed on 2 ranks: 12345 samples/s; ..."
  void predicted(const std::string& text) {
    static const Pattern speed(": ([0-9]+) samples/s");
    if (const auto m = speed.search(text)) run_.predicted = to_number((*m)[1]), run_.predicted_by = "auto";
  }

  // A restart, or onNaN = rewind, may go on in the middle of an epoch. Its line counts all samples, and its time does
  // not include those before.
  void resumed(const std::string& text) {
    static const Pattern from(R"((?:Loading network|training goes on) from '(.*)')");
    if (text.find(" from '") == text.npos) return;
    if (const auto m = from.search(text)) begun_here_ = !(*m)[1].ends_with(".mid");
  }

  // "  network    text", among the effective settings, and what else is no line of an epoch.
  void other(const std::string& text) {
    static const Pattern rising(R"(([A-Za-z_][\w.\[\]]*) = (?:Precision|Recall|F1Score)\s*$)");  // of the criteria
    static const Pattern setting(
        R"(^  (ranks|processor|device|model|network|optimizer|schedule|exchange|threads|auto) +(.*))");
    if (const auto m = setting.search(text)) {
      const std::string &name = (*m)[1], &value = (*m)[2];
      std::erase_if(run_.settings, [&](const auto& s) { return s.first == name; });
      run_.settings.emplace_back(name, value);
      if (name == "model") run_.texts["model"] = value;
      if (name == "exchange") run_.texts["method"] = value;
      if (name == "auto") predicted(value);
    }
    if (const auto m = rising.search(text)) rising_.insert((*m)[1]);
    constexpr std::array ends{"COMPLETED.", "__COMPLETED__", "No further training is necessary."};
    if (std::ranges::any_of(ends, [&](const char* end) { return text.ends_with(end); })) set_finished(true);
    resumed(text);
    undo(text, 0);
  }

  RunData run_;
  bool begun_here_ = true;  // the epoch that comes to its end next
  std::vector<Step> steps_;
  std::set<std::string> rising_;
};

// The commands of a log.
class Commands {
 public:
  explicit Commands(std::string source) : source_(std::move(source)) {}

  void begin_log() { at_ = running_ = ""; }

  // Of the command that the line of this rank belongs to.
  LogReading& of(const std::string& text, std::size_t rank) {
    static const Pattern settings(R"(^(\S+), action \w+$)"), start(R"(# (\S+) command \(([Tt]rain)?\w* action\))");
    if (text == "Effective settings:") begin_log();
    if (text.find(" action") == text.npos) return reading(at_);
    if (const auto m = settings.search(text)) at_ = (*m)[1];
    if (const auto m = start.search(text)) {
      if (rank == 0 && !running_.empty()) reading(running_).set_finished(true);
      at_ = running_ = (*m)[1];
      if (rank == 0 && !(*m)[2].empty()) reading(running_).set_finished(false);
    }
    return reading(at_);
  }

  // Those that train. The settings before any command are those of all.
  std::vector<RunData> finish() {
    std::vector<RunData> runs;
    std::vector<std::pair<std::string, std::string>> common;
    for (LogReading& r : readings_) {
      RunData run = r.finish();
      if (run.texts["command"].empty())
        common = run.settings;
      else
        run.settings.insert(run.settings.begin(), common.begin(), common.end());
      if (!run.results.empty()) runs.push_back(std::move(run));
    }
    return runs;
  }

 private:
  LogReading& reading(const std::string& command) {
    const auto is = [&](LogReading& r) { return r.command() == command; };
    const auto at = std::find_if(readings_.begin(), readings_.end(), is);
    return at != readings_.end() ? *at : readings_.emplace_back(source_, command);
  }

  std::string source_, at_, running_;
  std::deque<LogReading> readings_;
};

// With timestamping = true, lines begin with the time.
std::string without_time(const std::string& line) {
  constexpr std::string_view form = "00/00/0000 00:00:00: ";
  if (line.size() < form.size()) return line;
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == '0' ? line[i] < '0' || line[i] > '9' : line[i] != form[i]) return line;
  return line.substr(form.size());
}

std::ifstream log_of_rank(const std::string& path, std::size_t rank) {
  if (path.ends_with("rank0")) return std::ifstream(fmt::format("{}{}", path.substr(0, path.size() - 1), rank));
  std::ifstream log(fmt::format("{}.rank{}", path, rank));
  return log ? std::move(log) : std::ifstream(fmt::format("{}rank{}", path, rank));
}

}  // namespace

std::vector<RunData> read_log(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("report: '{}' cannot be read\nfix: check its permissions", path));
  Commands commands(path);
  for (std::string line; std::getline(in, line);) {
    const std::string text = without_time(line);
    commands.of(text, 0).line(text);
  }
  for (std::size_t rank = 1;; ++rank) {
    std::ifstream other = log_of_rank(path, rank);
    if (!other) break;
    commands.begin_log();
    for (std::string line; std::getline(other, line);) {
      const std::string text = without_time(line);
      LogReading& reading = commands.of(text, rank);
      reading.times(text, rank);
      reading.undo(text, rank);
    }
  }
  return commands.finish();
}

}  // namespace tutti::report
