// SPDX-License-Identifier: Apache-2.0
// Started by meson under mpiexec: every rank runs every test. With "abort" as its argument, rank 1 aborts the run.
#include <gtest/gtest.h>

#include <cstring>

#include "comm/session.h"
#include "communicator_checks.h"

namespace tutti {
namespace {

MpiSession* session = nullptr;

TEST(Mpi, KeepsTheContract) { checks::everything(session->world()); }

TEST(Mpi, LongTransfersTravelInParts) {
  if (!find_launcher().present) GTEST_SKIP() << "needs mpiexec";
  checks::everything(*make_world_communicator(1000));
}

TEST(Mpi, AMessageOfAnotherLengthIsAnError) {
  Communicator& comm = session->world();
  if (comm.size() < 2) GTEST_SKIP() << "needs two ranks";
  std::vector<std::byte> bytes(16);
  if (comm.rank() == 0) comm.send(1, 5, {bytes.data(), 8})->wait();
  if (comm.rank() == 1) {
    EXPECT_THROW(comm.receive(0, 5, bytes)->wait(), Error);
  }
  comm.barrier();
}

TEST(Mpi, LauncherIsSeen) { EXPECT_EQ(find_launcher().ranks, session->world().size()); }

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  tutti::MpiSession mpi(&argc, &argv);
  tutti::session = &mpi;
  if (argc > 1 && std::strcmp(argv[1], "abort") == 0) {
    if (mpi.world().rank() == mpi.world().size() - 1) mpi.fail("the disk is full", 3);
    std::byte never{};
    mpi.world().receive(mpi.world().size() - 1, 0, {&never, 1})->wait();
  }
  return RUN_ALL_TESTS();
}
