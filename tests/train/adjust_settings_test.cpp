// SPDX-License-Identifier: Apache-2.0
// What a run takes from AutoAdjust's values in a checkpoint.
#include <gtest/gtest.h>

#include "support.h"
#include "train/adjust.h"
#include "train/container.h"
#include "train/training.h"

namespace tutti::adjust_settings_test {
namespace {

// A state of a run that is to train its fourth epoch.
void set_up(Training& t, AutoAdjustOptions::Method method, std::vector<double> listed_rates) {
  t.sgd.auto_adjust.emplace();
  t.sgd.auto_adjust->method = method;
  t.sgd.learning_rates_per_sample.values = std::move(listed_rates);
  t.sgd.minibatch_size.values = {20};
  t.progress.epoch = 3;
  t.adjust.learning_rate = 0.5;
  t.adjust.minibatch_size = 320;
}

EpochSettings loaded(Training& t) {
  forget_unused_settings(t, true);
  return current_settings(t);
}

TEST(AdjustSettings, ARateCountsBehindTheList) {
  for (const auto method : {AutoAdjustOptions::Method::after_epoch, AutoAdjustOptions::Method::before_epoch}) {
    Training t;
    set_up(t, method, {0.1, 0.2, 0.3});
    EXPECT_FLOAT_EQ(static_cast<float>(loaded(t).learning_rate), 0.5f);
    set_up(t, method, {0.1, 0.2, 0.3, 0.4});
    EXPECT_FLOAT_EQ(static_cast<float>(loaded(t).learning_rate), 0.4f);
  }
}

TEST(AdjustSettings, ARateOfARollBackCountsInTheEpochsThatItRepeats) {
  Training t;
  set_up(t, AutoAdjustOptions::Method::after_epoch, {0.1, 0.2, 0.3, 0.4, 0.6});
  t.adjust.retried_to = 5;
  EXPECT_FLOAT_EQ(static_cast<float>(loaded(t).learning_rate), 0.5f);
  t.adjust.retried_to = 2;
  EXPECT_FLOAT_EQ(static_cast<float>(loaded(t).learning_rate), 0.4f);
}

TEST(AdjustSettings, NothingCountsWithoutAutoAdjust) {
  Training t;
  set_up(t, AutoAdjustOptions::Method::after_epoch, {0.1});
  t.sgd.auto_adjust.reset();
  EXPECT_FLOAT_EQ(static_cast<float>(loaded(t).learning_rate), 0.1f);
  EXPECT_EQ(loaded(t).minibatch, 20);
}

TEST(AdjustSettings, AMinibatchSizeCountsWithAutoAdjustMinibatch) {
  Training t;
  set_up(t, AutoAdjustOptions::Method::none, {0.1});
  t.sgd.auto_adjust->adjust_minibatch = true;
  EXPECT_EQ(loaded(t).minibatch, 320);
  t.sgd.auto_adjust->adjust_minibatch = false;
  EXPECT_EQ(current_settings(t).minibatch, 20);
  EXPECT_EQ(loaded(t).minibatch, 20);
  EXPECT_EQ(t.adjust.minibatch_size, 0);
}

TEST(AdjustSettings, ARollBackIsInTheState) {
  const testing::Directory d;
  for (const std::int64_t retried_to : {-1, 5}) {
    AdjustState state;
    state.retried_to = retried_to;
    ContainerWriter writer(d / "state", "checkpoint");
    SavingArchive saving(writer, "");
    state.archive(saving);
    writer.finish(), writer.commit();
    const ContainerReader reader(d / "state", "checkpoint");
    EXPECT_EQ(reader.has("adjust/retried to epoch"), retried_to >= 0);
    LoadingArchive loading(reader, "");
    AdjustState found;
    found.archive(loading);
    EXPECT_EQ(found.retried_to, retried_to);
  }
}

}  // namespace
}  // namespace tutti::adjust_settings_test
