// SPDX-License-Identifier: Apache-2.0
#include "actions/method_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <thread>

#include "actions/cpu.h"
#include "actions/device.h"
#include "actions/prepare.h"
#include "actions/together.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "config/text.h"
#include "train/training.h"

namespace tutti::actions {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kLeastSteps = 6, kLeastOfSlowest = 2, kMostSteps = 2000, kWarmUp = 2;
constexpr double kSlowStep = 0.25, kSlowestStep = 1;  // seconds
constexpr int kAnswerTag = 31011;

// The largest of all ranks' values.
double largest_of_ranks(Communicator& ranks, double mine) {
  const auto all = from_all(ranks, mine);
  return *std::max_element(all.begin(), all.end());
}

// Runs `part` on rank 0 alone. The others sleep: they may share its cores.
template <class Part>
double on_first_rank(Communicator& world, const Part& part) {
  double result = 0;
  const auto alone = world.split(world.rank());
  if (world.rank() == 0) {
    result = part(*alone);
    for (int r = 1; r < world.size(); ++r) world.send(r, kAnswerTag, std::as_bytes(std::span(&result, 1)))->wait();
  } else {
    const auto answer = world.receive(0, kAnswerTag, std::as_writable_bytes(std::span(&result, 1)));
    while (!answer->done()) std::this_thread::sleep_for(2ms);
  }
  return result;
}

// Whether the config's own ParallelTrain has the method's block, and in how many bits it exchanges.
std::pair<bool, std::string> block_of(const config::Record& sgd, const char* method) {
  const bool given = sgd.is_block("ParallelTrain") && sgd.block("ParallelTrain").is_block(method);
  return {given,
          given ? config::to_lower(sgd.block("ParallelTrain").block(method).string("exchangeBits", "32")) : "32"};
}

// `default` removes settings of the config's block that are errors with these bits.
Candidate gradients(const char* bits, const char* allowed_by, bool has_levels) {
  return {"DataParallelSGD", bits, allowed_by,
          fmt::format("parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits={};exchangeBits=default;{}"
                      "useBufferedAsyncGradientAggregation=false]",
                      bits, has_levels ? "" : "quantizer=default;")};
}

// Settings that replace the bits of a block. Its quantizer stays with 4 bits; with the others it is an error.
std::string exchange_in(const std::string& bits) {
  return fmt::format("exchangeBits={}{}", bits, bits == "4" ? "" : ";quantizer=default");
}

Candidate asa(const std::string& bits, const char* allowed_by) {
  return {"ASA of gradients", bits, allowed_by,
          fmt::format("parallelizationMethod=ASA;ASA=[exchange=gradients;{}]", exchange_in(bits))};
}

template <class Options>
Candidate blocks(const config::Record& sgd, int ranks) {
  const char* const method = Options::name;
  const auto [own, bits] = block_of(sgd, method);
  const BlockSize size = method_settings<Options>(sgd).block;
  const bool total = size.total > 0;
  const auto with_size = [&](std::int64_t each) {
    return fmt::format("parallelizationMethod={0};{0}=[{1}={2}]", method, total ? "blockSize" : "blockSizePerWorker",
                       total ? each * ranks : each);
  };
  Candidate c{method,      bits, "local", fmt::format("parallelizationMethod={}", method), with_size(1'000'000'000),
              with_size(1)};
  c.samples = size.all(ranks);
  if (own) return c;
  if constexpr (requires { Options::without_block; })
    c.settings = with_size(size.per_worker);  // it needs its block
  else
    c.samples = 1;  // without its block it exchanges after every minibatch
  return c;
}

Candidate elastic(const config::Record& sgd) {
  Candidate c{"EASGD",
              block_of(sgd, "EASGD").second,
              "local",
              "parallelizationMethod=EASGD",
              "parallelizationMethod=EASGD;EASGD=[period=1000000]",
              "parallelizationMethod=EASGD;EASGD=[period=1]"};
  c.steps = method_settings<EasgdOptions>(sgd).period;
  return c;
}

Candidate servers(const config::Record& sgd, int ranks) {
  const auto [own, bits] = block_of(sgd, "DataParallelASGD");
  const auto options = method_settings<ServerOptions>(sgd);
  const std::int64_t workers = std::max<std::int64_t>(1, ranks - options.servers);
  return {.method = "DataParallelASGD",
          .bits = own ? bits : block_of(sgd, "ASGD").second,
          .allowed_by = "async",
          .settings = "parallelizationMethod=DataParallelASGD",
          .samples = options.every_minibatch ? 1 : workers * options.sync_period.at(0),
          .meets_at_end = true};
}

// The same method in other bits than those of its block.
Candidate in_bits(const Candidate& c, const std::string& block, const std::string& bits) {
  Candidate other = c;
  other.bits = bits, other.allowed_by = kOnlyPlanned;
  for (std::string* settings : {&other.settings, &other.never, &other.always})
    if (!settings->empty()) *settings += fmt::format(";{}=[{}]", block, exchange_in(bits));
  return other;
}

std::string first_line(std::string text) {
  const auto error = text.find("error: ");
  if (error != text.npos) text = text.substr(error + 7);
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::vector<Candidate> candidates(const config::Record& sgd, int ranks) {
  const std::vector<std::string> few_bits = {"16", "4", "1"};
  std::vector<Candidate> all = {gradients("32", "", false), gradients("16", "16bit", true),
                                gradients("4", "4bit", true), gradients("1", "1bit", false), asa("32", "")};
  for (const std::string& bits : few_bits) all.push_back(asa(bits, kOnlyPlanned));
  const char* const block_of_servers =
      block_of(sgd, "DataParallelASGD").first || !block_of(sgd, "ASGD").first ? "DataParallelASGD" : "ASGD";
  const std::vector<std::pair<Candidate, std::string>> others = {
      {blocks<ModelAveragingOptions>(sgd, ranks), ModelAveragingOptions::name},
      {blocks<BlockMomentumOptions>(sgd, ranks), BlockMomentumOptions::name},
      {elastic(sgd), "EASGD"},
      {servers(sgd, ranks), block_of_servers}};
  for (const auto& [method, block] : others) {
    all.push_back(method);
    for (const char* bits : {"32", "16", "4", "1"})
      if (bits != method.bits) all.push_back(in_bits(method, block, bits));
  }
  return all;
}

std::vector<Candidate> candidates_of_auto(const config::Record& sgd, int ranks,
                                          const std::vector<std::string>& allowed) {
  std::vector<Candidate> all = candidates(sgd, ranks);
  std::erase_if(all, [&](const Candidate& c) {
    return *c.allowed_by != 0 && std::ranges::find(allowed, c.allowed_by) == allowed.end();
  });
  return all;
}

bool trains(const config::Record& command) {
  const auto actions = command.strings("action");
  return actions.empty() ||
         std::ranges::any_of(actions, [](const auto& a) { return config::to_lower(a).starts_with("train"); });
}

std::string first_training(const config::Record& top, const std::vector<std::string>& commands) {
  for (const std::string& name : commands)
    if (top.is_block(name) && trains(top.block(name))) return name;
  return commands.empty() ? "train" : commands[0];
}

std::string parallel_override(const config::Record& top, const std::string& command, const std::string& settings) {
  const bool own = top.is_block(command) && top.block(command).has_own("SGD");
  return own ? fmt::format("{}=[SGD=[ParallelTrain=[{}]]]", command, settings)
             : fmt::format("SGD=[ParallelTrain=[{}]]", settings);
}

TrainingOfConfig find_training(const std::vector<std::string>& words, Communicator& world) {
  std::vector<const char*> argv{"trainer"};
  for (const std::string& w : words) argv.push_back(w.c_str());
  const auto line = config::parse_command_line(static_cast<int>(argv.size()), argv.data());
  std::vector<std::string> commands = line.config.strings("command");
  if (commands.empty()) commands = {"train"};
  TrainingOfConfig t{first_training(line.config, commands), {}, find_place(world)};
  if (line.config.is_block(t.command) && line.config.block(t.command).is_block("SGD"))
    t.sgd = line.config.block(t.command).block("SGD");
  plan_cpu(wanted_threads(line.config), t.place, line.config.boolean("forceDeterministicAlgorithms", false));
  return t;
}

Action make_training(const std::vector<std::string>& words, const std::string& directory, const std::string& command,
                     Communicator& ranks, const HostPlace& place, const std::string& parallel) {
  std::vector<const char*> argv{"trainer"};
  for (const std::string& w : words) argv.push_back(w.c_str());
  const auto parsed = [&] {
    std::filesystem::current_path(directory);  // before currentDirectory= changes it
    return config::parse_command_line(static_cast<int>(argv.size()), argv.data());
  };
  config::CommandLine line = parsed();
  std::string word;
  if (!parallel.empty()) {
    word =
        parallel_override(line.config, command, parallel + ";parallelizationStartEpoch=1;parallelizationStartSample=0");
    argv.push_back(word.c_str());
    line = parsed();
  }
  Problems problems;
  config::Notices notices;
  config::TopLevel top = config::read_top_level(line.config, ranks.size(), problems, notices);
  problems.throw_if_any();
  top.parallel_train = true;
  top.command = {command};
  const auto device = plan_device(top, place, false);
  auto prepared = prepare(line, top, device.device, ranks, problems, notices);
  problems.throw_if_any();
  for (auto& p : prepared)
    if (p.what && p.what->try_steps) return std::move(*p.what);
  throw ConfigError(line.config.where(), fmt::format("'{}' does not train", command),
                    "command=Train, the name of a training");
}

Measured MethodTrials::run(Communicator& ranks, const std::string& parallel, std::int64_t steps) {
  const auto before = static_cast<double>(allocated_memory());
  const Action action = make_training(words_, directory_, command_, ranks, place_, parallel);
  const TrialRun trial = action.try_steps(std::min(kWarmUp, steps), steps);
  weights_ = trial.weights, minibatch_ = trial.minibatch, epoch_samples_ = trial.epoch_samples;
  Measured m;
  m.steps = trial.steps, m.samples = trial.samples;
  m.seconds = largest_of_ranks(ranks, trial.times.total), m.wait = largest_of_ranks(ranks, trial.times.exchange.wait);
  m.computing = largest_of_ranks(ranks, trial.times.total - trial.times.exchange.wait);
  m.bytes = largest_of_ranks(ranks, static_cast<double>(trial.times.exchange.bytes_sent));
  m.exchanges = largest_of_ranks(ranks, static_cast<double>(trial.times.exchange.exchanges));
  m.memory = largest_of_ranks(ranks, static_cast<double>(allocated_memory()) - before);
  return m;
}

void MethodTrials::size_trials(double seconds) {
  const Measured probe = run(world_, "parallelizationMethod=DataParallelSGD", 2);
  const double step = std::max(1e-6, probe.seconds / static_cast<double>(std::max<std::int64_t>(probe.steps, 1)));
  slow_ = step > kSlowStep;
  least_steps_ = step > kSlowestStep ? kLeastOfSlowest : kLeastSteps;
  steps_ = std::clamp(static_cast<std::int64_t>(seconds / step), least_steps_, kMostSteps);
}

// On slow links a trial has few steps, so its end would weigh more than that of an epoch. If a period is at most twice
// as long as the trial, the trial ends with an exchange.
void MethodTrials::measure_epochs(Forecast& f, const Candidate& c, const LinkFigures& link) {
  const std::int64_t period = std::max<std::int64_t>(1, (c.samples + minibatch_ - 1) / minibatch_);
  std::int64_t steps = std::max(2 * least_steps_, steps_ / 3);
  if (period <= 2 * steps) steps = (steps + period - 1) / period * period;
  const auto in_epoch = static_cast<double>(std::max<std::int64_t>(1, epoch_samples_ / minibatch_));
  const Measured some = run(world_, c.settings, steps);
  forecast_epochs(f, some, run(world_, c.settings, 2 * steps), in_epoch, link);
}

Forecast MethodTrials::measure(const Candidate& c, const LinkFigures& link) {
  Forecast f{.method = c.method, .bits = c.bits, .refused = {}, .exact = *c.allowed_by == 0};
  try {
    const bool steps_take_seconds = least_steps_ < kLeastSteps;
    if (c.meets_at_end && !steps_take_seconds) {
      measure_epochs(f, c, link);
      return f;
    }
    const Measured first = run(world_, c.never.empty() ? c.settings : c.never, steps_);
    if (c.always.empty())
      forecast_steps(f, first, link);
    else
      forecast_blocks(f, first, run(world_, c.always, steps_),
                      mean_period(epoch_samples_, minibatch_, c.samples, c.steps));
  } catch (const ConfigError& e) {
    f.refused = first_line(e.what());
  }
  return f;
}

double MethodTrials::speed_of_one() {
  return on_first_rank(world_, [&](Communicator& alone) {
    const Measured m = run(alone, "", std::max(least_steps_, steps_ / 2));
    return m.seconds > 0 ? static_cast<double>(m.samples) / m.seconds : 0;
  });
}

}  // namespace tutti::actions
