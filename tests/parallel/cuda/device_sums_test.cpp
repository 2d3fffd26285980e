// SPDX-License-Identifier: Apache-2.0
// Ranks with a GPU each let the library of the GPUs sum, over the emulators of CUDA and NCCL: the sums are those of the
// host. Where two ranks share a GPU, or the library is not there, shards are exchanged, or the user is told.
#include "comm/device_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

#include "../../support/run_ranks.h"
#include "../training.h"
#include "parallel/options.h"
#include "tutti/backend.h"
#include "tutti/error.h"

namespace tutti::device_sums_test {
namespace {

using namespace training;
using testing::HasSubstr;
using testing::Not;

using Devices = std::string (*)(int rank);
std::string gpu_of_its_own(int rank) { return "cuda:" + std::to_string(rank); }
std::string gpu_of_all(int) { return "cuda:0"; }
std::string cpu(int) { return "cpu"; }

ParallelTrainOptions data_parallel(bool buffered = false) {
  ParallelTrainOptions o;
  o.method = DataParallelOptions();
  o.as<DataParallelOptions>().buffered_async = buffered;
  return o;
}
ParallelTrainOptions asa(AsaOptions::AllReduce all_reduce) {
  ParallelTrainOptions o;
  o.method = AsaOptions();
  o.as<AsaOptions>().all_reduce = all_reduce;
  return o;
}
ParallelTrainOptions by(Transport transport, ParallelTrainOptions o = data_parallel()) {
  o.transport = transport;
  return o;
}

// A rank whose network writes gradients in the queue of its device, behind the step before.
class Rank {
 public:
  Rank(const std::string& device, ParallelTrainOptions o, Communicator& comm)
      : comm_(comm), backend_(make_backend(device)), p_(parameters_of({{33, 7}, {64, 40}, {5, 1}}, 9)) {
    const std::size_t n = p_.size();
    p_.weights = FloatBuffer(n, backend_->shared_memory()), p_.gradients = FloatBuffer(n, backend_->shared_memory());
    if (!backend_->is_host()) o.put_on_device();
    player_ = play(o, comm);
    player_->start(p_);
  }

  Player& player() { return *player_; }
  Collector& sink() { return sink_; }
  void step(std::vector<float> gradient, StepMetrics metrics) {
    player_->begin_step(10, sink_);
    float* const workspace = local_.reserve(*backend_, gradient.size());
    backend_->upload(gradient.data(), workspace, gradient.size());
    Layout all;
    all.rank = 1, all.size[0] = gradient.size(), all.stride[0][0] = all.stride[3][0] = 1;
    backend_->copy(all, workspace, p_.gradients.data(), false);
    if (!player_->follows_device()) backend_->synchronize();
    for (std::size_t i = 0; i < p_.chunks.size(); ++i) player_->chunk_ready(i);
    player_->finish_gradients(metrics);
  }
  // Whole numbers, so that the order of a sum does not matter.
  void step(int t) { step(gradient(p_, comm_.rank(), t, true), metrics(comm_.rank(), t)); }
  std::size_t size() const { return p_.size(); }

  // Weights that each rank has moved alone.
  void step_alone(int t) {
    player_->begin_step(10, sink_);
    for (std::size_t i = 0; i < p_.chunks.size(); ++i) player_->chunk_ready(i);
    StepMetrics mine;
    mine.samples = 10;
    player_->finish_gradients(mine);
    const auto moves = gradient(p_, comm_.rank(), t, true);
    backend_->synchronize();
    for (std::size_t i = 0; i < moves.size(); ++i) p_.weights.data()[i] += moves[i];
    player_->exchange_weights(10 * comm_.size());
  }
  std::vector<float> weights() {
    backend_->synchronize();
    return {p_.weights.data(), p_.weights.data() + p_.size()};
  }

