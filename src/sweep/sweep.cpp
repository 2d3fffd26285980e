// SPDX-License-Identifier: Apache-2.0
// All state is in the folders of the runs, so a sweep goes on wherever it was interrupted.
#include "sweep/sweep.h"
#include "base/csv.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/exit_codes.h"
#include "base/host.h"
#include "launch/process.h"
#include "sweep/result.h"
#include "sweep/runner.h"

namespace tutti::sweep {
namespace {

constexpr const char* kUsage =
    "usage: trainer sweep FILE.yaml [--slurm] [--table]\n\n"
    "Trains one config with many settings: a grid, random ones, or successive halving. Several runs go on at once, "
    "each on\n"
    "cores of its own, or as an array of Slurm jobs. Started again, it repeats no run that had ended. Prints a table "
    "at the\n"
    "end, which --table prints at any time. docs/sweep.md describes the file.\n"
    "Exit code: 0, 1 if a run failed, 2 after a mistake in the file, 75 if a signal stopped it.\n";

struct Words {
  bool help = false, slurm = false, table = false;
  int only = -1, until = 0;
  std::string file;
};

Words read_words(int argc, const char* const* argv) {
  Words w;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] {
      if (i + 1 >= argc) throw Error(fmt::format("sweep: {} needs a number\nfix: trainer sweep --help", word));
      return std::atoi(argv[++i]);
    };
    if (word == "--help" || word == "-h")
      w.help = true;
    else if (word == "--slurm")
      w.slurm = true;
    else if (word == "--table")
      w.table = true;
    else if (word == "--only")
      w.only = number();
    else if (word == "--until")
      w.until = number();
    else if (word.starts_with("-") || !w.file.empty())
      throw Error(
          fmt::format("sweep: '{}' is not understood\nfix: trainer sweep FILE.yaml; trainer sweep --help", word));
    else
      w.file = word;
  }
  if (w.file.empty() && !w.help) throw Error("sweep: no file is named\nfix: trainer sweep FILE.yaml");
  return w;
}

void make_folder(const Plan& plan) {
  std::error_code error;
  std::filesystem::create_directories(plan.output, error);
  if (error)
    throw Error(fmt::format("sweep: the folder '{}' cannot be made: {}\nfix: choose another output", plan.output,
                            error.message()));
}

// Two sweeps must not work in one folder. Held to the end of the process.
void lock(const Plan& plan) {
  const std::string path = plan.output + "/.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw Error(fmt::format("sweep: cannot write '{}'\nfix: choose another output", path));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK)
    throw Error(
        fmt::format("sweep: another sweep is working in '{}'\nfix: wait for it, or name another output", plan.output));
  throw Error(fmt::format("sweep: '{}' cannot be locked: {}\nfix: name an output on another file system", path,
                          std::strerror(errno)));
}

struct Row {
  const Run* run;
  LogResult log;
  std::optional<Ended> ended;
  std::optional<Score> score;
};

bool is_better(const Plan& plan, const Row& a, const Row& b) {
  const auto worth = [&](const Row& r) {
    if (!r.score || std::isnan(r.score->value)) return -HUGE_VAL;
    return plan.maximize ? r.score->value : -r.score->value;
  };
  return worth(a) > worth(b);
}

// Scores all rows by one value, so that they can be compared: without an objective, that of the tests if any run was
// tested, else that of validation, else that of training.
void set_scores(const Plan& plan, std::vector<Row>& rows, int epoch) {
  std::string objective = plan.objective;
  for (const char* kind : {"test", "validation", "training"})
    for (const Row& row : rows)
      if (objective.empty())
        if (const auto s = score(row.log, kind, epoch)) objective = s->name;
  if (objective.empty()) return;
  for (Row& row : rows) row.score = score(row.log, objective, epoch);
}

std::vector<Row> rows_of(const Plan& plan, const std::vector<Run>& runs) {
  std::vector<Row> rows;
  for (const Run& run : runs) {
    rows.push_back({&run, read_log(run.log()), read_ended(run), {}});
    if (rows.back().ended && rows.back().ended->code == kDone) check_objective(plan, run, rows.back().log);
  }
  // Runs that were not trained to the end have not been tested.
  set_scores(plan, rows, plan.method == Method::halving ? INT_MAX : 0);
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) { return is_better(plan, a, b); });
  return rows;
}

std::string state_of(const Row& row) {
  if (row.ended && row.ended->code == kDone) return "ended";
  if (row.ended) return fmt::format("failed ({})", row.ended->code);
  return row.log.training.empty() ? "-" : "paused";
}

// The table, best run first: on stdout, and as table.csv.
void print_table(const Plan& plan, const std::vector<Row>& rows) {
  std::string name = plan.objective.empty() ? "objective" : plan.objective;
  for (const Row& r : rows)
    if (r.score) name = r.score->name;
  std::vector<std::vector<std::string>> lines{{"run"}};
  for (const Parameter& p : plan.parameters) lines[0].push_back(p.key);
  for (const std::string& title : {name, std::string("epochs"), std::string("state"), std::string("seconds")})
    lines[0].push_back(title);
  for (const Row& r : rows) {
    std::vector<std::string> line{r.run->name};
    for (const auto& [key, value] : r.run->values) line.push_back(value);
    line.push_back(r.score ? fmt::format("{:.6g}", r.score->value) : "-");
    line.push_back(std::to_string(finished_epochs(r.log)));
    line.push_back(state_of(r));
    const double seconds = r.ended ? r.ended->seconds : read_seconds(*r.run);
    line.push_back(seconds > 0 ? fmt::format("{:.1f}", seconds) : "-");
    lines.push_back(std::move(line));
  }
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string csv;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += fmt::format("{}{:<{}}", i ? "  " : "", line[i], widths[i]);
      csv += (i ? "," : "") + csv_field(line[i]);
    }
    std::puts(text.substr(0, text.find_last_not_of(' ') + 1).c_str());
    csv += '\n';
  }
  std::fflush(stdout);
  write_file(plan.output + "/table.csv", [&](std::ostream& out) { out << csv; });
}

