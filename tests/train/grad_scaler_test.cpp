// SPDX-License-Identifier: Apache-2.0
// The scale of float16: which texts name one, and how it is sought.
#include "train/grad_scaler.h"

#include <gtest/gtest.h>

#include "../parallel/training.h"
#include "../support/run_ranks.h"
#include "optim/optimizer_options.h"
#include "parallel/options.h"
#include "support.h"
#include "train/checkpointing.h"
#include "train/container.h"

namespace tutti::grad_scaler_test {
namespace {

TEST(GradScaler, PowersOfTwoAndAuto) {
  for (const char* text : {"1", "2", "256", "65536", "16777216", "1024.0"}) {
    const auto scale = GradScaler::parse(text);
    ASSERT_TRUE(scale) << text;
    EXPECT_EQ(scale->value(), std::stod(text));
    EXPECT_FALSE(scale->seeks());
  }
  for (const char* text : {"", "0", "-2", "0.5", "3", "1000", "33554432", "inf", "nan", "2x", "Auto?"})
    EXPECT_FALSE(GradScaler::parse(text)) << text;
  ASSERT_TRUE(GradScaler::parse("auto"));
  EXPECT_EQ(GradScaler::parse("auto")->value(), 65536);
  EXPECT_TRUE(GradScaler::parse("auto")->seeks());
  EXPECT_EQ(GradScaler().value(), 1);
}

TEST(GradScaler, HalvesAndDoubles) {
  GradScaler scale = *GradScaler::parse("auto");
  EXPECT_TRUE(scale.skips_step(false));
  EXPECT_TRUE(scale.skips_step(false));
  EXPECT_EQ(scale.value(), 16384);
  for (std::int64_t i = 1; i < GradScaler::steps_until_doubled; ++i) EXPECT_FALSE(scale.skips_step(true));
  EXPECT_EQ(scale.value(), 16384);
  EXPECT_FALSE(scale.skips_step(true));
  EXPECT_EQ(scale.value(), 32768);
  for (std::int64_t i = 0; i < 20 * GradScaler::steps_until_doubled; ++i) EXPECT_FALSE(scale.skips_step(true));
  EXPECT_EQ(scale.value(), GradScaler::most);
  // Down to 1 and no further: from there on trouble is the model's own.
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(scale.skips_step(false));
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.skips_step(false));
}

TEST(GradScaler, AFixedOneStays) {
  GradScaler scale = *GradScaler::parse("512");
  EXPECT_FALSE(scale.skips_step(false));
  EXPECT_EQ(scale.value(), 512);
}

TEST(GradScaler, ContinuesFromItsArchive) {
  GradScaler whole = *GradScaler::parse("auto");
  whole.skips_step(false);
  for (int i = 0; i < 1500; ++i) whole.skips_step(true);
  training::MemoryArchive archive;
  whole.archive(archive);
  archive.rewind_to_load();
  GradScaler part = *GradScaler::parse("auto");
  part.archive(archive);
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(part.skips_step(true), whole.skips_step(true));
    EXPECT_EQ(part.value(), whole.value());
  }
  EXPECT_EQ(part.value(), 65536);
  training::MemoryArchive older;  // of a run that had none
  older.rewind_to_load();
  part.archive(older);
  EXPECT_EQ(part.value(), 65536);
}

// Another one may be wanted by now, or none.
TEST(GradScaler, AFixedOneTakesTheEntriesOfOneThatWasSought) {
  GradScaler sought = *GradScaler::parse("auto"), fixed = *GradScaler::parse("512");
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

TEST(GradScaler, IsPutBackBehindATrial) {
  run_ranks(1, [](Communicator& world) {
    const testing::SmallModel model;
    Training t;
    t.network = std::make_unique<Network>(model.graph, NetworkOptions());
    t.optimizer = make_optimizer(OptimizerOptions());
    t.optimizer->bind(t.network->parameters());
    t.warm_up = std::make_unique<RunningMethod>(NoExchange().make({world}), 1);
    t.parallel = std::make_unique<RunningMethod>(NoExchange().make({world}), 1);
    start(t.parallel->method, t.network->parameters());
    t.grad_scaler = *GradScaler::parse("auto");
    StateCopy before = copy_state(t);
    EXPECT_TRUE(t.grad_scaler.skips_step(false));
    restore_state(t, before);
    EXPECT_EQ(t.grad_scaler.value(), 65536);
  });
}

}  // namespace
}  // namespace tutti::grad_scaler_test
