// SPDX-License-Identifier: Apache-2.0
// What the writer of checkpoints keeps when a job fails.
#include "train/background_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "tutti/error.h"

namespace tutti::background_writer_test {
namespace {

TEST(BackgroundWriter, KeepsWhatComesFirstUntilItSucceeds) {
  BackgroundWriter writer;
  std::atomic<bool> full = true;
  std::atomic<int> best = 0, written = 0;
  const auto first = [&] {
    if (full) throw Error("no space");
    ++best;
  };
  writer.submit({"m.1", first, [&] { ++written; }});
  writer.wait();
  EXPECT_EQ(writer.failures_in_a_row(), 1);
  EXPECT_EQ(written, 0);
  full = false;
  writer.submit({"m.2", nullptr, [&] { ++written; }});
  writer.wait();
  EXPECT_EQ(writer.failures_in_a_row(), 0);
  EXPECT_EQ(best, 1) << "of the job before";
  EXPECT_EQ(written, 1);
  writer.submit({"m.3", nullptr, [&] { ++written; }});
  EXPECT_EQ(writer.finish(3), "");
  EXPECT_EQ(best, 1) << "once";
  EXPECT_EQ(written, 2);
}

TEST(BackgroundWriter, ANewBestModelReplacesOneThatFailed) {
  BackgroundWriter writer;
  std::atomic<int> older = 0, newer = 0;
  writer.submit({"m.1", [&] { ++older, throw Error("no space"); }, [] {}});
  writer.submit({"m.2", [&] { ++newer; }, [] {}});
  EXPECT_EQ(writer.finish(1), "");
  EXPECT_EQ(older, 1);
  EXPECT_EQ(newer, 1);
}

// Its temporary file goes with it.
TEST(BackgroundWriter, DropsWhatItCouldNotWriteWhenItIsClosed) {
  BackgroundWriter writer;
  const auto contents = std::make_shared<int>();
  writer.submit({"m.1", nullptr, [contents] { throw Error("no space"); }});
  writer.wait();
  EXPECT_EQ(contents.use_count(), 2);
  writer.close();
  EXPECT_EQ(contents.use_count(), 1);
}

TEST(BackgroundWriter, TheLastJobIsTriedAgain) {
  BackgroundWriter writer;
  std::atomic<int> attempts = 0;
  writer.submit({"m", nullptr, [&] {
                   if (++attempts < 2) throw Error("no space");
                 }});
  EXPECT_EQ(writer.finish(1), "no space") << "one attempt";
  EXPECT_EQ(writer.finish(2), "");
  EXPECT_EQ(attempts, 2);
}

TEST(BackgroundWriter, SaysWhetherItIsBusyAfterTheWaitThatItIsGiven) {
  BackgroundWriter writer;
  std::atomic<bool> go_on = false;
  writer.submit({"m", nullptr, [&] {
                   while (!go_on) std::this_thread::yield();
                 }});
  EXPECT_TRUE(writer.busy(std::chrono::milliseconds(0)));
  EXPECT_TRUE(writer.busy(std::chrono::milliseconds(20)));
  go_on = true;
  writer.wait();
  EXPECT_FALSE(writer.busy(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace tutti::background_writer_test
