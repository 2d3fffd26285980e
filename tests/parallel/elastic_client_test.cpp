// SPDX-License-Identifier: Apache-2.0
// EASGD without waiting: against the synchronous form and its formula where the order of events is known, and what
// stays true in any order where it is not.
#include "parallel/parameter_server/elastic_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <set>

#include "../support/run_ranks.h"
#include "parallel/options.h"
#include "training.h"

namespace tutti::elastic_server_test {
namespace {

using namespace training;
using Bits = ExchangeBits::Kind;
using Weights = std::vector<float>;

const Shapes kShapes{{33, 7}, {33, 1}, {1, 50}, {2, 3}, {257, 4}, {1, 1}};
constexpr Bits kAllBits[] = {Bits::full, Bits::half, Bits::brain, Bits::eight, Bits::four, Bits::two, Bits::one};

EasgdOptions asynchronous(double rate, std::int64_t period = 1, Bits bits = Bits::full, std::int64_t servers = 0) {
  EasgdOptions o;
  o.policy = EasgdOptions::Policy::async;
  o.moving_rate = rate, o.period = period, o.bits.kind = bits, o.servers = servers;
  return o;
}

class Descent : public Sink {
 public:
  Descent(Parameters& p, float rate) : p_(p), rate_(rate) {}
  void on_reduced(std::size_t chunk, std::int64_t) override {
    const std::size_t at = p_.offset(p_.chunks[chunk]);
    p_.weights.memory().synchronize();
    for (std::size_t i = at; i < at + p_.count(p_.chunks[chunk]); ++i)
      p_.weights.data()[i] -= rate_ * p_.gradients.data()[i];
  }

 private:
  Parameters& p_;
  float rate_;
};

Weights weights_of(const Parameters& p) {
  p.weights.memory().synchronize();
  return {p.weights.data(), p.weights.data() + p.size()};
}

void start_at(Parameters& p, int seed) {
  const auto values = gradient(p, seed, 99);
  p.weights.memory().synchronize();
  std::copy(values.begin(), values.end(), p.weights.data());
}

// One rank's part in a run. A rate of 0 leaves the weights to the exchange alone.
struct Rank {
  Rank(const EasgdOptions& o, Communicator& comm, float rate = 0.125f)
      : comm(comm),
        p(parameters_of(kShapes, 3)),
        player(std::make_unique<Player>(o.make({comm}), comm)),
        sink(p, rate) {
    start_at(p, 7);
    player->start(p);
    player->begin_epoch(0);
  }
  void step(int number) {
    training::step(*player, p, sink, gradient(p, comm.rank(), number), metrics(comm.rank(), number), 10);
    player->exchange_weights(10);
  }
  void steps(int first, int end) {
    for (int s = first; s < end; ++s) step(s);
  }
  Weights center() {
    player->show_common_weights();
    const Weights shown = weights_of(p);
    player->take_back_weights();
    return shown;
  }
  // Returns the center, which is the model of the checkpoint.
  Weights save(MemoryArchive& file) {
    player->show_common_weights();
    const Weights model = weights_of(p);
    player->archive_common(file);
    player->archive(file);
    player->take_back_weights();
    return model;
  }
  void resume(MemoryArchive& file, const Weights& model) {
    file.rewind_to_load();
    std::copy(model.begin(), model.end(), p.weights.data());
    player->start(p);
    player->archive_common(file);
    player->archive(file);
    player->begin_epoch(1);
  }

