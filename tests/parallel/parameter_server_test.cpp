// SPDX-License-Identifier: Apache-2.0
// Parameter servers against simpler methods, bit for bit where nothing depends on the order of arrival; and nothing is
// lost where it does.
#include "parallel/parameter_server/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "../support/run_ranks.h"
#include "optim/optimizer_options.h"
#include "parallel/options.h"
#include "training.h"
#include "tutti/error.h"

namespace tutti::parameter_server_test {
namespace {

using namespace training;
using Policy = ServerOptions::Policy;
using Push = ServerOptions::Push;

const Shapes kShapes{{33, 7}, {33, 1}, {1, 50}, {2, 3}, {257, 4}, {1, 1}};

ParallelTrainOptions servers(Policy policy, Push push, std::int64_t period = 0) {
  ParallelTrainOptions o;
  o.method = ServerOptions();
  o.as<ServerOptions>().policy = policy, o.as<ServerOptions>().push = push;
  o.as<ServerOptions>().every_minibatch = period == 0 && push == Push::gradients;
  o.as<ServerOptions>().sync_period = std::max<std::int64_t>(1, period);
  return o;
}

ParallelTrainOptions method(MethodOptions m) {
  ParallelTrainOptions o;
  o.method = std::move(m);
  return o;
}

// Feeds the run's optimizer, as the step loop does.
class OptimizerSink : public training::Sink {
 public:
  explicit OptimizerSink(Optimizer& optimizer) : optimizer_(optimizer) {}
  void next_step() { begun_ = false; }
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    if (columns == 0) return;
    if (!std::exchange(begun_, true))
      optimizer_.begin_step({rates().learning_rate, rates().momentum_per_sample, columns});
    optimizer_.update(chunk);
  }
  StepRates rates() const override { return {0.125, 0.9375}; }

 private:
  Optimizer& optimizer_;
  bool begun_ = false;
};

struct Course {
  int ranks = 2, epochs = 2, steps = 5;
  std::vector<int> empty_ranks = {};
  bool whole_numbers = false;
  OptimizerOptions optimizer = {};
  int slow_rank = -1;
  Shapes shapes = kShapes;
  std::int64_t padding = 0;  // packing gaps of a share, and of a whole minibatch

