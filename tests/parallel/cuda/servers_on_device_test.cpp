// SPDX-License-Identifier: Apache-2.0
// Linked with on_device.cpp: workers of servers whose weights lie on a GPU leave the same bits as those of the host,
// and what becomes known together reaches the optimizer together.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "../../support/run_ranks.h"
#include "../training.h"
#include "optim/optimizer_options.h"
#include "parallel/options.h"

namespace tutti::servers_on_device_test {
namespace {

using namespace training;
using Bits = ExchangeBits::Kind;
using Policy = ServerOptions::Policy;
using Weights = std::vector<std::vector<float>>;  // by rank

constexpr Bits kAllBits[] = {Bits::full, Bits::half, Bits::brain, Bits::eight, Bits::four, Bits::two, Bits::one};
const Shapes kShapes{{33, 7}, {1, 50}, {257, 4}, {1, 1}};

// The optimizer of a run, as the step loop feeds it; counts how it is told of chunks.
class OptimizerSink : public training::Sink {
 public:
  explicit OptimizerSink(Optimizer& optimizer) : optimizer_(optimizer) {}
  void next_step() { begun_ = false; }
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    ++single;
    begin(columns);
    optimizer_.update(chunk);
  }
  void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) override {
    together.push_back(chunks.size());
    begin(columns);
    optimizer_.update_all(chunks);
  }
  StepRates rates() const override { return {0.125, 0.9375}; }
  std::size_t single = 0;
  std::vector<std::size_t> together;

 private:
  void begin(std::int64_t columns) {
    if (!std::exchange(begun_, true))
      optimizer_.begin_step({rates().learning_rate, rates().momentum_per_sample, columns});
  }
  Optimizer& optimizer_;
  bool begun_ = false;
};

// A rank whose chunks are announced all at once, as those of a captured graph are.
class Rank {
 public:
  Rank(ParallelTrainOptions o, Communicator& comm)
      : comm_(comm), p_(parameters_of(kShapes, 3)), optimizer_(make_optimizer(OptimizerOptions())), sink_(*optimizer_) {
    if (!is_host(p_.weights.memory())) o.put_on_device();
    p_.sparse_rows.resize(p_.slices.size());
    write(gradient(p_, 77, 0), p_.weights);
    optimizer_->bind(p_);
    player_ = play(o, comm);
    player_->bind(*optimizer_, [] { return make_optimizer(OptimizerOptions()); });
    player_->start(p_);
    player_->begin_epoch(0);
    for (std::size_t i = 0; i < p_.chunks.size(); ++i) chunks_.push_back(i);
  }
  bool works() const { return player_->method().data.share.rank >= 0; }
  void step(int t) {
    sink_.next_step();
    player_->begin_step(10, sink_);
    write(gradient(p_, comm_.rank(), t), p_.gradients);
    player_->chunks_ready(chunks_);
    StepMetrics metrics;
    metrics.samples = 10;
    player_->finish_gradients(metrics);
    player_->exchange_weights(10 * player_->method().data.share.ranks);
  }
  void drain() {
    sink_.next_step();
    player_->drain(sink_);
  }
  std::vector<float> weights() {
    p_.weights.memory().synchronize();
    return {p_.weights.data(), p_.weights.data() + p_.size()};
  }
  const OptimizerSink& sink() const { return sink_; }
  std::size_t chunks() const { return chunks_.size(); }

 private:
  static void write(const std::vector<float>& values, FloatBuffer& to) {
    to.memory().synchronize();
    std::copy(values.begin(), values.end(), to.data());
  }
  Communicator& comm_;
  Parameters p_;
  std::unique_ptr<Optimizer> optimizer_;
  OptimizerSink sink_;
  std::unique_ptr<Player> player_;
  std::vector<std::size_t> chunks_;
};

// Each rank's weights after every step, and in the end. Ranks that take turns meet servers in a known order.
Weights train(int ranks, const ParallelTrainOptions& o, bool in_turns, const FloatMemory& memory) {
  const FloatMemory* const device = std::exchange(parameter_memory, &memory);
  Weights all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Communicator& comm) {
    std::vector<float>& mine = all[static_cast<std::size_t>(comm.rank())];
    Rank rank(o, comm);
    const auto note = [&] {
      const auto now = rank.weights();
      mine.insert(mine.end(), now.begin(), now.end());
    };
    for (int t = 0; t < 4; ++t)  // nothing is left that all push at once in the end
      for (int turn = 0; turn < (in_turns ? ranks : 1); ++turn) {
        if (rank.works() && (!in_turns || turn == comm.rank())) rank.step(t), note();
        if (in_turns) comm.barrier();
      }
    rank.drain();
    note();
  });
  parameter_memory = device;
  return all;
}