  Communicator& comm;
  Parameters p;
  std::unique_ptr<Player> player;
  Descent sink;
};

TEST(AsynchronousEasgd, OneWorkerIsTheSynchronousForm) {
  for (const std::int64_t period : {1, 3}) {
    run_ranks(1, [&](Communicator& comm) {
      EasgdOptions together = asynchronous(0.3, period);
      together.policy = EasgdOptions::Policy::sync;
      Rank a(together, comm), b(asynchronous(0.3, period), comm);
      for (Rank* r : {&a, &b}) {
        r->steps(0, 8);
        r->player->drain(r->sink);
      }
      EXPECT_EQ(weights_of(a.p), weights_of(b.p));
      EXPECT_EQ(a.center(), b.center());
      EXPECT_NE(weights_of(b.p), b.center());
    });
  }
}

// Steps since the last exchange are in the center when the epoch ends, in both forms alike.
TEST(AsynchronousEasgd, ExchangesAtTheEndOfAnEpoch) {
  for (const std::int64_t period : {2, 3, 1000})
    run_ranks(1, [&](Communicator& comm) {
      EasgdOptions together = asynchronous(0.3, period);
      together.policy = EasgdOptions::Policy::sync;
      Rank a(together, comm), b(asynchronous(0.3, period), comm);
      const Weights start = b.center();
      for (Rank* r : {&a, &b})
        for (const int first : {0, 4}) {
          r->steps(first, first + 4);
          r->player->drain(r->sink);
          r->player->end_epoch(r->sink);
          r->player->begin_epoch(1);
        }
      EXPECT_EQ(weights_of(a.p), weights_of(b.p)) << period;
      EXPECT_EQ(a.center(), b.center()) << period;
      EXPECT_NE(b.center(), start) << period;
      EXPECT_EQ(b.player->exchange_stats_and_reset().exchanges, period == 1000 ? 2 : 4) << period;
    });
}

// The same with the center on a rank that does not train.
TEST(AsynchronousEasgd, AServerKeepsTheCenterOverEpochs) {
  run_ranks(2, [&](Communicator& comm) {
    const auto alone = comm.split(comm.rank());
    EasgdOptions together = asynchronous(0.3, 1000);
    together.policy = EasgdOptions::Policy::sync;
    Rank a(together, *alone), b(asynchronous(0.3, 1000, Bits::full, 1), comm);
    for (const int first : {0, 4, 8})
      for (Rank* r : {&a, &b}) {
        if (comm.rank() == 0) r->steps(first, first + 4);
        r->player->drain(r->sink);
        r->player->end_epoch(r->sink);
        r->player->begin_epoch(1);
      }
    const Weights center = b.center();
    if (comm.rank() == 0) {
      EXPECT_EQ(weights_of(a.p), weights_of(b.p));
      EXPECT_EQ(a.center(), center);
    } else {
      EXPECT_EQ(weights_of(b.p), center);
    }
  });
}

// Ranks take turns, so that the order of exchanges is known: the formula of the paper, bit for bit.
TEST(AsynchronousEasgd, InTurnsIsItsFormula) {
  for (const int ranks : {2, 3, 5})
    for (const std::int64_t servers : {0, 1}) {
      const int workers = ranks - static_cast<int>(servers);
      constexpr float rate = 0.3f, descent = 0.125f;
      Parameters p = parameters_of(kShapes);
      start_at(p, 7);
      Weights center = weights_of(p);
      std::vector<Weights> x(static_cast<std::size_t>(workers), center);
      for (int s = 0; s < 4; ++s)
        for (int r = 0; r < workers; ++r) {
          Weights& mine = x[static_cast<std::size_t>(r)];
          const auto g = gradient(p, r, s);
          for (std::size_t i = 0; i < mine.size(); ++i) mine[i] -= descent * g[i];
          if (s % 2 == 0) continue;
          for (std::size_t i = 0; i < mine.size(); ++i) {
            const float d = rate * (center[i] - mine[i]);
            mine[i] += d, center[i] -= d;
          }
        }
      run_ranks(ranks, [&](Communicator& comm) {
        Rank rank(asynchronous(0.3, 2, Bits::full, servers), comm, descent);
        for (int s = 0; s < 4; ++s)
          for (int r = 0; r < workers; ++r) {
            if (r == comm.rank()) rank.step(s);
            comm.barrier();
          }
        rank.player->drain(rank.sink);
        EXPECT_EQ(rank.center(), center);
        const bool works = comm.rank() < workers;
        EXPECT_EQ(weights_of(rank.p), works ? x[static_cast<std::size_t>(comm.rank())] : center) << comm.rank();
      });
    }
}

TEST(AsynchronousEasgd, MovingRate0LeavesRanksAlone) {
  for (const Bits bits : kAllBits)
    run_ranks(3, [&](Communicator& comm) {
      Rank rank(asynchronous(0, 1, bits), comm);
      Weights alone = weights_of(rank.p);
      const Weights start = alone;
      rank.steps(0, 5);
      for (int s = 0; s < 5; ++s) {
        const auto g = gradient(rank.p, comm.rank(), s);
        for (std::size_t i = 0; i < alone.size(); ++i) alone[i] -= 0.125f * g[i];
      }
      rank.player->drain(rank.sink);
      EXPECT_EQ(weights_of(rank.p), alone);
      EXPECT_EQ(rank.center(), start);
    });
}

// Without gradients the center and the workers only pull each other: whatever the order and the bits, their sum stays,
// and they end up at one place.
TEST(AsynchronousEasgd, PullsToOnePlaceInAnyOrderAndBits) {
  for (const Bits bits : kAllBits) {
    std::mutex mutex;
    std::vector<double> before, after;
    double apart = 0;
    const auto add = [&](std::vector<double>& sum, const Weights& w) {
      const std::lock_guard lock(mutex);
      sum.resize(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) sum[i] += w[i];
    };
    run_ranks(4, [&](Communicator& comm) {
      Rank rank(asynchronous(0.2, 1, bits), comm, 0);
      if (comm.rank() == 0) add(before, rank.center());
      start_at(rank.p, comm.rank() + 20);  // workers elsewhere than the center
      add(before, weights_of(rank.p));
      for (int s = 0; s < 100; ++s) {
        rank.step(s);
        comm.barrier();  // in any order, but nobody is done before others begin
      }
      rank.player->drain(rank.sink);
      const Weights center = rank.center(), mine = weights_of(rank.p);
      if (comm.rank() == 0) add(after, center);
      add(after, mine);
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < mine.size(); ++i) apart = std::max(apart, std::abs(double{mine[i]} - center[i]));
    });
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-3) << "bits " << int(bits);
    // One bit moves a column by its mean; two bits read what is below a third of the range as 0, and without gradients
    // nothing ever makes that larger.
    const double bound = bits == Bits::two ? 4 : bits == Bits::one ? 0.5 : 1e-3;
    EXPECT_LT(apart, bound) << "bits " << int(bits);
  }
}