  std::int64_t columns(std::int64_t samples) const { return samples > 0 ? samples + padding : 0; }
  std::int64_t share(int rank, int t) const {
    const bool empty = std::find(empty_ranks.begin(), empty_ranks.end(), rank) != empty_ranks.end();
    return empty && t % 2 == 0 ? 0 : 10 + rank;
  }
};

struct Outcome {
  std::vector<std::vector<float>> weights, residuals;  // by rank
  std::int64_t used = 0, dropped = 0;                  // samples
};

Outcome train(const Course& run, const ParallelTrainOptions& o) {
  Outcome out;
  out.weights.resize(static_cast<std::size_t>(run.ranks));
  out.residuals.resize(static_cast<std::size_t>(run.ranks));
  std::mutex mutex;
  run_ranks(run.ranks, [&](Communicator& comm) {
    Parameters p = parameters_of(run.shapes);
    p.sparse_rows.resize(p.slices.size());
    const auto start = gradient(p, 77, 0, true);
    std::copy(start.begin(), start.end(), p.weights.data());
    const auto optimizer = make_optimizer(run.optimizer);
    optimizer->bind(p);
    const auto player = play(o, comm);
    player->bind(*optimizer, [&] { return make_optimizer(run.optimizer); });
    player->start(p);
    OptimizerSink sink(*optimizer);
    const DataDivision::Share share = player->method().data.share;
    std::int64_t used = 0, others = 0, dropped = 0;
    for (int e = 0; e < run.epochs; ++e) {
      player->begin_epoch(e);
      for (int t = e * run.steps; t < (e + 1) * run.steps; ++t) {
        std::int64_t all = 0;
        for (int r = 0; r < share.ranks; ++r) all += run.share(r, t);
        const std::int64_t mine = share.rank >= 0 ? run.share(share.rank, t) : 0;
        if (!player->joins_step(mine)) continue;
        if (run.slow_rank == comm.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        sink.next_step();
        StepMetrics metrics;
        metrics.samples = mine;
        std::vector<float> g(p.size());
        if (mine > 0) g = gradient(p, share.rank, t, run.whole_numbers);
        const StepInfo info = player->step_info({mine, run.columns(mine), all, run.columns(all)});
        const StepMetrics seen = step(*player, p, sink, g, metrics, info);
        if (!player->exchange_weights(all)) used += seen.samples;
      }
      sink.next_step();
      player->drain(sink);
      others += player->metrics_of_others_and_reset().samples;
      dropped += player->dropped_samples_and_reset();
      player->end_epoch(sink);
    }
    player->show_common_weights();
    MemoryArchive state;
    player->archive(state);
    const std::lock_guard lock(mutex);
    const auto at = static_cast<std::size_t>(comm.rank());
    p.weights.memory().synchronize();
    out.weights[at].assign(p.weights.data(), p.weights.data() + p.size());
    if (const auto r = state.floats.find(sum_on_reshard_name("DataParallelASGD.residual")); r != state.floats.end())
      out.residuals[at] = r->second;
    if (comm.rank() == 0) out.used = used + others, out.dropped = dropped;
  });
  return out;
}

std::vector<OptimizerOptions> optimizers() {
  std::vector<OptimizerOptions> all(5);
  all[1].rule = UpdateRule::adam;
  all[2].rule = UpdateRule::adagrad;  // its mean is of whole parameters
  all[3].nesterov = true, all[3].l2 = 0.001, all[3].clipping_per_sample = 0.01, all[3].clip_by_truncation = false;
  all[4].noise = 0.125;  // a function of the weight's position in the whole model
  return all;
}

TEST(ParameterServer, one_worker_trains_as_alone) {
  for (const OptimizerOptions& optimizer : optimizers()) {
    Course run{.ranks = 1, .optimizer = optimizer};
    const auto alone = train(run, method(NoExchange())).weights;
    std::vector<ParallelTrainOptions> all;
    for (const Policy policy : {Policy::async, Policy::sync, Policy::mixed}) {
      all.push_back(servers(policy, Push::deltas, 1));
      all.push_back(servers(policy, Push::deltas, 25));
      all.push_back(servers(policy, Push::gradients));
    }
    all.push_back(servers(Policy::async, Push::deltas, 1));
    all.back().as<ServerOptions>().pipeline = true;
    all.push_back(servers(Policy::async, Push::deltas, 1));
    all.back().as<ServerOptions>().max_staleness = 0;
    for (const ParallelTrainOptions& o : all) EXPECT_EQ(train(run, o).weights, alone);
  }
}

TEST(ParameterServer, synchronous_gradients_are_data_parallel_sgd) {
  for (const OptimizerOptions& optimizer : optimizers())
    for (const int ranks : {1, 2, 3, 5}) {
      Course run{.ranks = ranks, .optimizer = optimizer};
      if (ranks > 2) run.empty_ranks = {1};
      const auto expected = train(run, method(DataParallelOptions())).weights;
      const ParallelTrainOptions o = servers(Policy::sync, Push::gradients);
      EXPECT_EQ(train(run, o).weights, expected) << ranks;
      // Dedicated servers come in addition.
      ParallelTrainOptions apart = o;
      apart.as<ServerOptions>().servers = 2;
      run.ranks += 2;
      EXPECT_EQ(train(run, apart).weights.front(), expected.front()) << ranks;
    }
}

// N counts the padding of sequences as if one rank packed the minibatch, and not that of every share.
TEST(ParameterServer, synchronous_gradients_count_columns_as_data_parallel_sgd_does) {
  for (const OptimizerOptions& optimizer : optimizers()) {
    const Course run{.ranks = 3, .optimizer = optimizer, .padding = 4};
    const auto expected = train(run, method(DataParallelOptions())).weights;
    ParallelTrainOptions bounded = servers(Policy::async, Push::gradients);
    bounded.as<ServerOptions>().max_staleness = 0;
    EXPECT_EQ(train(run, servers(Policy::sync, Push::gradients)).weights, expected);
    EXPECT_EQ(train(run, bounded).weights, expected);
  }
}

TEST(ParameterServer, averages_are_model_averaging) {
  for (const int ranks : {1, 2, 3})
    for (const std::int64_t period : {1, 25}) {
      const Course run{.ranks = ranks};
      ParallelTrainOptions averaging = method(ModelAveragingOptions());
      averaging.as<ModelAveragingOptions>().given = true;
      averaging.as<ModelAveragingOptions>().block.per_worker = period;
      ParallelTrainOptions o = servers(Policy::sync, Push::deltas, period);
      o.as<ServerOptions>().average = true;
      EXPECT_EQ(train(run, o).weights, train(run, averaging).weights) << ranks << ' ' << period;
    }
}

TEST(ParameterServer, no_staleness_is_synchronous) {
  for (const int ranks : {2, 3, 4})
    for (const Push push : {Push::gradients, Push::deltas}) {
      const Course run{.ranks = ranks};
      for (const std::int64_t period : {0, 25, 1000}) {  // ranks have 10, 11, 12 ... samples in a step
        ParallelTrainOptions bounded = servers(Policy::async, push, period);
        bounded.as<ServerOptions>().max_staleness = 0;
        EXPECT_EQ(train(run, bounded).weights, train(run, servers(Policy::sync, push, period)).weights) << ranks;
      }
    }
}

// Whole numbers, of which sums are exact in any order, and updates that do not depend on the weights.
TEST(ParameterServer, nothing_is_lost_in_any_order) {
  OptimizerOptions plain;
  plain.momentum = false;
  for (const int ranks : {1, 2, 3, 5}) {
    Course run{.ranks = ranks, .whole_numbers = true, .optimizer = plain};
    if (ranks > 2) run.empty_ranks = {0, 2};
    const auto expected = train(run, servers(Policy::sync, Push::gradients)).weights;
    for (const Push push : {Push::deltas, Push::gradients})
      for (const std::int64_t period : {0, 25, 1000})
        for (const Policy policy : {Policy::async, Policy::sync, Policy::mixed})
          for (const int kind : {0, 1, 2}) {
            ParallelTrainOptions o = servers(policy, push, period);
            if (kind > 0 && policy != Policy::async) continue;
            if (kind == 1) o.as<ServerOptions>().pipeline = true;
            if (kind == 2) o.as<ServerOptions>().max_staleness = 1;
            if (kind == 0 && policy == Policy::async && period == 25) o.as<ServerOptions>().fetch_period = 40;
            EXPECT_EQ(train(run, o).weights, expected) << ranks << ' ' << static_cast<int>(policy) << ' '
                                                       << static_cast<int>(push) << ' ' << period << ' ' << kind;
          }
  }
}

TEST(ParameterServer, quantisation_errors_are_in_the_residuals) {
  OptimizerOptions plain;
  plain.momentum = false;
  for (const bool pipeline : {false, true})
    for (const auto bits : {ExchangeBits::Kind::one, ExchangeBits::Kind::four, ExchangeBits::Kind::half}) {
      const Course run{.ranks = 3, .whole_numbers = true, .optimizer = plain};
      const auto exact = train(run, servers(Policy::sync, Push::gradients)).weights[0];
      ParallelTrainOptions o = servers(Policy::async, Push::deltas, 1);
      o.as<ServerOptions>().bits.kind = bits;
      o.as<ServerOptions>().pipeline = pipeline;
      const Outcome out = train(run, o);
      EXPECT_EQ(out.weights[1], out.weights[0]);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        double weight = out.weights[0][i];
        for (const auto& residual : out.residuals) weight -= static_cast<double>(residual[i]);
        EXPECT_NEAR(weight, exact[i], 0.01) << i;
      }
    }
}

TEST(ParameterServer, residuals_of_workers_that_become_servers_pass_to_the_first_worker) {
  run_ranks(4, [&](Communicator& comm) {
    const auto state_of = [&](std::int64_t serving, MemoryArchive* saved) {
      ParallelTrainOptions o = servers(Policy::async, Push::deltas);
      o.as<ServerOptions>().bits.kind = ExchangeBits::Kind::one;
      o.as<ServerOptions>().servers = serving;
      Parameters p = parameters_of(kShapes);
      p.sparse_rows.resize(p.slices.size());
      const auto optimizer = make_optimizer({});
      optimizer->bind(p);
      const auto player = play(o, comm);
      player->bind(*optimizer, [] { return make_optimizer({}); });
      player->start(p);
      if (saved) player->archive(*saved);
      MemoryArchive state;
      player->archive(state);
      return state;
    };
    const std::string name = sum_on_reshard_name("DataParallelASGD.residual");
    MemoryArchive saved = state_of(0, nullptr);
    std::ranges::fill(saved.floats.at(name), static_cast<float>(1 << comm.rank()));
    saved.rewind_to_load();
    const MemoryArchive resumed = state_of(2, &saved);
    if (comm.rank() >= 2) return;
    EXPECT_THAT(resumed.floats.at(name), testing::Each(comm.rank() == 0 ? 1 + 4 + 8 : 2));
  });
}

TEST(ParameterServer, a_slow_worker_is_not_waited_for) {
  Course run{.ranks = 4, .epochs = 1, .steps = 20, .whole_numbers = true, .slow_rank = 2};
  ParallelTrainOptions o = servers(Policy::sync, Push::gradients);
  o.as<ServerOptions>().backup_workers = 1;
  const Outcome out = train(run, o);
  for (const auto& weights : out.weights) EXPECT_EQ(weights, out.weights[0]);
  std::int64_t all = 0;
  for (int t = 0; t < run.steps; ++t)
    for (int r = 0; r < run.ranks; ++r) all += run.share(r, t);
  EXPECT_EQ(out.used + out.dropped, all);
  EXPECT_GE(out.dropped, 20 * 10) << "in every step one is too late, or has not been begun";
}

// Both directions, and at the end of an epoch the weights for all. A rank sends nothing to itself.
TEST(ParameterServer, counts_the_bytes_of_pushes_and_responses) {
  constexpr int kWorkers = 3, kSteps = 4;
  struct Unused : training::Sink {
    void on_reduced(std::size_t, std::int64_t) override {}
  };
  for (const int dedicated : {0, 1, 2}) {
    ParallelTrainOptions o = servers(Policy::sync, Push::deltas, 1);
    o.as<ServerOptions>().servers = dedicated;
    const int ranks = kWorkers + dedicated, serving = dedicated > 0 ? dedicated : kWorkers;
    std::atomic<std::int64_t> bytes[2] = {}, values[2] = {};  // by epoch
    run_ranks(ranks, [&](Communicator& comm) {
      Parameters p = parameters_of(kShapes);
      p.sparse_rows.resize(p.slices.size());
      const auto player = play(o, comm);
      player->start(p);
      Unused sink;
      for (int e = 0; e < 2; ++e) {
        player->begin_epoch(e);
        for (int t = 0; t < kSteps; ++t) {
          if (!player->joins_step(10)) continue;
          const StepInfo info = player->step_info({10, 10, 10 * kWorkers, 10 * kWorkers});
          step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), info);
          player->exchange_weights(10 * kWorkers);
        }
        player->drain(sink);
        player->end_epoch(sink);
        const ExchangeStats sent = exchange_stats_and_reset(player->method());
        bytes[e] += sent.bytes_sent, values[e] += sent.values_sent;
      }
    });
    const Parameters p = parameters_of(kShapes);
    std::int64_t n = 0;
    for (const Slice& s : p.slices) n += static_cast<std::int64_t>(s.size());
    const auto shards = static_cast<std::int64_t>(plan_shards(p, std::vector<int>(serving), false).size());
    const std::int64_t copies = 2 * kSteps * (dedicated > 0 ? kWorkers : kWorkers - 1);  // of the weights, in messages
    for (int e = 0; e < 2; ++e) {
      EXPECT_EQ(values[e], (copies + ranks - 1) * n) << dedicated << ' ' << e;
      EXPECT_EQ(bytes[e], copies * (4 * n + 64 * shards) + (ranks - 1) * 4 * n) << dedicated << ' ' << e;
    }
  }
}

