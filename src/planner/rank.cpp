// SPDX-License-Identifier: Apache-2.0
// A rank of `trainer plan`: all methods in turn, in rounds, so that other work on the hosts meets all alike.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "actions/method_trials.h"
#include "base/exit_codes.h"
#include "comm/session.h"
#include "parallel/hybrid/cost.h"
#include "planner/planner.h"
#include "train/metrics/metrics.h"
#include "tutti/log.h"

namespace tutti::planner {
namespace {

constexpr double kSecondsPerTrial = 0.6;
constexpr int kRounds = 3;

// The table for programs; src/planner/front.cpp takes these lines out of the output.
// `place`: of the training, whatever the ranks and the method.
void print_records(const std::vector<actions::Forecast>& all, double single, int ranks,
                   const std::vector<std::pair<std::string, std::int64_t>>& place) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  MetricsRecord one{"plan"};
  one.place = place;
  one.place.emplace_back("ranks", 1);
  one.texts = {{"method", "none"}, {"bits", "-"}};
  one.measures = {{"samples_per_second", single}};
  std::printf("%s\n", to_json(one, now).c_str());
  const actions::Choice choice = actions::choose(all);
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    const actions::Forecast& f = all[static_cast<std::size_t>(i)];
    MetricsRecord r{"plan"};
    r.place = place;
    r.place.insert(r.place.end(), {{"ranks", ranks}, {"same_result", f.exact}, {"choice", i == choice.exact}});
    r.texts = {{"method", f.method}, {"bits", f.bits}};
    if (f.refused.empty())
      r.measures = {{"samples_per_second", f.samples_per_second},
                    {"bytes_per_step", f.bytes_per_step},
                    {"hidden", f.hidden < 0 ? std::nan("") : f.hidden},
                    {"memory", f.memory}};
    else
      r.texts.emplace_back("refused", f.refused);
    std::printf("%s\n", to_json(r, now).c_str());
  }
}

void plan(const std::vector<std::string>& words, Communicator& world) {
  const std::string directory = std::filesystem::current_path().string();
  const auto [command, sgd, place] = actions::find_training(words, world);
  actions::MethodTrials trials(words, directory, command, world, place);
  trials.size_trials(kSecondsPerTrial);
  const LinkSpeed measured = measure_link(world);
  const actions::LinkFigures link{measured.latency, measured.bandwidth};
  if (world.rank() == 0)
    std::printf(
        "%s on %d rank%s of %d host%s: %zu weights, minibatches of %lld samples; a message takes %.0f us, and a rank "
        "sends %.1f MB/s while all send\n",
        command.c_str(), world.size(), world.size() == 1 ? "" : "s", place.hosts, place.hosts == 1 ? "" : "s",
        trials.weights(), static_cast<long long>(trials.minibatch()), link.latency * 1e6, link.bandwidth / 1e6);
  std::vector<double> singles;
  std::vector<std::pair<std::string, std::int64_t>> training;
  const std::vector<actions::Candidate> candidates = actions::candidates(sgd, world.size());
  std::vector<std::vector<actions::Forecast>> rounds(candidates.size());  // by candidate
  for (int round = 0; round < (trials.slow() ? 1 : kRounds); ++round) {
    singles.push_back(trials.speed_of_one());
    // Of rank 0 alone: ranks that divide layers have a part of the weights each.
    training = {{"weights", static_cast<std::int64_t>(trials.weights())}, {"minibatch", trials.minibatch()}};
    for (std::size_t i = 0; i < candidates.size(); ++i) rounds[i].push_back(trials.measure(candidates[i], link));
  }
  if (world.rank() != 0) return;
  std::ranges::sort(singles);
  const double single = singles[(singles.size() - 1) / 2];
  std::vector<actions::Forecast> all;
  for (auto& of_candidate : rounds) all.push_back(actions::median_of(std::move(of_candidate)));
  std::fputs(actions::report_text(all, single, world.size()).c_str(), stdout);
  print_records(all, single, world.size(), training);
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
    mpi.end(kWrongConfiguration);
    return kWrongConfiguration;
  } catch (const std::exception& e) {
    mpi.fail(e.what());
  }
}

}  // namespace tutti::planner