 private:
  Communicator& comm_;
  std::unique_ptr<Backend> backend_;
  Parameters p_;
  DeviceBuffer local_;
  Collector sink_{p_};
  std::unique_ptr<Player> player_;
};

struct Outcome {
  std::vector<std::vector<std::vector<float>>> sums;  // by rank and update
  std::string text;                                   // of rank 0
  bool follows = true;                                // all of them the device
};

Outcome train(int ranks, Devices device, const ParallelTrainOptions& o) {
  Outcome outcome;
  outcome.sums.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run_ranks(ranks, [&](Communicator& comm) {
    Rank rank(device(comm.rank()), o, comm);
    rank.player().begin_epoch(0);
    for (int t = 0; t < 3; ++t) rank.step(t);
    rank.player().drain(rank.sink());
    const std::lock_guard lock(mutex);
    outcome.sums[static_cast<std::size_t>(comm.rank())] = rank.sink().sums;
    if (comm.rank() == 0) outcome.text = rank.player().describe();
    outcome.follows = outcome.follows && rank.player().follows_device();
  });
  return outcome;
}

TEST(DeviceSums, AreThoseOfTheHost) {
  using Sums = AsaOptions::AllReduce;
  for (const int ranks : {2, 3, 4})
    for (const auto& o :
         {data_parallel(), data_parallel(true), by(Transport::nccl), asa(Sums::sharded), asa(Sums::library)}) {
      const Outcome device = train(ranks, gpu_of_its_own, o);
      EXPECT_THAT(device.text, HasSubstr("summed by NCCL 1.2.3"));
      EXPECT_TRUE(device.follows) << device.text;
      ParallelTrainOptions on_host = o;
      on_host.transport = Transport::automatic;
      EXPECT_EQ(device.sums, train(ranks, cpu, on_host).sums) << ranks << " ranks, " << device.text;
    }
}

TEST(DeviceSums, OfGroupsAreThoseOfTheHost) {
  ParallelTrainOptions o = data_parallel();
  o.groups = {GroupOptions::Kind::number, 2};
  const Outcome device = train(4, gpu_of_its_own, o);
  EXPECT_THAT(device.text, HasSubstr("between them DataParallelSGD on 2 ranks, gradients in 32 bits; within them "
                                     "DataParallelSGD on 2 ranks, gradients in 32 bits summed by NCCL"));
  EXPECT_TRUE(device.follows);
  EXPECT_EQ(device.sums, train(4, cpu, o).sums);
  EXPECT_THROW(train(4, gpu_of_its_own, by(Transport::nccl, o)), ConfigError) << "one level only";
}

// Groups whose ranks share a GPU exchange with each other by the library.
TEST(DeviceSums, BetweenGroupsAreThoseOfTheHost) {
  const auto gpu_of_a_group = [](int rank) { return "cuda:" + std::to_string(rank / 2); };
  for (const bool late : {false, true}) {
    ParallelTrainOptions o = data_parallel(late);
    o.groups = {GroupOptions::Kind::number, 2};
    const Outcome device = train(4, gpu_of_a_group, o);
    EXPECT_THAT(device.text, HasSubstr("between them DataParallelSGD on 2 ranks, gradients in 32 bits summed by NCCL"));
    EXPECT_THAT(device.text, HasSubstr("(not by NCCL: ranks 0 and 1 share a GPU)"));
    EXPECT_EQ(device.sums, train(4, cpu, o).sums);
  }
}

ParallelTrainOptions averaging() {
  ParallelTrainOptions o;
  o.method = ModelAveragingOptions();
  return o;
}
ParallelTrainOptions blocks(OuterOptimizer outer) {
  ParallelTrainOptions o;
  o.method = BlockMomentumOptions();
  BlockMomentumOptions b;
  b.block.per_worker = 10;
  b.per_sync = b.outer.momentum = 0.5, b.learning_rate = b.outer.rate = 0.5;
  b.outer.kind = outer;
  o.method = b;
  return o;
}
ParallelTrainOptions elastic() {
  ParallelTrainOptions o;
  o.method = EasgdOptions();
  o.as<EasgdOptions>().moving_rate = 0.25, o.as<EasgdOptions>().period = 1;
  return o;
}
ParallelTrainOptions asa_of_weights(AsaOptions::AllReduce all_reduce) {
  ParallelTrainOptions o = asa(all_reduce);
  o.as<AsaOptions>().what = AsaOptions::What::weights;
  return o;
}

using Weights = std::vector<std::vector<float>>;  // by rank
Weights exchange_weights(int ranks, Devices device, const ParallelTrainOptions& o, std::string& text) {
  Weights weights(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Communicator& comm) {
    Rank rank(device(comm.rank()), o, comm);
    rank.player().begin_epoch(0);
    for (int t = 0; t < 3; ++t) rank.step_alone(t);
    rank.player().drain(rank.sink());
    weights[static_cast<std::size_t>(comm.rank())] = rank.weights();
    if (comm.rank() == 0) text = rank.player().describe();
  });
  return weights;
}

// All sums are exact: ranks and rates are powers of two.
TEST(DeviceSums, OfWeightsAreThoseOfTheHost) {
  using Sums = AsaOptions::AllReduce;
  for (const int ranks : {2, 4})
    for (const auto& o : {averaging(), blocks(OuterOptimizer::block_momentum), blocks(OuterOptimizer::nesterov),
                          elastic(), asa_of_weights(Sums::sharded), asa_of_weights(Sums::library)}) {
      std::string on_device, on_host;
      const Weights device = exchange_weights(ranks, gpu_of_its_own, o, on_device);
      EXPECT_THAT(on_device, HasSubstr("summed by NCCL"));
      EXPECT_EQ(device, exchange_weights(ranks, cpu, o, on_host)) << on_device;
    }
}

TEST(DeviceSums, RanksThatShareAGpuExchangeShards) {
  for (const auto sums : {AsaOptions::AllReduce::sharded, AsaOptions::AllReduce::library}) {
    const Outcome device = train(2, gpu_of_all, asa(sums));
    EXPECT_THAT(device.text, HasSubstr("(not by NCCL: ranks 0 and 1 share a GPU)"));
    EXPECT_EQ(device.sums, train(2, cpu, asa(sums)).sums);
  }
  EXPECT_THAT(train(2, gpu_of_its_own, by(Transport::messages)).text, Not(HasSubstr("NCCL")));
}

TEST(DeviceSums, WithoutTheLibraryShardsAreExchanged) {
  const std::string library = std::getenv("TUTTI_NCCL_LIBRARY");
  for (const char* other : {"", "/nowhere/libnccl.so"}) {
    setenv("TUTTI_NCCL_LIBRARY", other, 1);
    const Outcome device = train(2, gpu_of_its_own, data_parallel());
    EXPECT_THAT(device.text, HasSubstr("(not by NCCL: rank 0 has no NCCL ("));
    EXPECT_EQ(device.sums, train(2, cpu, data_parallel()).sums);
    EXPECT_THROW(train(2, gpu_of_its_own, by(Transport::nccl)), ConfigError);
  }
  setenv("TUTTI_NCCL_LIBRARY", library.c_str(), 1);
}

TEST(DeviceSums, AreAskedForInVain) {
  EXPECT_THROW(train(2, gpu_of_all, by(Transport::nccl)), ConfigError);
  EXPECT_THROW(train(2, cpu, by(Transport::nccl)), ConfigError);
  EXPECT_THROW(train(2, gpu_of_its_own, by(Transport::shared_memory)), ConfigError);
}

// What float16 has left out of the first epoch's sums is in those of the second: with numbers of a few binary places
// everything is exact.
TEST(DeviceSums, DeliverWhatFewerBitsHaveLeftOut) {
  ParallelTrainOptions o = by(Transport::nccl);
  o.as<DataParallelOptions>().gradient_bits.values = {16, 32};
  o.as<DataParallelOptions>().sixteen_bits = NumberFormat::half;
  run_ranks(3, [&](Communicator& comm) {
    Rank rank(gpu_of_its_own(comm.rank()), o, comm);
    const std::vector<float> values(rank.size(), 1.0f + 0.0001220703125f * static_cast<float>(comm.rank() + 1));
    for (int epoch = 0; epoch < 2; ++epoch) {
      rank.player().begin_epoch(epoch);
      rank.step(values, metrics(comm.rank(), epoch));
    }
    const auto& sums = rank.sink().sums;
    ASSERT_EQ(sums.size(), 2u);
    EXPECT_EQ(sums[0][0], 3.0f) << "the encoding has lost something";
    EXPECT_EQ(sums[0][0] + sums[1][0], 2 * (3.0f + 6 * 0.0001220703125f));
  });
}

// The others wait for a rank that never comes to the sum, until it goes.
TEST(DeviceSums, ARankThatFailsLeavesNobodyWaiting) {
  const auto train = [](Communicator& comm) {
    const auto backend = make_backend(gpu_of_its_own(comm.rank()));
    FloatBuffer values(100, backend->shared_memory());
    std::string why;
    const auto sums = make_device_sums(comm, why);
    ASSERT_TRUE(sums) << why;
    if (comm.rank() == 1) throw Error("rank 1 has had enough");
    const DeviceSums::Run all{values.data(), values.data(), values.size()};
    sums->follow(sums->sum({&all, 1}));
    backend->synchronize();
    comm.barrier();
    ADD_FAILURE() << "rank " << comm.rank() << " has met a rank that has failed";
  };
  try {
    run_ranks(3, train);
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "rank 1 has had enough");
  }
}

}  // namespace
}  // namespace tutti::device_sums_test