TEST(ParameterServer, ranks_that_do_not_suffice_are_refused) {
  run_ranks(2, [](Communicator& comm) {
    ParallelTrainOptions o = servers(Policy::sync, Push::gradients);
    o.as<ServerOptions>().servers = 2;
    EXPECT_THROW(play(o, comm), ConfigError);
    o.as<ServerOptions>().servers = 0, o.as<ServerOptions>().backup_workers = 2;
    EXPECT_THROW(play(o, comm), ConfigError);
  });
}

TEST(ShardPlans, hold_every_column_once_and_weigh_about_the_same) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    Shapes shapes;
    for (unsigned s = 0; s < 1 + random() % 6; ++s) shapes.emplace_back(1 + random() % 700, 1 + random() % 2000);
    const Parameters p = parameters_of(shapes);
    std::vector<int> owners(1 + random() % 5);
    std::iota(owners.begin(), owners.end(), 3);
    for (const bool whole : {false, true}) {
      std::vector<int> seen(p.size());
      std::vector<std::size_t> load(owners.size());
      for (const ServerShardPlan& plan : plan_shards(p, owners, whole)) {
        std::size_t values = 0;
        for (const ServerShardRun& run : plan.runs) {
          EXPECT_EQ(run.offset, p.slices[run.slice].offset + run.first_column * run.rows);
          if (whole) {
            EXPECT_EQ(run.columns, p.slices[run.slice].columns);
          }
          for (std::size_t i = 0; i < run.size(); ++i) ++seen[run.offset + i];
          values += run.size();
        }
        EXPECT_EQ(plan.values, values);
        load[static_cast<std::size_t>(plan.owner - 3)] += values;
      }
      std::size_t values = 0;
      for (const Slice& s : p.slices) {
        values += s.size();
        for (std::size_t i = 0; i < s.size(); ++i) EXPECT_EQ(seen[s.offset + i], 1);
      }
      const double even = static_cast<double>(values) / static_cast<double>(owners.size());
      if (whole) continue;
      for (const std::size_t l : load) EXPECT_NEAR(static_cast<double>(l), even, 4000.0) << "a few columns";
    }
  }
}