// Writes the page of all runs, as `trainer report` does.
void write_page(const Plan& plan, const std::vector<Row>& rows) {
  if (std::ranges::none_of(rows, [](const Row& r) { return finished_epochs(r.log) > 0; })) return;
  const std::string page = plan.output + "/report.html";
  launch::Process report({launch::own_path(), "report", plan.output, "--output", page, "--title", plan.output},
                         launch::Process::Output::lines);
  std::string said;
  const auto take = [&](bool, const std::string& text) { said += text; };
  while (report.running()) report.read(100, take);
  report.read(0, take);
  std::fprintf(stderr, "sweep: %s%s", report.exit_code() == 0 ? "" : "no page: ", said.c_str());
}

// Counts the folders of other runs, such as those of the config before it was edited. The page shows them, too.
void note_other_runs(const Plan& plan, const std::vector<Run>& runs) {
  std::size_t others = 0;
  for (const auto& entry : std::filesystem::directory_iterator(plan.output)) {
    const std::string name = entry.path().filename().string();
    others += name.starts_with("run-") && std::ranges::find(runs, name, &Run::name) == runs.end();
  }
  if (others > 0)
    std::fprintf(stderr,
                 "sweep: '%s' has %zu run%s of other settings or of an edited config; the table leaves them out\n",
                 plan.output.c_str(), others, others == 1 ? "" : "s");
}

using Carry = bool (*)(const Plan&, const std::vector<Run>&, const std::vector<Job>&);

bool run_all(const Plan& plan, const std::vector<Run>& runs, Carry carry) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < runs.size(); ++i) jobs.push_back({i, 0});
  return carry(plan, runs, jobs);
}

// All runs train some epochs, the best part of them some more, and so on; the last ones train to the end.
bool run_halving(const Plan& plan, const std::vector<Run>& runs, Carry carry) {
  std::vector<std::size_t> alive(runs.size());
  for (std::size_t i = 0; i < alive.size(); ++i) alive[i] = i;
  auto until = static_cast<int>(plan.first_epochs);
  for (;;) {
    const bool last = alive.size() <= 1;
    std::vector<Job> jobs;
    for (const std::size_t i : alive) jobs.push_back({i, last ? 0 : until});
    if (!carry(plan, runs, jobs)) return false;
    if (last) return true;
    std::vector<Row> rung;
    bool more = false;  // epochs left in any run
    for (const std::size_t i : alive) {
      Row row{&runs[i], read_log(runs[i].log()), read_ended(runs[i]), {}};
      if (row.ended && row.ended->code != kDone) continue;
      check_objective(plan, runs[i], row.log);
      more = more || !row.ended;
      rung.push_back(std::move(row));
    }
    if (rung.empty() || !more) return true;
    set_scores(plan, rung, until);
    std::ranges::stable_sort(rung, [&](const Row& a, const Row& b) { return is_better(plan, a, b); });
    const auto kept = std::max<std::size_t>(1, alive.size() / static_cast<std::size_t>(plan.factor));
    alive.clear();
    for (std::size_t i = 0; i < std::min(kept, rung.size()); ++i)
      alive.push_back(static_cast<std::size_t>(rung[i].run - runs.data()));
    std::fprintf(stderr, "sweep: after epoch %d, %zu of %zu runs go on\n", until, alive.size(), jobs.size());
    until *= static_cast<int>(plan.factor);
  }
}

int carry_out(const Words& w) {
  const Plan plan = read_plan(w.file);
  const std::vector<Run> runs = make_runs(plan);
  words_of(plan, runs[0], 0);  // finds mistakes in the config
  make_folder(plan);
  if (w.only < 0) note_other_runs(plan, runs);
  if (w.table) return print_table(plan, rows_of(plan, runs)), 0;
  watch_signals();
  if (w.only >= 0) {  // a task of an array
    if (static_cast<std::size_t>(w.only) >= runs.size())
      throw Error(fmt::format("sweep: --only {}: there are runs 0 to {}\nfix: the array in array.sh is of another file",
                              w.only, runs.size() - 1));
    Plan alone = plan;
    alone.parallel = 1;
    return run_here(alone, runs, {{static_cast<std::size_t>(w.only), w.until}}) ? 0 : kPreempted;
  }
  check_parameters(plan, runs[0]);
  check_files(plan, runs[0]);
  lock(plan);
  if (plan.method != Method::grid && runs.size() < static_cast<std::size_t>(plan.runs))
    std::fprintf(stderr, "sweep: %zu runs instead of %lld: there are no more different settings\n", runs.size(),
                 static_cast<long long>(plan.runs));
  const Carry carry = w.slurm ? run_in_slurm : run_here;
  const bool all = plan.method == Method::halving ? run_halving(plan, runs, carry) : run_all(plan, runs, carry);
  const auto rows = rows_of(plan, runs);
  print_table(plan, rows);
  write_page(plan, rows);
  if (!all) return kPreempted;
  const bool failed = std::ranges::any_of(rows, [](const Row& r) { return r.ended && r.ended->code != kDone; });
  return failed ? 1 : 0;
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    const Words w = read_words(argc, argv);
    if (w.help) return std::fputs(kUsage, stdout), 0;
    return carry_out(w);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::sweep
