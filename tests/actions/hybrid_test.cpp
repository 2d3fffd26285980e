// SPDX-License-Identifier: Apache-2.0
// Layers that several ranks compute together, and optimizer state that is divided: the weights are those of one rank,
// whatever the placement, and files do not depend on it.
#include "actions/compute_speed.h"
#include "optim/optimizer_options.h"
#include "parallel/hybrid/cost.h"
#include "text_run.h"

namespace tutti::actions::hybrid_test {
namespace {

const std::string kParallel = "ParallelTrain=[parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]]";

std::string with(const std::string& settings) { return "\nTrain=[SGD=[" + settings + ";" + kParallel + "]]"; }

class Hybrid : public TextRun {
 protected:
  // 33 samples in minibatches of 8: the last one leaves some ranks without samples.
  void write(const Kind& kind) {
    kind_ = kind;
    write_data(kind, 33);
  }
  void run_as(int ranks, const std::string& model, const std::string& settings, int epochs = 3) {
    run(ranks, config(kind_, model, 8, epochs) + with(settings));
  }
  void expect_as_one_rank(const Kind& kind, const std::string& settings, double bound,
                          std::initializer_list<const char*> placements) {
    SCOPED_TRACE(kind.name);
    write(kind);
    const std::string anew = "\nTrain=[makeMode=false]";
    run(1, config(kind_, "one", 8, 3) + with(settings) + anew);
    EXPECT_GT(distance("one", "one.0"), 50 * bound) << "nothing was learned";
    // Over the emulator runs take long, and what depends on the number of ranks is the same on a device.
    const std::vector<int> numbers = device() == "cpu" ? std::vector<int>{2, 3, 5} : std::vector<int>{3};
    for (const char* placement : placements)
      for (const int ranks : numbers) {
        const std::string model = fmt::format("{}{}", ranks, placement[0]);
        run(ranks, config(kind_, model, 8, 3) + with(settings + ";" + placement) + anew);
        EXPECT_LE(distance("one", model), bound) << placement << ' ' << ranks;
      }
  }
  void expect_as_whole_in_groups(const Kind& kind, const char* between, const char* rule = "useNAG=false",
                                 double bound = 1e-5) {
    SCOPED_TRACE(fmt::format("{} {} {}", kind.name, between, rule));
    write(kind);
    const auto settings = [&](const char* placement) {
      return fmt::format(
          "\nTrain=[makeMode=false;SGD=[dropoutRate=0.3;{};{};ParallelTrain=[groups=size:2;{};"
          "insideGroups=[DataParallelSGD=[gradientBits=32]]]]]",
          rule, placement, between);
    };
    run(4, config(kind_, "whole", 8, 3) + settings(""));
    EXPECT_GT(distance("whole", "whole.0"), 1e-3);
    for (const char* placement : {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]"}) {
      run(4, config(kind_, "parts", 8, 3) + settings(placement));
      EXPECT_LE(distance("whole", "parts"), bound) << placement;
    }
  }
  std::string refused(int ranks, const std::string& settings) {
    try {
      run(ranks, config(kind_, "refused", 8, 1) + settings);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "not refused";
  }
  Kind kind_ = kDense;
};

constexpr const char* kTwoLayers =
    "Sequential (DenseLayer {30, activation = ReLU} : Dropout : DenseLayer {11, activation = Sigmoid} : Dropout)";

TEST_F(Hybrid, PlacementsAreOneRank) {
  expect_as_one_rank({"dense", false, false, 3, kTwoLayers}, "dropoutRate=0.4;L2RegWeight=0.01;L1RegWeight=0.001", 1e-5,
                     {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]", "ModelParallel=[dense=replicate]",
                      "ModelParallel=[dense=auto]", "ModelParallel=[dense=replicate;layers=[1=shard]]",
                      "ModelParallel=[dense=shard;layers=[2=single]]", "ModelParallel=[dense=single;layers=[2=shard]]",
                      "ModelParallel=[dense=shard;layers=[2=replicate]]"});
}

TEST_F(Hybrid, SmoothedLabelsAreThoseOfOneRank) {
  expect_as_one_rank({"dense", false, false, 3, kTwoLayers}, "labelSmoothing=0.3", 1e-5,
                     {"useNAG=false", "ModelParallel=[dense=shard]", "ModelParallel=[dense=single]",
                      "ModelParallel=[dense=replicate;layers=[2=shard]]"});
}

constexpr const char* kNormalized =
    "Sequential (DenseLayer {12} : BatchNormalizationLayer {synchronized = true} : ReLU : DenseLayer {7} : "
    "BatchNormalizationLayer {synchronized = true} : ReLU)";

TEST_F(Hybrid, NormalizationIsThatOfTheWholeMinibatch) {
  expect_as_one_rank({"normalized", false, false, 3, kNormalized}, "dropoutRate=0", 1e-5,
                     {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]"});
}

// Layers in front of and behind a time axis that the network makes, with a step for each sequence.
constexpr const char* kLastSteps =
    "Sequential (DenseLayer {9, activation = Tanh} : (h => BS.Sequences.BroadcastSequenceAs (h, "
    "DenseLayer {6, activation = Tanh} (Dropout (BS.Sequences.Last (h))) + ReconcileDynamicAxis ("
    "BS.Sequences.First (DenseLayer {6} (h)), BS.Sequences.Last (h)))))";

TEST_F(Hybrid, SparseInputsAndSequences) {
  const auto placements = {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]"};
  expect_as_one_rank({"sparse", true, false, 40, "DenseLayer {6, activation = ReLU}"}, "momentumPerMB=0.8", 1e-5,
                     placements);
  expect_as_one_rank(
      {"sequences", true, true, 40, "Sequential (EmbeddingLayer {7} : RecurrentLSTMLayer {4} : Dropout)"},
      "dropoutRate=0.3", 1e-4, placements);
  expect_as_one_rank(
      {"steps", false, true, 3, kLastSteps}, "dropoutRate=0.3", 1e-5,
      {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]",
       "ModelParallel=[dense=replicate;layers=[1=shard]]", "ModelParallel=[dense=replicate;layers=[2=shard]]"});
}

// Ranks hold parts of the statistics of the data, too.
TEST_F(Hybrid, StatisticsBehindDividedLayers) {
  expect_as_one_rank({"statistics", false, false, 3,
                      "(x => PerDimMeanVarDeNormalization (LinearLayer {3} (x), Mean (x), InvStdDev (x)))"},
                     "dropoutRate=0", 1e-5, {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]"});
}

// Ranks whose shares differ compute as many parts; some of them are empty.
TEST_F(Hybrid, MinibatchesInParts) {
  for (const char* parts : {"numSubminibatches=3", "maxSamplesInRAM=1", "maxSamplesInRAM=3",
                            "gradientAccumulationSteps=2", "gradientAccumulationSteps=2;numSubminibatches=2"}) {
    SCOPED_TRACE(parts);
    const auto placements = {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]",
                             "ModelParallel=[dense=replicate;layers=[1=shard]]"};
    expect_as_one_rank({"dense", false, false, 3, kTwoLayers}, std::string("dropoutRate=0.4;") + parts, 1e-5,
                       placements);
    expect_as_one_rank({"sparse", true, false, 40, "DenseLayer {6, activation = ReLU}"}, parts, 1e-5,
                       {"ModelParallel=[dense=shard]"});
    expect_as_one_rank({"sequences", true, true, 40, "Sequential (EmbeddingLayer {7} : RecurrentLSTMLayer {4})"}, parts,
                       1e-4, {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]"});
    expect_as_one_rank({"steps", false, true, 3, kLastSteps}, parts, 1e-5, {"ModelParallel=[dense=shard]"});
  }
}

// No rank can train alone with parts of layers or of the optimizer: all sum in 32 bits, which gives the same numbers.
TEST_F(Hybrid, WarmStart) {
  for (const char* start : {"2", "9", "2;parallelizationStartSample=16"}) {
    SCOPED_TRACE(start);
    const std::string settings = std::string("dropoutRate=0.4;ParallelTrain=[parallelizationStartEpoch=") + start + "]";
    expect_as_one_rank({"dense", false, false, 3, kTwoLayers}, settings, 1e-5,
                       {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]", "shardOptimizer=true",
                        "shardOptimizer=true;ModelParallel=[dense=shard]"});
    expect_as_one_rank({"sparse", true, false, 40, "DenseLayer {6, activation = ReLU}"}, settings, 1e-5,
                       {"ModelParallel=[dense=shard]", "shardOptimizer=true"});
  }
}

// Norms and means of whole parameters are sums over the ranks that hold parts of them.
TEST_F(Hybrid, EveryOptimizer) {
  const Kind kind{"optimizers", false, false, 3, kTwoLayers};
  for (const char* rule :
       {"gradUpdateType=none;momentumPerMB=0.9;useNAG=true", "gradUpdateType=adagrad", "gradUpdateType=rmsProp",
        "gradUpdateType=fsAdaGrad;momentumAsTimeConstant=30",
        "clippingThresholdPerSample=0.02;gradientClippingWithTruncation=false", "clippingGlobalNormPerSample=0.02",
        "gradUpdateType=adamW;weightDecay=0.1;epsilon=0.01", "gradUpdateType=lamb;weightDecay=0.01;epsilon=0.01",
        "gradUpdateType=lars;weightDecay=0.001;trustCoefficient=0.5"}) {
    SCOPED_TRACE(rule);
    expect_as_one_rank(
        kind, rule, 2e-5,
        {"ModelParallel=[dense=shard]", "ModelParallel=[dense=single]",
         "ModelParallel=[dense=replicate;layers=[1=single]]", "ModelParallel=[dense=shard;layers=[1=single]]",
         // No parameter is on every rank: the other ranks have no chunk behind that of layer 2.
         "ModelParallel=[dense=single;layers=[2=shard]]"});
  }
}

TEST_F(Hybrid, OptimizerStateMayBeDivided) {
  const Kind kind{"divided", false, false, 3, kTwoLayers};
  for (const char* rule : {"momentumPerMB=0.9", "gradUpdateType=fsAdaGrad;momentumAsTimeConstant=30",
                           "gradUpdateType=adamW;weightDecay=0.1;epsilon=0.01", "gradUpdateType=adagrad",
                           "gradUpdateType=rmsProp", "gradUpdateType=lamb;weightDecay=0.01;epsilon=0.01",
                           "gradUpdateType=lars;weightDecay=0.001;trustCoefficient=0.5",
                           "clippingThresholdPerSample=0.02;gradientClippingWithTruncation=false"}) {
    SCOPED_TRACE(rule);
    expect_as_one_rank(kind, rule, 2e-5, {"shardOptimizer=true", "shardOptimizer=true;ModelParallel=[dense=shard]"});
  }
  expect_as_one_rank({"sparse", true, false, 40, "DenseLayer {6, activation = ReLU}"}, "momentumPerMB=0.8", 1e-5,
                     {"shardOptimizer=true"});
}

// A run goes on under another placement and on another number of ranks, with weights, statistics and optimizer.
TEST_F(Hybrid, FilesDoNotDependOnThePlacement) {
  write({"files", false, false, 3,
         "Sequential (DenseLayer {30, activation = ReLU} : Dropout : DenseLayer {12} : BatchNormalizationLayer "
         "{synchronized = true})"});
  const std::pair<int, const char*> legs[] = {{2, "ModelParallel=[dense=shard]"},
                                              {3, "ModelParallel=[dense=single];shardOptimizer=true"},
                                              {1, "ModelParallel=[dense=shard]"},
                                              {5, "shardOptimizer=true"},
                                              {4, "ModelParallel=[dense=shard];shardOptimizer=true"}};
  // Parts of parameters are divided among the ranks; clipping by norm needs whole ones.
  for (const auto& [rule, name] :
       {std::pair("gradUpdateType=fsAdaGrad;momentumAsTimeConstant=30;dropoutRate=0.2;", "parts"),
        std::pair("clippingThresholdPerSample=0.02;gradientClippingWithTruncation=false;momentumPerMB=0.9;",
                  "parameters")}) {
    const std::string one = std::string("one-") + name;
    run_as(1, one, rule, 5);
    int epochs = 1;
    for (const auto& [ranks, placement] : legs) run_as(ranks, name, std::string(rule) + placement, epochs++);
    EXPECT_LE(distance(one, name), 1e-5) << name;
  }
}

// Ranks with the same shard exchange it between the groups, by the method between them.
TEST_F(Hybrid, DividedInsideGroups) {
  for (const char* between : {"parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]",
                              "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=4]"}) {
    expect_as_whole_in_groups({"groups", false, false, 3, kTwoLayers}, between);
    expect_as_whole_in_groups({"normalized", false, false, 3, kNormalized}, between);
  }
}

// Gradients of some shards come from the other groups before backward is over, on some ranks only. Updates that sum
// over shards wait for the end of the step, or ranks would wait for each other in two places.
TEST_F(Hybrid, SumsOverShardsComeAfterBackward) {
  const Kind wide{"wide", false, false, 3,
                  "Sequential (DenseLayer {500, activation = Tanh} : DenseLayer {520, activation = Tanh} : "
                  "DenseLayer {540, activation = Tanh} : DenseLayer {500, activation = Tanh})"};
  for (const char* rule : {"gradUpdateType=adagrad", "gradUpdateType=lamb;weightDecay=0.01;epsilon=0.01",
                           "clippingThresholdPerSample=0.02;gradientClippingWithTruncation=false;learningRatesPerMB=1",
                           "clippingGlobalNormPerSample=0.02;learningRatesPerMB=2"})
    expect_as_whole_in_groups(wide, "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]", rule,
                              1e-4);
}

// Groups that measure other links choose the same placements.
TEST_F(Hybrid, GroupsChooseTheSamePlacements) {
  const LinkSpeed of_group[] = {{1e-7, 1e11}, {1e-4, 1e6}};
  StepOfLayers step{.ranks = 2, .samples = 64};
  std::vector<PlacedLayer> layers;
  for (const std::size_t width : {64, 128, 256, 512, 700, 1000}) {
    layers.emplace_back().chosen = true;
    layers.back().layer.in = layers.back().layer.out = width;
  }
  const auto placements = [&](const LinkSpeed& link) {
    auto chosen = layers;
    choose_placements(chosen, step, link);
    return placement_table(chosen, step);
  };
  ASSERT_NE(placements(of_group[0]), placements(of_group[1]));
  std::string chosen[4];
  run_ranks(4, [&](Communicator& world) {
    const auto r = static_cast<std::size_t>(world.rank());
    chosen[r] = placements(slowest(of_group[r / 2], world));
  });
  for (const std::string& c : chosen) EXPECT_EQ(c, placements(of_group[1]));
}

TEST_F(Hybrid, RanksThatDivideInAnotherWayAreRefused) {
  write({"configs", false, false, 3, kTwoLayers});
  const auto settings = [&](int rank) {
    return config(kind_, "refused", 8, 1) +
           fmt::format(
               "\nTrain=[SGD=[ModelParallel=[dense=shard;layers=[1={}]];ParallelTrain=[groups=size:2;"
               "parallelizationMethod=DataParallelSGD]]]",
               rank < 2 ? "shard" : "single");
  };
  std::string problems[4];
  run_ranks(4, [&](Communicator& world) {
    try {
      run_rank(world, settings(world.rank()));
    } catch (const ConfigError& e) {
      problems[world.rank()] = e.what();
    }
  });
  for (const std::string& p : problems)
    EXPECT_NE(p.find("SGD.ModelParallel.layers.1 is shard on rank 0 and single on rank 2"), std::string::npos) << p;
}

// Each rank has the momentum of its own shards.
TEST_F(Hybrid, DividedInsideGroupsResumesExactly) {
  write({"resumed", false, false, 3, kTwoLayers});
  for (const char* between :
       {"parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=15]",
        "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=15;outerOptimizer=adam]",
        "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=15;overlap=2]"})
    for (const char* placement : {"dense=shard", "dense=replicate;layers=[1=single]"}) {
      SCOPED_TRACE(fmt::format("{} {}", between, placement));
      const auto run_for = [&](const char* model, int epochs, const char* mode) {
        run(4, config(kind_, model, 8, epochs) +
                   fmt::format("\nTrain=[makeMode={};SGD=[ModelParallel=[{}];ParallelTrain=[groups=size:2;{};"
                               "insideGroups=[DataParallelSGD=[gradientBits=32]]]]]",
                               mode, placement, between));
      };
      run_for("undisturbed", 3, "false");
      run_for("resumed", 1, "false");
      run_for("resumed", 3, "true");
      EXPECT_GT(distance("undisturbed", "undisturbed.0"), 1e-3);
      EXPECT_EQ(distance("undisturbed", "resumed"), 0);
    }
}

// The 1-bit exchange of what every rank holds goes on beside shards.
TEST_F(Hybrid, FewBitsForTheRest) {
  write({"bits", false, false, 3, kTwoLayers});
  const std::string bits =
      "\nTrain=[SGD=[ModelParallel=[dense=replicate;layers=[1=shard]];"
      "ParallelTrain=[parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]]]]";
  run(3, config(kind_, "first", 8, 3) + bits);
  run(3, config(kind_, "again", 8, 3) + bits);
  EXPECT_EQ(distance("first", "again"), 0);
  EXPECT_GT(distance("first", "first.0"), 1e-3);
}

// Functions and Sequential make names with brackets, which cannot be keys.
TEST_F(Hybrid, LayersAreNamedByWhatAConfigCanSay) {
  std::vector<DenseLayer> layers(4);
  const char* weights[] = {"h1.arrayOfFunctions[0].W", "model.arrayOfFunctions[0].W", "model.arrayOfFunctions[1].W",
                           "top.fc.W"};
  for (std::size_t i = 0; i < 4; ++i) layers[i].weight = weights[i], layers[i].in = layers[i].out = 8;
  std::string said;
  const auto placed = [&](std::initializer_list<std::pair<const char*, const char*>> pairs) {
    ModelParallelOptions o;
    o.dense = Placement::replicate;
    for (const auto& [key, value] : pairs) o.layers.push_back({key, value, {}});
    Problems problems;
    std::string all;
    for (const PlacedLayer& l : place_dense_layers(o, layers, 2, problems)) all += to_string(l.placement)[1];
    said.clear();
    try {
      problems.throw_if_any();
    } catch (const ConfigError& e) {
      said = e.what();
    }
    return all;
  };
  EXPECT_EQ(placed({{"h1", "single"}, {"3", "shard"}, {"top.fc", "single"}}), "iehi");
  EXPECT_EQ(said, "");
  EXPECT_EQ(placed({{"top.fc.W", "shard"}}), placed({{"top", "shard"}}));
  EXPECT_EQ(said, "");
  placed({{"model", "shard"}});
  EXPECT_NE(said.find("'model' matches 2 dense layers"), std::string::npos) << said;
  EXPECT_NE(said.find("2 (model.arrayOfFunctions[0].W), 3 (model.arrayOfFunctions[1].W)"), std::string::npos) << said;
  placed({{"fc6", "shard"}});
  EXPECT_NE(said.find("the dense layers are: h1 (h1.arrayOfFunctions[0].W), 2 ("), std::string::npos) << said;
  EXPECT_NE(said.find("), top.fc.W"), std::string::npos) << said;
  placed({{"h1", "shard"}, {"1", "single"}});
  EXPECT_NE(said.find("'h1' and '1' are the same layer"), std::string::npos) << said;
}

// Rank 0 sends its samples to every other rank; the table counts 28 bytes for softmax and error, and dense labels.
TEST_F(Hybrid, CostBehindASingleLayer) {
  std::vector<PlacedLayer> layers(2);
  layers[0].layer.in = 64, layers[0].layer.out = layers[1].layer.in = 100, layers[1].layer.out = 40;
  layers[1].layer.chained = layers[1].layer.softmax = layers[1].layer.passes_gradient = true;
  layers[0].placement = Placement::single, layers[1].placement = Placement::shard;
  const auto costs = layer_costs(layers, {.ranks = 4, .samples = 64});
  EXPECT_EQ(costs[1].bytes, 4 * 3 * 64 * 100 + 28 * 3 * 64 + 4 * 48 * 40 / 4);
}

// The gradient of a shard's input travels while the gradient of its weights is computed.
TEST_F(Hybrid, AShardsGradientTravelsBesideAProduct) {
  std::vector<PlacedLayer> layers(1);
  layers[0].layer.in = 100, layers[0].layer.out = 40, layers[0].placement = Placement::shard;
  StepOfLayers step{.ranks = 4, .samples = 64};
  const LinkSpeed link{0, 1e6};
  const auto seconds = [&] { return step_seconds(layer_costs(layers, step), step, link, layers); };
  const double gradient = 4 * 48 * 100 / link.bandwidth, product = 2 * 100 * 10 * 64;  // seconds; operations
  const auto added = [&](double per_operation) {
    step.compute.together = per_operation;
    layers[0].layer.passes_gradient = false;
    const double without = seconds();
    layers[0].layer.passes_gradient = true;
    return seconds() - without;
  };
  EXPECT_NEAR(added(2 * gradient / product), 0, 1e-12);
  EXPECT_NEAR(added(.5 * gradient / product), .5 * gradient, 1e-12);
}

// Weights, gradients and state; four bytes per value.
TEST_F(Hybrid, TheTableCountsTheStateOfTheOptimizer) {
  std::vector<PlacedLayer> layers(1);
  layers[0].layer.in = layers[0].layer.out = 1000, layers[0].chosen = true;
  const auto table = [&](const StepOfLayers& step) { return placement_table(layers, step); };
  EXPECT_NE(table({.ranks = 4, .state = 3}).find(" 20.000\n"), std::string::npos);
  EXPECT_NE(table({.ranks = 4, .state = 3, .shards_state = true}).find(" 11.000\n"), std::string::npos);
  EXPECT_NE(table({.bits = 1}).find("auto: plain data parallel training costs least"), std::string::npos);
  layers[0].placement = Placement::shard;
  EXPECT_NE(table({.ranks = 4, .state = 3, .shards_state = true}).find(" 5.000\n"), std::string::npos);
  EXPECT_EQ(table({.bits = 1}).find("auto: "), std::string::npos);
  OptimizerOptions o;
  EXPECT_EQ(state_per_weight(o), 1);
  o.momentum = false;
  EXPECT_EQ(state_per_weight(o), 0);
  o.rule = UpdateRule::rms_prop;
  EXPECT_EQ(state_per_weight(o), 3);
  o.rule = UpdateRule::adam;
  EXPECT_EQ(state_per_weight(o), 2);
}

TEST_F(Hybrid, MistakesAreRefused) {
  write({"mistakes", false, false, 3, kTwoLayers});
  const auto about = [&](const std::string& settings) { return refused(3, "\nTrain=[SGD=[" + settings + "]]"); };
  const std::string dp = "ParallelTrain=[parallelizationMethod=DataParallelSGD]";
  EXPECT_NE(about("ModelParallel=[layers=[fc6=shard]];" + dp).find("has no dense layer 'fc6'"), std::string::npos);
  EXPECT_NE(about("ModelParallel=[layers=[3=shard]];" + dp).find("has 2 outputs, fewer than the 3 ranks"),
            std::string::npos);
  EXPECT_NE(about("ModelParallel=[dense=half];" + dp).find("dense cannot be 'half'"), std::string::npos);
  EXPECT_NE(about("ModelParallel=[dense=shard];ParallelTrain=[parallelizationMethod=DataParallelASGD]")
                .find("needs ranks that make every step together"),
            std::string::npos);
  EXPECT_NE(about("truncated=true;ModelParallel=[dense=shard];" + dp).find("truncated sequences"), std::string::npos);
  EXPECT_NE(about("shardOptimizer=true;clippingGlobalNormPerSample=1;" + dp).find("needs the gradients of all"),
            std::string::npos);
  EXPECT_NE(about("shardOptimizer=true;ParallelTrain=[parallelizationMethod=EASGD]").find("make every update together"),
            std::string::npos);
}

// The norm of all gradients is that of one minibatch.
TEST_F(Hybrid, ClippingByTheGlobalNormNeedsGradientsOfOneMinibatch) {
  write({"late", false, false, 3, kTwoLayers});
  const std::string clip = "clippingGlobalNormPerSample=1e6;",
                    late = "DataParallelSGD=[gradientBits=32;useBufferedAsyncGradientAggregation=true]",
                    at_once = "DataParallelSGD=[gradientBits=32]";
  const auto with = [](const std::string& settings, const std::string& parallel) {
    return "\nTrain=[makeMode=false;SGD=[" + settings + "ParallelTrain=[parallelizationMethod=DataParallelSGD;" +
           parallel + "]]]";
  };
  const auto groups = [](const std::string& between, const std::string& inside) {
    return "groups=size:2;" + between + ";insideGroups=[" + inside + "]";
  };
  for (const char* placement : {"dense=shard", "dense=replicate;layers=[1=shard]"})
    for (const std::string& parallel : {late, groups(at_once, late)}) {
      const std::string settings = with(fmt::format("{}ModelParallel=[{}];", clip, placement), parallel);
      EXPECT_NE(refused(4, settings).find("those of divided layers come one minibatch earlier"), std::string::npos);
    }
  // Between groups all gradients come late.
  for (const auto& [placement, parallel] :
       {std::pair("dense=replicate", late), std::pair("dense=shard", groups(late, at_once))}) {
    const std::string divided = fmt::format("ModelParallel=[{}];", placement);
    run(4, config(kind_, "plain", 8, 2) + with(divided, parallel));
    run(4, config(kind_, "clipped", 8, 2) + with(clip + divided, parallel));
    EXPECT_GT(distance("plain", "plain.0"), 1e-3);
    EXPECT_EQ(distance("plain", "clipped"), 0) << parallel;
  }
}

// Rank 0 alone would have gradients in the step in which they are computed.
TEST_F(Hybrid, AutoChoosesNoSingleRankWithLateGradients) {
  std::vector<PlacedLayer> layers(1);
  layers[0].layer.in = 20000, layers[0].layer.out = 1;
  layers[0].chosen = true;
  StepOfLayers step{.ranks = 2, .samples = 2};
  const LinkSpeed link{1e-6, 1e9};
  choose_placements(layers, step, link);
  EXPECT_EQ(layers[0].placement, Placement::single);
  step.single = false;
  choose_placements(layers, step, link);
  EXPECT_EQ(layers[0].placement, Placement::replicate);

  layers[0].layer.out = 4000;
  choose_placements(layers, step, link);
  EXPECT_EQ(layers[0].placement, Placement::shard);
  step.shard = false;
  choose_placements(layers, step, link);
  EXPECT_EQ(layers[0].placement, Placement::replicate);
}

// The link prefers rank 0 here: with shards, results of the second layer and samples of the third travel, too.
TEST_F(Hybrid, AutoWeighsComputingAgainstTheLink) {
  std::vector<PlacedLayer> layers(3);
  for (PlacedLayer& l : layers)
    l.layer.in = l.layer.out = 4096, l.layer.chained = l.layer.passes_gradient = true, l.chosen = true;
  layers[0].layer.chained = false;
  StepOfLayers step{.ranks = 4, .samples = 128};
  const LinkSpeed link{1e-5, 12.5e6};
  for (const auto& [alone, placement] : {std::pair(5e-12, Placement::single), std::pair(5e-10, Placement::shard)}) {
    step.compute = {5e-12, alone};
    choose_placements(layers, step, link);
    for (const PlacedLayer& l : layers) EXPECT_EQ(l.placement, placement);
  }
}

TEST_F(Hybrid, AllRanksAgreeOnTheSpeedOfProducts) {
  ComputeSpeed measured[3];
  run_ranks(3, [&](Communicator& world) {
    measured[world.rank()] = slowest(measure_compute("cpu", ComputeType::float32, world), world);
  });
  for (const ComputeSpeed& p : measured) {
    EXPECT_GT(p.together, 0);
    EXPECT_GT(p.alone, 0);
    EXPECT_EQ(p.together, measured[0].together);
    EXPECT_EQ(p.alone, measured[0].alone);
  }
}

}  // namespace
}  // namespace tutti::actions::hybrid_test
