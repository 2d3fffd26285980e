// SPDX-License-Identifier: Apache-2.0
// Reads a plain log, of this program or of CNTK: epochs, minibatch lines, and what each rank says of its time. The log
// of rank 3 beside run.log is run.log.rank3, or run.logrank3.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/pattern.h"
#include "report/run_data.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

const std::string kNumber = R"(([-+]?[0-9.]+(?:e[-+]?[0-9]+)?))";

double to_number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

// An epoch that was trained again after an interruption is in a log twice, and the later line is valid.
void put(Points& to, double x, double y) {
  while (!to.empty() && to.back().first >= x - 1e-9) to.pop_back();
  to.emplace_back(x, y);
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

class LogReading {
 public:
  explicit LogReading(RunData& run) : run_(run) {}

  void line(const std::string& text) {
    static const Pattern epoch(R"(Finished Epoch\[ *([0-9]+) of ([0-9]+)\]: \[(Training|Validate)\] (.*))");
    static const Pattern step(R"( Epoch\[ *([0-9]+) of [0-9]+\]-Minibatch\[ *[0-9]+- *([0-9]+)[^\]]*\]: (.*))");
    if (text.find("Epoch[") == text.npos) return other(text);
    if (const auto m = epoch.search(text)) return finished(*m);
    if (const auto m = step.search(text)) steps_.push_back({to_number((*m)[1]), to_number((*m)[2]), (*m)[3]});
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
    if ((*m)[1] == "Exchange") return put(d.bytes_sent, x, bytes_of(text));
    const double compute = value_of(text, "compute "), read = value_of(text, "waiting for data "),
                 encode = value_of(text, "encode "), wait = value_of(text, "wait for ranks "),
                 decode = value_of(text, "decode "), update = value_of(text, "update "),
                 rest = value_of(text, "other ");
    const double total = std::max(compute + read + encode + wait + decode + update + rest, 1e-9);
    put(d.compute, x, compute / total);
    put(d.read, x, read / total);
    put(d.wait, x, wait / total);
    put(d.convert, x, (encode + decode) / total);
  }

  // Minibatch lines count minibatches; how many an epoch has is known at the end.
  void finish() {
    double most = 1;
    for (const Step& s : steps_) most = std::max(most, s.minibatch);
    for (const Step& s : steps_) {
      const double x = s.epoch - 1 + s.minibatch / most;
      results(s.text, x, &Result::steps);
      put(run_.samples_per_second, x, value_of(s.text, "samplesPerSecond"));
    }
    for (const auto& [x, seconds] : seconds_) run_.seconds += seconds;
    if (steps_.empty()) run_.samples_per_second = rates_;
  }

 private:
  struct Step {
    double epoch, minibatch;
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
    put(seconds_, x, seconds);
    put(run_.learning_rate, x, value_of(text, "learningRatePerSample"));
    if (seconds > 0) put(rates_, x, count / seconds);
    run_.samples_seen = value_of(text, "totalSamplesSeen");
  }

  // "DataParallelSGD in 32 bits, the fastest of those timed on 2 ranks: 12345 samples/s; ..."
  void predicted(const std::string& text) {
    static const Pattern speed(": ([0-9]+) samples/s");
    if (const auto m = speed.search(text)) run_.predicted = to_number((*m)[1]), run_.predicted_by = "auto";
  }

  // "  network    text", among the effective settings.
  void other(const std::string& text) {
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
    if (text.ends_with("COMPLETED.") || text.ends_with("__COMPLETED__")) run_.finished = true;
  }

  RunData& run_;
  std::vector<Step> steps_;
  Points seconds_, rates_;
};

}  // namespace

RunData read_log(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("report: '{}' cannot be read", path));
  RunData run;
  run.source = path;
  LogReading reading(run);
  for (std::string line; std::getline(in, line);) reading.line(line);
  for (std::size_t rank = 1;; ++rank) {
    std::ifstream other(fmt::format("{}.rank{}", path, rank));
    if (!other) other.open(fmt::format("{}rank{}", path, rank));
    if (!other) break;
    for (std::string line; std::getline(other, line);) reading.times(line, rank);
  }
  reading.finish();
  return run;
}

}  // namespace tutti::report