void expect_the_bits_of_the_host(int ranks, const ParallelTrainOptions& o, bool in_turns) {
  ASSERT_FALSE(is_host(*parameter_memory));
  const Weights device = train(ranks, o, in_turns, *parameter_memory), host = train(ranks, o, in_turns, host_memory());
  for (std::size_t r = 0; r < host.size(); ++r) EXPECT_TRUE(reference::same(device[r], host[r])) << "rank " << r;
}

ParallelTrainOptions free_center(Bits bits, std::int64_t servers = 0) {
  ParallelTrainOptions o;
  o.method = EasgdOptions();
  o.as<EasgdOptions>().policy = EasgdOptions::Policy::async;
  o.as<EasgdOptions>().moving_rate = 0.3, o.as<EasgdOptions>().period = 2, o.as<EasgdOptions>().bits.kind = bits,
  o.as<EasgdOptions>().servers = servers;
  return o;
}

ParallelTrainOptions servers(Policy policy, ServerOptions::Push push, Bits bits, std::int64_t period = 20) {
  ParallelTrainOptions o;
  o.method = ServerOptions();
  o.as<ServerOptions>().policy = policy, o.as<ServerOptions>().push = push, o.as<ServerOptions>().bits.kind = bits,
  o.as<ServerOptions>().sync_period = period;
  o.as<ServerOptions>().every_minibatch = period == 0;
  return o;
}

TEST(WorkersOnADevice, MeetTheCenterAsThoseOfTheHost) {
  for (const Bits bits : kAllBits)
    for (const std::int64_t servers : {0, 1}) {
      SCOPED_TRACE(testing::Message() << "bits " << static_cast<int>(bits) << ", " << servers << " servers");
      expect_the_bits_of_the_host(2 + static_cast<int>(servers), free_center(bits, servers), true);
    }
}

TEST(WorkersOnADevice, PushAsThoseOfTheHost) {
  using Push = ServerOptions::Push;
  for (const Bits bits : {Bits::full, Bits::half, Bits::eight, Bits::one})
    for (const Push push : {Push::deltas, Push::gradients})
      for (const std::int64_t period : {0, 20}) {
        if (period == 0 && push == Push::deltas) continue;
        SCOPED_TRACE(testing::Message() << "bits " << static_cast<int>(bits) << ", " << static_cast<int>(push)
                                        << " every " << period);
        ParallelTrainOptions o = servers(Policy::async, push, bits, period);
        expect_the_bits_of_the_host(2, o, true);
        o.as<ServerOptions>().servers = 1, o.as<ServerOptions>().fetch_period = 30;
        if (period > 0) expect_the_bits_of_the_host(3, o, true);
      }
}

// Responses that are taken one push late: what is encoded leaves in the course of the next minibatch.
TEST(WorkersOnADevice, PushInAPipelineAsThoseOfTheHost) {
  using Push = ServerOptions::Push;
  for (const Bits bits : {Bits::full, Bits::brain, Bits::one})
    for (const Push push : {Push::deltas, Push::gradients}) {
      SCOPED_TRACE(testing::Message() << "bits " << static_cast<int>(bits) << ", " << static_cast<int>(push));
      ParallelTrainOptions o = servers(Policy::sync, push, bits, 10);
      o.as<ServerOptions>().pipeline = true;
      expect_the_bits_of_the_host(3, o, false);
    }
}

// Every step's chunks are one group of messages.
void expect_together(const ParallelTrainOptions& o, int ranks, const char* what) {
  run_ranks(ranks, [&](Communicator& comm) {
    Rank rank(o, comm);
    for (int t = 0; t < 2; ++t) rank.step(t);
    rank.drain();
    EXPECT_EQ(rank.sink().single, 0u) << what;
    EXPECT_EQ(rank.sink().together, std::vector<std::size_t>(2, rank.chunks())) << what;
  });
}

TEST(ChunksOnADevice, AreUpdatedTogether) {
  ParallelTrainOptions gradients;
  gradients.method = DataParallelOptions();
  expect_together(gradients, 2, "gradients");
  ParallelTrainOptions late = gradients;
  late.as<DataParallelOptions>().buffered_async = true;
  expect_together(late, 2, "gradients one minibatch late");
  ParallelTrainOptions by_library;
  by_library.method = AsaOptions();
  by_library.as<AsaOptions>().all_reduce = AsaOptions::AllReduce::library;
  expect_together(by_library, 2, "the library's sums");
  expect_together(free_center(Bits::full), 2, "a free center");
  expect_together(servers(Policy::async, ServerOptions::Push::deltas, Bits::full), 2, "deltas");

  const auto within = [&](ParallelTrainOptions o) {
    o.groups = {GroupOptions::Kind::number, 2};
    o.inside_groups.level = {gradients};
    return o;
  };
  expect_together(within(gradients), 4, "gradients of groups");
  expect_together(within(free_center(Bits::full)), 4, "groups at a free center");
  ParallelTrainOptions averaging;
  averaging.method = ModelAveragingOptions();
  expect_together(within(averaging), 4, "groups that average");
}

}  // namespace
}  // namespace tutti::servers_on_device_test