// Columns that are longer than a shard, beside short ones.
TEST(ShardPlans, no_shard_is_larger_than_twice_the_mean_or_a_column) {
  constexpr std::size_t kShardValues = 262144;  // src/parallel/parameter_server/shard.cpp
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    Parameters p;
    std::size_t values = 0, longest = 0, columns = 0;
    for (unsigned s = 0; s < 1 + random() % 6; ++s) {
      Slice slice;
      slice.offset = values;
      slice.rows = 1 + random() % (random() % 2 ? 600000 : 3000), slice.columns = 1 + random() % 64;
      values += slice.size(), columns += slice.columns, longest = std::max(longest, slice.rows);
      p.slices.push_back(slice);
    }
    const std::vector<int> owners(1 + random() % 5);
    const std::size_t most = (values / kShardValues + owners.size()) / owners.size() * owners.size();
    const auto plans = plan_shards(p, owners, false);
    EXPECT_LE(plans.size(), most);
    if (longest <= values / most) {
      EXPECT_EQ(plans.size(), most);
    }
    std::size_t next = 0, seen = 0;  // value and columns
    for (const ServerShardPlan& plan : plans) {
      EXPECT_LE(plan.values, std::max(2 * (values / most + 1), longest));
      for (const ServerShardRun& run : plan.runs) {
        EXPECT_EQ(run.offset, next);
        next += run.size(), seen += run.columns;
      }
    }
    EXPECT_EQ(next, values);
    EXPECT_EQ(seen, columns);
  }
}

