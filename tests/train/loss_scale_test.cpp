// SPDX-License-Identifier: Apache-2.0
// The scale of float16: which texts name one, and how it is sought.
#include "train/loss_scale.h"

#include <gtest/gtest.h>

#include "../strategy/training.h"
#include "../support/run_ranks.h"
#include "optim/optimizer_options.h"
#include "strategy/make_strategy.h"
#include "support.h"
#include "train/container.h"
#include "train/state_copy.h"

namespace tutti::loss_scale_test {
namespace {

TEST(LossScale, PowersOfTwoAndAuto) {
  for (const char* text : {"1", "2", "256", "65536", "16777216", "1024.0"}) {
    const auto scale = LossScale::parse(text);
    ASSERT_TRUE(scale) << text;
    EXPECT_EQ(scale->value(), std::stod(text));
    EXPECT_FALSE(scale->seeks());
  }
  for (const char* text : {"", "0", "-2", "0.5", "3", "1000", "33554432", "inf", "nan", "2x", "Auto?"})
    EXPECT_FALSE(LossScale::parse(text)) << text;
  ASSERT_TRUE(LossScale::parse("auto"));
  EXPECT_EQ(LossScale::parse("auto")->value(), 65536);
  EXPECT_TRUE(LossScale::parse("auto")->seeks());
  EXPECT_EQ(LossScale().value(), 1);
}

TEST(LossScale, HalvesAndDoubles) {
  LossScale scale = *LossScale::parse("auto");
  EXPECT_TRUE(scale.leaves_out(false));
  EXPECT_TRUE(scale.leaves_out(false));
  EXPECT_EQ(scale.value(), 16384);
  for (std::int64_t i = 1; i < LossScale::steps_until_doubled; ++i) EXPECT_FALSE(scale.leaves_out(true));
  EXPECT_EQ(scale.value(), 16384);
  EXPECT_FALSE(scale.leaves_out(true));
  EXPECT_EQ(scale.value(), 32768);
  for (std::int64_t i = 0; i < 20 * LossScale::steps_until_doubled; ++i) EXPECT_FALSE(scale.leaves_out(true));
  EXPECT_EQ(scale.value(), LossScale::most);
  // Down to 1 and no further: from there on trouble is the model's own.
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(scale.leaves_out(false));
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.leaves_out(false));
}

TEST(LossScale, AFixedOneStays) {
  LossScale scale = *LossScale::parse("512");
  EXPECT_FALSE(scale.leaves_out(false));
  EXPECT_EQ(scale.value(), 512);
}

TEST(LossScale, ContinuesFromItsArchive) {
  LossScale whole = *LossScale::parse("auto");
  whole.leaves_out(false);
  for (int i = 0; i < 1500; ++i) whole.leaves_out(true);
  training::MemoryArchive archive;
  whole.archive(archive);
  archive.rewind_to_load();
  LossScale part = *LossScale::parse("auto");
  part.archive(archive);
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(part.leaves_out(true), whole.leaves_out(true));
    EXPECT_EQ(part.value(), whole.value());
  }
  EXPECT_EQ(part.value(), 65536);
  training::MemoryArchive older;  // of a run that had none
  older.rewind_to_load();
  part.archive(older);
  EXPECT_EQ(part.value(), 65536);
}

// Another one may be wanted by now, or none.
TEST(LossScale, AFixedOneTakesTheEntriesOfOneThatWasSought) {
  LossScale sought = *LossScale::parse("auto"), fixed = *LossScale::parse("512");
  testing::Directory directory;
  {
    ContainerWriter file(directory / "state", "checkpoint");
    SavingArchive saving(file, "");
    sought.archive(saving);
    file.finish();
    file.commit();
  }
  const ContainerReader file(directory / "state", "checkpoint");
  LoadingArchive loading(file, "");
  fixed.archive(loading);
  loading.finish();
  EXPECT_EQ(fixed.value(), 512);
}

TEST(LossScale, IsPutBackBehindATrial) {
  run_ranks(1, [](Communicator& world) {
    const testing::SmallModel model;
    Training t;
    t.network = std::make_unique<Network>(model.graph, NetworkOptions());
    t.optimizer = make_optimizer(OptimizerOptions());
    t.optimizer->bind(t.network->parameters());
    t.strategy = make_local_strategy(world);
    t.strategy->start(t.network->parameters());
    t.loss_scale = *LossScale::parse("auto");
    StateCopy before = copy_state(t);
    EXPECT_TRUE(t.loss_scale.leaves_out(false));
    restore_state(t, before);
    EXPECT_EQ(t.loss_scale.value(), 65536);
  });
}

}  // namespace
}  // namespace tutti::loss_scale_test
