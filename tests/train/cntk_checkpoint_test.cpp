// SPDX-License-Identifier: Apache-2.0
// Runs that go on from files of CNTK: which of them, and with which state of the optimizer.
#include "train/cntk_checkpoint.h"

#include <gmock/gmock.h>

#include <map>

#include "../cntk/model_writer.h"
#include "comm/threads.h"
#include "optim/optimizer_options.h"
#include "support.h"

namespace tutti::cntk_checkpoint_test {
namespace {

using cntk::testing::Bytes;
using cntk::testing::small_model;
using testing::Directory;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::spill;

void spill(const std::string& path, const std::vector<char>& bytes) {
  testing::spill(path, std::string(bytes.begin(), bytes.end()));
}

// The checkpoint of W [3 x 2] and b [3], each `width` times as wide as the parameter.
std::vector<char> checkpoint(std::uint64_t width, std::vector<float> of_w, std::vector<float> of_b) {
  Bytes b;
  b.text("BVersion").u64(2).text("EVersion").text("BCKP").text("BLearnRate").u64(100).number(0.5).number(1.5);
  b.text("ELearnRate").text("BMinibatchSize").u64(25).text("EMinibatchSize").text("BGradient");
  b.matrix<float>(3, 2 * width, of_w).matrix<float>(3, width, of_b).text("EGradient").text("BCount");
  return b.number(40.0).number(40.0).text("ECount").text("ECKP").get();
}
std::vector<float> upwards(std::size_t n, float first) {
  std::vector<float> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(first + static_cast<float>(i));
  return all;
}

// What an optimizer saves.
struct Saved final : Archive {
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, double> numbers;
  bool loading() const override { return false; }
  bool has(std::string_view) const override { return true; }
  void operator()(std::string_view, bool&) override {}
  void operator()(std::string_view, std::int64_t&) override {}
  void operator()(std::string_view name, double& v) override { numbers[std::string(name)] = v; }
  void operator()(std::string_view, std::string&) override {}
  void operator()(std::string_view name, std::span<float> v) override {
    floats[std::string(name)] = {v.begin(), v.end()};
  }
};

struct Loaded {
  CheckpointState state;
  Saved optimizer;
};

Parameters parameters() {
  Parameters p;
  Slice w, b;
  w.name = "W", w.shape = {{3, 2}}, w.rows = 3, w.columns = 2;
  b.name = "b", b.shape = {{3}}, b.rows = 3, b.columns = 1, b.offset = 16;
  p.slices = {w, b};
  p.chunks = {{0, 0, 2}, {1, 0, 1}};
  p.weights = FloatBuffer(32);
  p.gradients = FloatBuffer(32);
  return p;
}

Loaded load(const std::vector<char>& file, UpdateRule rule, int ranks = 1) {
  const Directory d;
  spill(d / "m.1", small_model().bytes());
  spill(d / "m.1.ckp", file);
  std::vector<Loaded> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Communicator& comm) {
    OptimizerOptions options;
    options.rule = rule;
    Parameters p = parameters();
    const auto optimizer = make_optimizer(options);
    optimizer->bind(p);
    std::vector<std::string> warnings;
    const auto point = find_resume_point(d / "m", 3, comm, warnings);
    ASSERT_TRUE(point);
    EXPECT_EQ(point->epoch, 1);
    EXPECT_EQ(warnings.size(), 0u);
    Loaded& l = all[static_cast<std::size_t>(comm.rank())];
    l.state = load_state(
        *point, [&](Archive& a) { optimizer->archive(a); }, comm);
    optimizer->archive(l.optimizer);
  });
  for (const Loaded& l : all) EXPECT_EQ(l.optimizer.floats, all[0].optimizer.floats);
  return all[0];
}

