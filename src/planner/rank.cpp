// SPDX-License-Identifier: Apache-2.0
// Every candidate is a whole training, made as for a run, of which some steps are timed on all ranks at once: so
// threads, shared cores, caches and links are those of the run.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <span>
#include <thread>

#include "actions/cpu.h"
#include "actions/device.h"
#include "actions/prepare.h"
#include "actions/together.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "comm/session.h"
#include "config/text.h"
#include "parallel/hybrid/cost.h"
#include "planner/forecast.h"
#include "planner/planner.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti::planner {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

constexpr double kSecondsPerTrial = 0.6;
constexpr int kRounds = 3;
constexpr std::int64_t kLeastSteps = 6, kMostSteps = 2000, kWarmUp = 2;

double memory_now() {
  std::ifstream in("/proc/self/statm");
  double size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The largest of all ranks' values.
double largest(Communicator& ranks, double mine) {
  const auto all = from_all(ranks, mine);
  return *std::max_element(all.begin(), all.end());
}

// The first command that trains, or the first one.
std::string first_training(const config::Record& top, const std::vector<std::string>& commands) {
  for (const std::string& name : commands) {
    if (!top.is_block(name)) continue;
    const auto actions = top.block(name).strings("action");
    if (actions.empty() ||
        std::ranges::any_of(actions, [](const auto& a) { return config::to_lower(a).starts_with("train"); }))
      return name;
  }
  return commands.empty() ? "train" : commands[0];
}

class Trials {
 public:
  Trials(Words words, Communicator& world) : words_(std::move(words)), world_(world) {}

  // Times `steps` steps of the first training with these settings in its ParallelTrain. Throws ConfigError or Error on
  // all ranks if the settings are not possible. Collective over `ranks`.
  Measured measure(Communicator& ranks, const std::string& parallel, std::int64_t steps) {
    malloc_trim(0);  // what the candidate before has left
    const double before = memory_now();
    config::CommandLine line;
    config::TopLevel top;
    const auto actions = make(ranks, parallel, line, top);
    const TrialRun run = actions->try_steps(std::min(kWarmUp, steps), steps);
    weights = run.weights, minibatch = run.minibatch;
    Measured m;
    m.steps = run.steps, m.samples = run.samples;
    m.seconds = largest(ranks, run.times.total), m.wait = largest(ranks, run.times.exchange.wait);
    m.bytes = largest(ranks, static_cast<double>(run.times.exchange.bytes_sent));
    m.memory = largest(ranks, std::max(0.0, memory_now() - before));
    return m;
  }

  std::size_t weights = 0;
  std::int64_t minibatch = 0;
  std::string command;  // the one that is timed
  config::Record sgd;   // of the config, not of a candidate

 private:
  std::optional<actions::Action> make(Communicator& ranks, const std::string& parallel, config::CommandLine& line,
                                      config::TopLevel& top) {
    if (command.empty()) find_command();
    Words words = words_;
    if (!parallel.empty()) words.push_back(fmt::format("{}=[SGD=[ParallelTrain=[{}]]]", command, parallel));
    std::vector<const char*> argv{"trainer"};
    for (const std::string& w : words) argv.push_back(w.c_str());
    line = config::parse_command_line(static_cast<int>(argv.size()), argv.data());
    Problems problems;
    config::Notices notices;
    top = config::read_top_level(line.config, ranks.size(), problems, notices);
    problems.throw_if_any();
    if (!place_) {
      place_ = find_place(world_);
      actions::plan_cpu(actions::wanted_threads(line.config), *place_, top.deterministic);
    }
    top.parallel_train = true;
    top.command = {command};
    const auto device = actions::plan_device(top, *place_, false);
    auto prepared = actions::prepare(line, top, device.device, ranks, problems, notices);
    problems.throw_if_any();
    for (auto& p : prepared)
      if (p.what && p.what->try_steps) return std::move(p.what);
    throw ConfigError(line.config.where(), fmt::format("'{}' does not train", command),
                      "command=Train, the name of a training");
  }

  void find_command() {
    std::vector<const char*> argv{"trainer"};
    for (const std::string& w : words_) argv.push_back(w.c_str());
    const auto line = config::parse_command_line(static_cast<int>(argv.size()), argv.data());
    std::vector<std::string> commands = line.config.strings("command");
    if (commands.empty()) commands = {"train"};
    command = first_training(line.config, commands);
    if (line.config.is_block(command) && line.config.block(command).is_block("SGD"))
      sgd = line.config.block(command).block("SGD");
  }

  Words words_;
  Communicator& world_;
  std::optional<HostPlace> place_;
};

// Runs `part` on rank 0 alone, on which the others wait without using their cores.
template <class Part>
double on_first_rank(Communicator& world, const Part& part) {
  double result = 0;
  const auto alone = world.split(world.rank());
  if (world.rank() == 0) {
    result = part(*alone);
    for (int r = 1; r < world.size(); ++r) world.send(r, 31011, std::as_bytes(std::span(&result, 1)))->wait();
  } else {
    const auto answer = world.receive(0, 31011, std::as_writable_bytes(std::span(&result, 1)));
    while (!answer->done()) std::this_thread::sleep_for(2ms);
  }
  return result;
}

struct Candidate {
  const char *method, *bits;
  bool exact;
  std::string settings;     // of ParallelTrain
  std::string always = {};  // of a method that exchanges after blocks: settings for every step
  double (*period)(const config::Record& sgd, double minibatch, int ranks) = nullptr;  // in steps
};

// Of a key in the config's own block of the method, else the default.
double key_of(const config::Record& sgd, const char* method, const char* key, double otherwise) {
  if (!sgd.is_block("ParallelTrain")) return otherwise;
  const config::Record parallel = sgd.block("ParallelTrain");
  return parallel.is_block(method) ? parallel.block(method).number(key, otherwise) : otherwise;
}

double block_period(const config::Record& sgd, const char* method, double per_worker, double minibatch, int ranks) {
  const double total = key_of(sgd, method, "blockSize", key_of(sgd, method, "blockSizePerWorker", per_worker) * ranks);
  return std::max(1.0, total / minibatch);
}

std::vector<Candidate> candidates() {
  const auto gradients = [](const char* bits) {
    return fmt::format(
        "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits={};useBufferedAsyncGradientAggregation="
        "false]",
        bits);
  };
  return {
      {"DataParallelSGD", "32", true, gradients("32")},
      {"DataParallelSGD", "16", false, gradients("16")},
      {"DataParallelSGD", "4", false, gradients("4")},
      {"DataParallelSGD", "1", false, gradients("1")},
      {"ASA of gradients", "32", true, "parallelizationMethod=ASA;ASA=[exchange=gradients;exchangeBits=32]"},
      {"ModelAveragingSGD", "32", false,
       "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSizePerWorker=1000000000]",
       "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSizePerWorker=1]",
       [](const config::Record& sgd, double m, int ranks) {
         return block_period(sgd, "ModelAveragingSGD", 40000, m, ranks);
       }},
      {"BlockMomentumSGD", "32", false,
       "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=1000000000]",
       "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=1]",
       [](const config::Record& sgd, double m, int ranks) {
         return block_period(sgd, "BlockMomentumSGD", 120000, m, ranks);
       }},
      {"EASGD", "32", false, "parallelizationMethod=EASGD;EASGD=[period=1000000]",
       "parallelizationMethod=EASGD;EASGD=[period=1]",
       [](const config::Record& sgd, double, int) { return key_of(sgd, "EASGD", "period", 10); }},
      {"DataParallelASGD", "32", false, "parallelizationMethod=DataParallelASGD"},
  };
}

void measure_candidate(Trials& trials, Communicator& world, const Candidate& c, std::int64_t steps,
                       const LinkFigures& link, Forecast& f) {
  const Measured first = trials.measure(world, c.settings, steps);
  if (c.always.empty()) return forecast_steps(f, first, link);
  const Measured always = trials.measure(world, c.always, steps);
  forecast_blocks(f, first, always, c.period(trials.sgd, static_cast<double>(trials.minibatch), world.size()));
}

std::string first_line(std::string text) {
  const auto error = text.find("error: ");
  if (error != text.npos) text = text.substr(error + 7);
  return text.substr(0, text.find('\n'));
}

std::vector<Forecast> forecasts(Trials& trials, Communicator& world, std::int64_t steps, const LinkFigures& link) {
  std::vector<Forecast> all;
  for (const Candidate& c : candidates()) {
    Forecast f{.method = c.method, .bits = c.bits, .refused = {}, .exact = c.exact};
    try {
      measure_candidate(trials, world, c, steps, link, f);
    } catch (const ConfigError& e) {
      f.refused = first_line(e.what());
    }
    all.push_back(std::move(f));
  }
  return all;
}

// In samples per second.
double speed_of_one(Trials& trials, Communicator& world, std::int64_t steps) {
  return on_first_rank(world, [&](Communicator& alone) {
    const Measured m = trials.measure(alone, "", std::max(kLeastSteps, steps / 2));
    return m.seconds > 0 ? static_cast<double>(m.samples) / m.seconds : 0;
  });
}

void plan(const Words& words, Communicator& world) {
  Trials trials(words, world);
  // How long a step takes decides how many there are in a trial.
  Measured probe = trials.measure(world, "parallelizationMethod=DataParallelSGD", 2);
  const double step = std::max(1e-6, probe.seconds / static_cast<double>(std::max<std::int64_t>(probe.steps, 1)));
  const auto steps = std::clamp(static_cast<std::int64_t>(kSecondsPerTrial / step), kLeastSteps, kMostSteps);
  const LinkSpeed measured = measure_link(world);
  const LinkFigures link{measured.latency, measured.bandwidth};
  const HostPlace place = find_place(world);
  if (world.rank() == 0)
    std::printf(
        "%s on %d ranks of %d host%s: %zu weights, minibatches of %lld samples; a message takes %.0f us, and a rank "
        "sends %.1f MB/s while all send\n",
        trials.command.c_str(), world.size(), place.hosts, place.hosts == 1 ? "" : "s", trials.weights,
        static_cast<long long>(trials.minibatch), link.latency * 1e6, link.bandwidth / 1e6);
  // Round by round, so that other work on the hosts meets all alike; the best round counts.
  double single = 0;
  std::vector<Forecast> all;
  for (int round = 0; round < kRounds; ++round) {
    single = std::max(single, speed_of_one(trials, world, steps));
    const auto found = forecasts(trials, world, steps, link);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (round == 0)
        all.push_back(found[i]);
      else if (found[i].samples_per_second > all[i].samples_per_second)
        all[i] = found[i];
  }
  if (world.rank() == 0) std::fputs(report_text(all, single, world.size()).c_str(), stdout);
}

}  // namespace

int run_rank(int argc, char** argv) {
  MpiSession mpi(&argc, &argv);
  try {
    log::open({"", false, mpi.world().rank(), true, false});
    plan({argv + 2, argv + argc}, mpi.world());
    mpi.end(0);
    return 0;
  } catch (const ConfigError& e) {
    if (mpi.world().rank() == 0) std::fprintf(stderr, "%s\n", e.what());
    mpi.end(actions::wrong_configuration);
    return actions::wrong_configuration;
  } catch (const std::exception& e) {
    mpi.fail(e.what());
  }
}

}  // namespace tutti::planner