// Many shards to a server, more than are on their way at a time.
TEST(ParameterServer, large_weights_travel_in_many_shards) {
  OptimizerOptions plain;
  plain.momentum = false;
  const Course run{.ranks = 3,
                   .epochs = 1,
                   .steps = 2,
                   .whole_numbers = true,
                   .optimizer = plain,
                   .shapes = {{700, 900}, {1, 300}, {300, 1000}}};
  const auto expected = train(run, method(DataParallelOptions())).weights;
  for (const Policy policy : {Policy::async, Policy::sync}) {
    EXPECT_EQ(train(run, servers(policy, Push::gradients)).weights, expected);
    EXPECT_EQ(train(run, servers(policy, Push::deltas, 1)).weights, expected);
  }
}

// Workers in random order at a handler of admission: nobody misses more than allowed, and all get on.
TEST(Admission, keeps_the_bound_and_lets_everybody_go_on) {
  for (const int workers : {1, 2, 3, 6})
    for (const std::int64_t most : {0, 1, 2, 7}) {
      const auto handler = make_bounded_admission(workers, most);
      handler->restart();
      std::mt19937 random(static_cast<unsigned>(workers * 10 + most));
      std::vector<int> left(static_cast<std::size_t>(workers), 50), waits(static_cast<std::size_t>(workers));
      std::vector<std::vector<std::byte>> messages(static_cast<std::size_t>(workers),
                                                   std::vector<std::byte>(kAdmissionBytes));
      int away = 0;
      const auto ask = [&](std::size_t w) {
        if (handler->handle(static_cast<int>(w), messages[w]) == 0) return waits[w] = 1, false;
        waits[w] = 0;
        return true;
      };
      for (int idle = 0; away < workers && idle < 100000; ++idle) {
        const std::size_t w = random() % static_cast<std::size_t>(workers);
        if (waits[w] || left[w] < 0) continue;
        const AdmissionRequest request{0, 1, left[w] == 0};
        std::memcpy(messages[w].data(), &request, sizeof request);
        ask(w);
        if (left[w]-- == 0) ++away;
        for (bool more = true; more;) {
          more = false;
          for (std::size_t i = 0; i < waits.size(); ++i) more = (waits[i] && ask(i)) || more;
        }
        for (std::size_t i = 0; i < waits.size(); ++i) {
          AdmissionResponse response;
          std::memcpy(&response, messages[i].data(), sizeof response);
          if (!waits[i] && left[i] >= 0 && left[i] < 50) {
            EXPECT_LE(response.staleness, most);
          }
        }
      }
      EXPECT_EQ(away, workers) << "with at most " << most;
    }
}

}  // namespace
}  // namespace tutti::parameter_server_test