TEST(CntkState, HasTheNumbersOfTheRun) {
  for (const int ranks : {1, 3}) {
    const Loaded l = load(checkpoint(1, upwards(6, 1), upwards(3, 10)), UpdateRule::sgd, ranks);
    EXPECT_EQ(l.state.epoch, 1);
    EXPECT_EQ(l.state.total_samples_seen, 100);
    EXPECT_EQ(l.state.adjust.learning_rate, 0.5);
    EXPECT_EQ(l.state.adjust.previous_criterion, 1.5);
    EXPECT_EQ(l.state.adjust.minibatch_size, 25);
  }
}

TEST(CntkState, OfSgdIsItsMomentum) {
  const Loaded l = load(checkpoint(1, upwards(6, 1), upwards(3, 10)), UpdateRule::sgd);
  EXPECT_EQ(l.optimizer.floats.at("momentum/W"), upwards(6, 1));
  EXPECT_EQ(l.optimizer.floats.at("momentum/b"), upwards(3, 10));
}

TEST(CntkState, OfAdagradIsItsSquares) {
  const Loaded l = load(checkpoint(1, upwards(6, 1), upwards(3, 10)), UpdateRule::adagrad);
  EXPECT_EQ(l.optimizer.floats.at("squares/W"), upwards(6, 1));
}

TEST(CntkState, OfFsAdagradHasSquaresAndMomentum) {
  const Loaded l = load(checkpoint(2, upwards(12, 1), upwards(6, 20)), UpdateRule::fs_adagrad);
  EXPECT_EQ(l.optimizer.floats.at("squares/W"), upwards(6, 1));
  EXPECT_EQ(l.optimizer.floats.at("momentum/W"), upwards(6, 7));
  EXPECT_EQ(l.optimizer.floats.at("squares/b"), upwards(3, 20));
  EXPECT_EQ(l.optimizer.numbers.at("smoothed count"), 40);
}

// Signs are digits of base 3, the last one in the lowest place: 0 negative, 1 zero, 2 positive.
TEST(CntkState, OfRmsPropHasSquaresSignsAndSteps) {
  for (const std::uint64_t width : {3, 4}) {
    std::vector<float> of_w = upwards(6 * width, 1);
    const std::vector<float> signs = {0, 1, 2, 3, 13, 26};
    std::copy(signs.begin(), signs.end(), of_w.begin() + 6);
    const Loaded l = load(checkpoint(width, of_w, upwards(3 * width, 50)), UpdateRule::rms_prop);
    EXPECT_EQ(l.optimizer.floats.at("squares/W"), upwards(6, 1));
    EXPECT_THAT(l.optimizer.floats.at("signs/W"), ElementsAre(-1, 0, 1, -1, 0, 1));
    EXPECT_EQ(l.optimizer.floats.at("steps/W"), upwards(6, 13));
  }
}

// Before its first update a rule has zeros, once as wide as the parameter.
TEST(CntkState, BeforeTheFirstUpdateIsFresh) {
  for (const UpdateRule rule : {UpdateRule::fs_adagrad, UpdateRule::rms_prop})
    for (const auto& [name, values] :
         load(checkpoint(1, std::vector<float>(6), std::vector<float>(3)), rule).optimizer.floats)
      EXPECT_EQ(values, std::vector<float>(values.size())) << name;
}

TEST(CntkState, OfAnotherRuleIsRefused) {
  const auto refused = [](std::uint64_t width, UpdateRule rule) {
    return error_of(
        [&] { load(checkpoint(width, std::vector<float>(6 * width), std::vector<float>(3 * width)), rule); });
  };
  EXPECT_THAT(refused(2, UpdateRule::sgd), HasSubstr("is not that of gradUpdateType = none"));
  EXPECT_THAT(refused(3, UpdateRule::fs_adagrad), HasSubstr("is not that of gradUpdateType = fsAdagrad"));
  EXPECT_THAT(refused(1, UpdateRule::adam), HasSubstr("is not that of gradUpdateType = adam"));
}