TEST(AsynchronousEasgd, SaveAndLoadIsNoBreak) {
  for (const std::int64_t period : {1, 3}) {
    Weights through, through_center;
    run_ranks(1, [&](Communicator& comm) {
      Rank rank(asynchronous(0.3, period), comm);
      rank.steps(0, 5);
      rank.player->drain(rank.sink);
      rank.steps(5, 10);
      rank.player->drain(rank.sink);
      through = weights_of(rank.p), through_center = rank.center();
    });
    run_ranks(1, [&](Communicator& comm) {
      MemoryArchive file;
      Weights model;
      {
        Rank rank(asynchronous(0.3, period), comm);
        rank.steps(0, 5);
        rank.player->drain(rank.sink);
        model = rank.save(file);
      }
      Rank rank(asynchronous(0.3, period), comm);
      rank.resume(file, model);
      rank.steps(5, 10);
      rank.player->drain(rank.sink);
      EXPECT_EQ(weights_of(rank.p), through);
      EXPECT_EQ(rank.center(), through_center);
    });
  }
}

// A checkpoint also holds the weights of each worker. A rank that resumes as a server must not take them for the
// center.
TEST(AsynchronousEasgd, AWorkerThatBecomesAServerServesTheCenter) {
  run_ranks(3, [&](Communicator& comm) {
    MemoryArchive file;
    Weights center;
    {
      Rank rank(asynchronous(0.3), comm);
      rank.steps(0, 5);
      rank.player->drain(rank.sink);
      center = rank.save(file);
      EXPECT_NE(weights_of(rank.p), center);
    }
    Rank rank(asynchronous(0.3, 1, Bits::full, 1), comm);
    rank.resume(file, center);
    rank.player->drain(rank.sink);
    rank.player->end_epoch(rank.sink);
    EXPECT_EQ(rank.center(), center);
  });
}

// Every number once, whoever is held up: rank 0 stops with its first unit until the others have had all the rest.
TEST(AsynchronousEasgd, AHeldRankKeepsNobody) {
  constexpr int ranks = 3, units = 60;
  std::promise<void> first_taken, others_done;
  const auto begun = first_taken.get_future().share(), released = others_done.get_future().share();
  std::atomic<int> left = ranks - 1, handed_out = 0;
  std::mutex mutex;
  std::set<std::int64_t> numbers;
  run_ranks(ranks, [&](Communicator& comm) {
    Rank rank(asynchronous(0.2), comm);
    WorkQueue* queue = rank.player->work_queue();
    ASSERT_NE(queue, nullptr);
    for (int range = 0; range < 2; ++range) {
      queue->start_range();
      int step = 0;
      if (range == 0 && comm.rank() > 0) begun.wait();
      for (std::int64_t unit = queue->next(); unit < units; unit = queue->next()) {
        {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(numbers.insert(range * units + unit).second) << unit;
        }
        ++handed_out;
        if (range == 0 && comm.rank() == 0 && step == 0) {
          first_taken.set_value();
          released.wait();
          EXPECT_EQ(handed_out, units) << "this one and all that others have worked on";
        }
        rank.step(step++);
      }
      if (range == 0 && comm.rank() > 0 && --left == 0) others_done.set_value();
      rank.player->drain(rank.sink);
    }
  });
  EXPECT_EQ(numbers.size(), 2U * units);
}

