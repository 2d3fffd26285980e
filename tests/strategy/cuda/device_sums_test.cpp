// SPDX-License-Identifier: Apache-2.0
// Gradients of ranks with a GPU each are summed in the queue of the device, over the stand-ins of CUDA and NCCL, and
// are those that the host sums. Where two ranks share a GPU, or the library is not there, the host does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

#include "../../support/run_ranks.h"
#include "../training.h"
#include "strategy/gradient_sums.h"
#include "tutti/backend.h"

namespace tutti {
namespace {

using namespace training;

struct Outcome {
  std::vector<std::vector<float>> sums;  // by rank and step
  int on_device = 0;                     // ranks that did not need the host
};

// Three steps. Gradients are whole numbers, so that the order of a sum does not matter; they are put into the queue of
// the device, behind the step before.
Outcome train(int ranks, std::string (*device)(int rank)) {
  Outcome outcome;
  outcome.sums.resize(static_cast<std::size_t>(3 * ranks));
  std::mutex mutex;
  run_ranks(ranks, [&](Communicator& comm) {
    const auto backend = make_backend(device(comm.rank()));
    Parameters p = parameters_of({{33, 7}, {64, 40}, {5, 1}});
    const std::size_t n = p.size();
    p.weights = FloatBuffer(n, backend->shared_memory()), p.gradients = FloatBuffer(n, backend->shared_memory());
    Layout all;
    all.rank = 1, all.size[0] = n, all.stride[0][0] = all.stride[3][0] = 1;
    DeviceBuffer local;
    LibrarySums strategy(comm);
    strategy.start(p);
    Collector sink(p);
    for (int t = 0; t < 3; ++t) {
      strategy.begin_step(10, sink);
      const auto values = gradient(p, comm.rank(), t, true);
      float* const room = local.room(*backend, n);
      backend->upload(values.data(), room, n);
      backend->copy(all, room, p.gradients.data(), false);
      if (!strategy.follows_device()) backend->finish();
      for (std::size_t i = 0; i < p.pieces.size(); ++i) strategy.piece_ready(i);
      Tally mine = tally(comm.rank(), t);
      strategy.finish_gradients(mine);
      EXPECT_EQ(mine.samples, 10 * comm.size() + comm.size() * (comm.size() - 1) / 2);
    }
    const std::lock_guard lock(mutex);
    for (std::size_t t = 0; t < 3; ++t) outcome.sums[3 * static_cast<std::size_t>(comm.rank()) + t] = sink.sums[t];
    outcome.on_device += strategy.follows_device();
  });
  return outcome;
}

std::string gpu_of_its_own(int rank) { return "cuda:" + std::to_string(rank); }
std::string gpu_of_all(int) { return "cuda:0"; }
std::string cpu(int) { return "cpu"; }

TEST(DeviceSums, AreThoseOfTheHost) {
  for (const int ranks : {2, 3, 4}) {
    const Outcome device = train(ranks, gpu_of_its_own), host = train(ranks, cpu);
    EXPECT_EQ(device.on_device, ranks);
    EXPECT_EQ(host.on_device, 0);
    EXPECT_EQ(device.sums, host.sums) << ranks << " ranks";
  }
}

TEST(DeviceSums, RanksThatShareAGpuMeetOnTheHost) {
  const Outcome device = train(2, gpu_of_all);
  EXPECT_EQ(device.on_device, 0);
  EXPECT_EQ(device.sums, train(2, cpu).sums);
}

TEST(DeviceSums, WithoutTheLibraryTheHostSums) {
  const std::string library = std::getenv("TUTTI_NCCL_LIBRARY");
  for (const char* other : {"", "/nowhere/libnccl.so"}) {
    setenv("TUTTI_NCCL_LIBRARY", other, 1);
    const Outcome device = train(2, gpu_of_its_own);
    EXPECT_EQ(device.on_device, 0);
    EXPECT_EQ(device.sums, train(2, cpu).sums);
  }
  setenv("TUTTI_NCCL_LIBRARY", library.c_str(), 1);
}

}  // namespace
}  // namespace tutti