TEST(CntkState, OfOtherParametersIsRefused) {
  Bytes one;
  one.text("BCKP").text("BLearnRate").u64(1).number(1.0).number(1.0).text("ELearnRate").text("BGradient");
  one.matrix<float>(3, 2, upwards(6, 1)).text("EGradient").text("ECKP");
  EXPECT_THAT(error_of([&] { load(one.get(), UpdateRule::sgd); }), HasSubstr("has the state of 1 parameters, '"));
}

std::vector<std::string> no_warnings;

std::optional<ResumePoint> found(const Directory& d, std::int64_t epochs,
                                 std::vector<std::string>& warnings = no_warnings) {
  return find_resume_point(d / "m", epochs, warnings);
}

TEST(CntkFiles, AreResumedFrom) {
  const Directory d;
  const auto state = checkpoint(1, upwards(6, 1), upwards(3, 1));
  spill(d / "m.0", small_model().bytes());
  EXPECT_EQ(found(d, 3)->model, d / "m.0");
  spill(d / "m.1", small_model().bytes());
  spill(d / "m.1.ckp", state);
  EXPECT_EQ(found(d, 3)->checkpoint, d / "m.1.ckp");
  // The final model has one epoch more than the last numbered one.
  spill(d / "m", small_model().bytes());
  spill(d / "m.ckp", state);
  EXPECT_TRUE(found(d, 2)->finished);
  const auto more = found(d, 5);
  EXPECT_FALSE(more->finished);
  EXPECT_EQ(more->epoch, 2);
  EXPECT_EQ(more->checkpoint, d / "m.ckp");
}

TEST(CntkFiles, OfAFinalModelAloneAreFinished) {
  const Directory d;
  spill(d / "m", small_model().bytes());
  EXPECT_TRUE(found(d, 7)->finished);
}

TEST(CntkFiles, ThatAreDamagedAreSkipped) {
  const Directory d;
  const auto state = checkpoint(1, upwards(6, 1), upwards(3, 1));
  for (const char* name : {"m.1", "m.2"}) {
    spill(d / name, small_model().bytes());
    spill(d / (std::string(name) + ".ckp"), state);
  }
  auto cut = state;
  cut.resize(cut.size() - 1);
  spill(d / "m.2.ckp", cut);
  std::vector<std::string> warnings;
  EXPECT_EQ(found(d, 3, warnings)->epoch, 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("m.2.ckp' is damaged at byte"));
}

// A model that was imported goes on from CNTK's checkpoint beside it.
TEST(CntkFiles, MayBeBesideModelsOfOurs) {
  const Directory d;
  const testing::SmallModel model;
  save_model(d / "m.1", model.view);
  spill(d / "m.1.ckp", checkpoint(1, upwards(6, 1), upwards(3, 1)));
  EXPECT_EQ(found(d, 3)->checkpoint, d / "m.1.ckp");
}

TEST(CntkFiles, AreReadWhereModelsAre) {
  const Directory d;
  spill(d / "any name", small_model().bytes());
  const graph::Graph g = load_graph(d / "any name");
  EXPECT_EQ(g.nodes.size(), 8u);
  EXPECT_EQ(*load_trained(d / "any name").nodes[3].start, (std::vector<float>{0.5f, -0.5f, 0.25f}));
  EXPECT_TRUE(replaces_description(d / "any name"));
  std::vector<float> w(6), b(3);
  ModelView view{&g, {{"W", {{3, 2}}, w}, {"b", {{3}}, b}}};
  load_values(d / "any name", view);
  EXPECT_EQ(w, upwards(6, 1));
  view.values[1].name = "c";
  EXPECT_THAT(error_of([&] { load_values(d / "any name", view); }), HasSubstr("has no values for 'c'"));
  view.values.resize(1);
  view.values[0].values = b;
  EXPECT_THAT(error_of([&] { load_values(d / "any name", view); }), HasSubstr("has 6 values for 'W'"));
}

}  // namespace
}  // namespace tutti::cntk_checkpoint_test