// Ranks that had no step know no evaluations.
TEST(AsynchronousEasgd, MetricsOfAllAreAddedUp) {
  for (const int ranks : {1, 3})
    run_ranks(ranks, [&](Communicator& comm) {
      Rank rank(asynchronous(0.2), comm);
      if (comm.rank() != 1) rank.steps(0, 2 + comm.rank());
      StepMetrics mine, all;
      for (int r = 0; r < ranks; ++r)
        for (int s = 0; r != 1 && s < 2 + r; ++s) (r == comm.rank() ? mine : all) += metrics(r, s);
      rank.player->drain(rank.sink);
      const StepMetrics others = rank.player->metrics_of_others_and_reset();
      EXPECT_EQ(others.samples, all.samples);
      EXPECT_EQ(others.columns, all.columns);
      EXPECT_NEAR(others.criterion, all.criterion, 1e-12);
      ASSERT_EQ(others.evaluations.size() > 0, all.samples > 0);
      for (std::size_t i = 0; i < all.evaluations.size(); ++i)
        EXPECT_NEAR(others.evaluations[i].sum, all.evaluations[i].sum, 1e-12);
      rank.player->drain(rank.sink);
      EXPECT_EQ(rank.player->metrics_of_others_and_reset().samples, 0);
    });
}

// Both directions, and twice the center for all: before and after the last exchange of the epoch.
TEST(AsynchronousEasgd, CountsTheBytesItSends) {
  constexpr int kRanks = 3, kSteps = 4;
  for (const int servers : {0, 1})
    for (const Bits bits : {Bits::full, Bits::four}) {
      std::atomic<std::int64_t> bytes{0}, values{0};
      run_ranks(kRanks, [&](Communicator& comm) {
        Rank rank(asynchronous(0.2, 1, bits, servers), comm);
        if (comm.rank() < kRanks - servers) rank.steps(0, kSteps);
        rank.player->drain(rank.sink);
        rank.player->end_epoch(rank.sink);
        const ExchangeStats sent = exchange_stats_and_reset(rank.player->method());
        bytes += sent.bytes_sent, values += sent.values_sent;
      });
      const Parameters p = parameters_of(kShapes, 3);
      const auto codec = make_codec(asynchronous(0.2, 1, bits).bits.codec());
      std::int64_t n = 0, message = 0;
      for (const ServerShardPlan& plan : plan_shards(p, std::vector<int>(servers > 0 ? servers : kRanks), false)) {
        n += static_cast<std::int64_t>(plan.values);
        message += static_cast<std::int64_t>(elastic_bytes(plan, *codec));
      }
      const std::int64_t copies = 2 * kSteps * (kRanks - 1);  // two workers for each shard, in either case
      EXPECT_EQ(values, (copies + 2 * (kRanks - 1)) * n) << servers;
      EXPECT_EQ(bytes, copies * message + 2 * (kRanks - 1) * 4 * n) << servers;
    }
}

TEST(AsynchronousEasgd, WorkersAndServersAreRanksOfTheirOwn) {
  run_ranks(3, [&](Communicator& comm) {
    const auto player = std::make_unique<Player>(asynchronous(-1, 10, Bits::full, 1).make({comm}), comm);
    const auto share = player->method().data.share;
    EXPECT_EQ(share.ranks, 2);
    EXPECT_EQ(share.rank, comm.rank() < 2 ? comm.rank() : -1);
    EXPECT_NE(player->describe().find("moving rate 0.45"), std::string::npos) << player->describe();
    EXPECT_THROW(asynchronous(-1, 10, Bits::full, 3).make({comm}), ConfigError);
  });
}

}  // namespace
}  // namespace tutti::elastic_server_test
