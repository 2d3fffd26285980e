// SPDX-License-Identifier: Apache-2.0
// What a restart uses after every kind of interruption and damage.
#include "train/checkpoint.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "base/exit_codes.h"
#include "comm/threads.h"
#include "optim/optimizer_options.h"
#include "support.h"

namespace tutti::checkpoint_test {
namespace {

using testing::Directory;
using testing::error_of;
using testing::slurp;
using testing::SmallModel;
using testing::spill;

// A run of one rank or of several: a model, an optimizer with its state, and a residual that differs between ranks.
// Each "epoch" is a few steps with gradients that depend on epoch, step and rank.
struct Trial {
  static constexpr std::int64_t steps = 4, minibatch = 10;

  SmallModel model;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer = make_optimizer({});
  std::vector<float> residual = std::vector<float>(5);
  CheckpointState state;
  CheckpointFiles files;
  Communicator& comm;

  Trial(const std::string& path, std::int64_t max_epochs, Communicator& c, bool keep = false)
      : files{path, max_epochs, keep}, comm(c) {
    Slice s;
    s.name = "W";
    s.shape = {{2, 3}};
    s.rows = 2, s.columns = 3;
    parameters.slices = {s};
    parameters.chunks = {{0, 0, 3}};
    parameters.weights = FloatBuffer(16);
    parameters.gradients = FloatBuffer(16);
    model.view.values[0].values = parameters.weights.span().first(6);
    optimizer->bind(parameters);
  }

  CheckpointParts parts() {
    return {model.view,
            [this](Archive* a) {
              if (a) optimizer->archive(*a);
            },
            {},
            [this](Archive& a) { a("residual", residual); },
            "residuals"};
  }
  void save() {
    auto p = parts();
    save_checkpoint(files, state, p, comm);
  }
  void start() {
    for (int i = 0; i < 6; ++i) parameters.weights.data()[i] = static_cast<float>(i);
    save();
  }
  void step() {
    const auto where = static_cast<float>(state.epoch * 100 + state.minibatches_in_epoch);
    for (int i = 0; i < 6; ++i) parameters.gradients.data()[i] = std::sin(where + static_cast<float>(i));
    for (float& r : residual) r = 0.5f * r + where + static_cast<float>(comm.rank());
    optimizer->begin_step({0.01, 0.99, minibatch});
    optimizer->update(0);
    state.samples_in_epoch += minibatch;
    state.minibatches_in_epoch += 1;
    state.epoch_metrics += StepMetrics{minibatch, minibatch, 0.1 * where, 10, {{1, 10}}};
  }
  void end_epoch() {
    state.total_samples_seen += state.samples_in_epoch;
    state.samples_in_epoch = state.minibatches_in_epoch = 0;
    state.epoch_metrics = {};
    ++state.epoch;
    save();
  }
  void epochs(std::int64_t until) {
    while (state.epoch < until) {
      while (state.minibatches_in_epoch < steps) step();
      end_epoch();
    }
  }
  // Returns the warnings.
  std::vector<std::string> resume() {
    std::vector<std::string> warnings;
    const auto point = find_resume_point(files.model_path, files.max_epochs, comm, warnings);
    if (!point) {
      start();
      return warnings;
    }
    load_model(*point, model.view, comm);
    state = load_state(
        *point, [&](Archive& a) { optimizer->archive(a); }, comm);
    if (!point->checkpoint.empty()) {
      EXPECT_EQ(load_exchange_state(*point, parts(), comm).lost, "");
    }
    return warnings;
  }
};

// Rank 0's files after an undisturbed run.
std::string undisturbed(std::int64_t epochs, int ranks) {
  const Directory d;
  run_ranks(ranks, [&](Communicator& comm) {
    Trial run(d / "m", epochs, comm);
    run.start();
    run.epochs(epochs);
  });
  return slurp(d / "m") + slurp(d / "m.ckp");
}

TEST(Names, AreTheOriginals) {
  EXPECT_EQ(model_name("m", 0, 3), "m.0");
  EXPECT_EQ(model_name("m", 2, 3), "m.2");
  EXPECT_EQ(model_name("m", 3, 3), "m");
  EXPECT_EQ(checkpoint_name("m.2"), "m.2.ckp");
  EXPECT_EQ(mid_epoch_name("m", 0), "m.1.mid");
}

// 800 of 1000 samples were done when epochSize became 500: the epoch ends where it is, and the next one begins there.
TEST(Progress, PositionsGoOnWhereAnEpochBecomesShorter) {
  Progress p{.epoch = 2, .samples_in_epoch = 800, .samples_before = 2000};
  EXPECT_EQ(p.position(p.samples_in_epoch, 1000), 2800);
  p.resize_epoch(900);
  EXPECT_EQ(p.position(p.samples_in_epoch, 900), 2800);
  p.resize_epoch(500);
  EXPECT_EQ(p.position(p.samples_in_epoch, 500), 2800);
  EXPECT_EQ(p.samples_before + 500, 2800);
}

TEST(Checkpoint, KeepsTheLastTwoStatesAndAllModels) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 4, comm);
    run.start();
    run.epochs(4);
  });
  EXPECT_EQ(d.files(), (std::vector<std::string>{"m", "m.0", "m.1", "m.2", "m.3", "m.3.ckp", "m.ckp"}));
}

TEST(Checkpoint, KeepsAllStatesWhenAsked) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 3, comm, true);
    run.start();
    run.epochs(3);
  });
  EXPECT_EQ(d.files(), (std::vector<std::string>{"m", "m.0", "m.1", "m.1.ckp", "m.2", "m.2.ckp", "m.ckp"}));
}

TEST(Checkpoint, AResumedRunEqualsTheUndisturbedOne) {
  for (const int ranks : {1, 3}) {
    const std::string expected = undisturbed(3, ranks);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch)
      for (std::int64_t steps = 0; steps < Trial::steps; ++steps) {
        const Directory d;
        run_ranks(ranks, [&](Communicator& comm) {
          Trial run(d / "m", 3, comm);
          run.start();
          run.epochs(epoch);
          for (std::int64_t s = 0; s < steps; ++s) run.step();
          if (steps > 0) run.save();
          run.step();  // lost
        });
        run_ranks(ranks, [&](Communicator& comm) {
          Trial run(d / "m", 3, comm);
          run.resume();
          EXPECT_EQ(run.state.epoch, epoch);
          EXPECT_EQ(run.state.samples_in_epoch, steps * Trial::minibatch);
          run.epochs(3);
        });
        EXPECT_EQ(slurp(d / "m") + slurp(d / "m.ckp"), expected) << epoch << " " << steps;
        EXPECT_FALSE(std::filesystem::exists(mid_epoch_name(d / "m", epoch)));
      }
  }
}

TEST(Checkpoint, FinishedRunsSaySo) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 2, comm);
    run.start();
    run.epochs(2);
  });
  std::vector<std::string> warnings;
  const auto point = find_resume_point(d / "m", 2, warnings);
  ASSERT_TRUE(point);
  EXPECT_TRUE(point->finished);
  EXPECT_TRUE(warnings.empty());
  EXPECT_FALSE(find_resume_point(d / "other", 2, warnings));
}

// Every file of the newest checkpoint, damaged in turn: the one before is used, a warning names the file, and the run
// still ends as the undisturbed one.
TEST(Checkpoint, DamagedFilesAreNamedAndPassedOver) {
  const std::string expected = undisturbed(4, 1);
  const Directory good;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(good / "m", 4, comm);
    run.start();
    run.epochs(3);
    run.step();
    run.save();
  });
  struct Damage {
    std::vector<std::string> files;
    std::int64_t epoch, samples;
  };
  const Damage damages[] = {{{}, 3, 10},
                            {{"m.4.mid"}, 3, 0},
                            {{"m.4.mid", "m.3"}, 2, 0},
                            {{"m.4.mid", "m.3.ckp"}, 2, 0},
                            {{"m.3", "m.3.ckp"}, 3, 10}};
  for (const Damage& damage : damages)
    for (const int how : {0, 1, 2}) {
      const Directory d;
      for (const std::string& f : good.files())
        std::filesystem::copy(good / f, d / f, std::filesystem::copy_options::overwrite_existing);
      for (const std::string& f : damage.files) {
        std::string bytes = slurp(d / f);
        if (how == 0) bytes.resize(bytes.size() / 2);
        if (how == 1) bytes[bytes.size() / 3] ^= 4;
        if (how == 2) bytes.clear();
        spill(d / f, bytes);
      }
      run_ranks(1, [&](Communicator& comm) {
        Trial run(d / "m", 4, comm);
        const auto warnings = run.resume();
        EXPECT_EQ(run.state.epoch, damage.epoch);
        EXPECT_EQ(run.state.samples_in_epoch, damage.samples);
        if (damage.samples == 0) {
          ASSERT_EQ(warnings.size(), damage.files.size());
          for (std::size_t i = 0; i < warnings.size(); ++i)
            EXPECT_NE(warnings[i].find(d / damage.files[i] + "'"), std::string::npos) << warnings[i];
        }
        run.epochs(4);
      });
      EXPECT_EQ(slurp(d / "m") + slurp(d / "m.ckp"), expected);
    }
}

TEST(Checkpoint, AMissingStateIsWarnedOfAndTheModelUsed) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 4, comm);
    run.start();
    run.epochs(2);
  });
  std::filesystem::remove(d / "m.2.ckp");
  std::vector<std::string> warnings;
  const auto point = find_resume_point(d / "m", 4, warnings);
  ASSERT_TRUE(point);
  EXPECT_EQ(point->epoch, 2);
  EXPECT_EQ(point->checkpoint, "");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("Checkpoint file is missing. Parameter-learning state (such as momentum) will be reset."),
            0u);
}

TEST(Checkpoint, AModelOlderThanItsPredecessorIsOfAnEarlierRun) {
  const Directory d;
  SmallModel m;
  const auto at = [&](const char* name, int seconds) {
    save_model(d / name, m.view);
    std::filesystem::last_write_time(d / name,
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(seconds));
  };
  at("m.0", 0), at("m.1", 1), at("m.2", 2), at("m.3", -5), at("m", -4);
  std::vector<std::string> warnings;
  auto point = find_resume_point(d / "m", 4, warnings);
  ASSERT_TRUE(point);
  EXPECT_EQ(point->epoch, 2);
  std::filesystem::remove(d / "m.2");
  point = find_resume_point(d / "m", 4, warnings);
  ASSERT_TRUE(point);
  EXPECT_EQ(point->epoch, 1);
}

// Each epoch asked for by its name would take minutes.
TEST(Checkpoint, TheSearchTakesAsLongAsThereAreFilesNotEpochs) {
  const Directory d;
  SmallModel m;
  std::vector<std::string> warnings;
  constexpr std::int64_t many = 1'000'000'000;
  EXPECT_FALSE(find_resume_point(d / "m", many, warnings));
  EXPECT_FALSE(find_resume_point(d / "no such folder/m", many, warnings));
  for (const char* name : {"m.7", "m.007", "m.8x", "m.-1", "m.99999999999999999999", "other.9", "m.1000000001"})
    save_model(d / name, m.view);
  const auto point = find_resume_point(d / "m", many, warnings);
  ASSERT_TRUE(point);
  EXPECT_EQ(point->epoch, 7);
  EXPECT_EQ(point->model, d / "m.7");
}

TEST(Checkpoint, ARunOfFewerEpochsThanAreDoneEndsWithTheModelOfItsLast) {
  const Directory d;
  run_ranks(2, [&](Communicator& comm) {
    Trial run(d / "m", 9, comm);
    run.start();
    run.epochs(5);
    std::vector<std::string> warnings;
    for (const auto& [epochs, state] : {std::pair(5, true), std::pair(3, false)}) {
      const auto point = find_resume_point(d / "m", epochs, comm, warnings);
      ASSERT_TRUE(point);
      EXPECT_TRUE(point->finished);
      EXPECT_EQ(point->model, numbered_model_name(d / "m", epochs));
      EXPECT_EQ(!point->checkpoint.empty(), state);
      const ResumePoint copy = copy_model(*point, d / "m", comm);
      if (comm.rank() == 0) {
        EXPECT_EQ(slurp(d / "m"), slurp(point->model));
        std::filesystem::remove(copy.model), std::filesystem::remove(d / "m.ckp");
      }
      comm.barrier();
    }
    EXPECT_TRUE(warnings.empty());
  });
}

// Where the model of the last epoch is gone, the settings are at fault, on every rank.
TEST(Checkpoint, ARunOfFewerEpochsWithoutTheModelOfItsLastIsRefused) {
  const Directory d;
  run_ranks(2, [&](Communicator& comm) {
    Trial run(d / "m", 9, comm);
    run.files.keep_models = 2;
    run.start();
    run.epochs(5);
    for (const std::int64_t epochs : {5, 9}) refuse_later_epochs(d / "m", epochs, comm);
    try {
      refuse_later_epochs(d / "m", 3, comm);
      ADD_FAILURE() << "not refused";
    } catch (const CodedError& e) {
      EXPECT_EQ(e.code(), kWrongConfiguration);
      EXPECT_NE(std::string(e.what()).find("m.5' has 5 epochs, and maxEpochs is 3\n"), std::string::npos) << e.what();
    }
  });
}

TEST(Checkpoint, AFinalModelOfFewerEpochsHidesNone) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial two(d / "m", 2, comm);
    two.start();
    two.epochs(2);
    std::vector<std::string> warnings;
    copy_model(*find_resume_point(d / "m", 9, warnings), numbered_model_name(d / "m", 2), comm);
    Trial nine(d / "m", 9, comm);
    nine.state.epoch = 2;
    nine.epochs(5);
    const auto point = find_resume_point(d / "m", 3, warnings);
    ASSERT_TRUE(point);
    EXPECT_TRUE(point->finished);
    EXPECT_EQ(point->model, d / "m.3");
  });
}

TEST(Checkpoint, AModelOfATrainingThatEndedEarlyHasItsEpochs) {
  const Directory d;
  run_ranks(2, [&](Communicator& comm) {
    Trial run(d / "m", 9, comm);
    run.start();
    run.epochs(3);
    run.state.ended_early = 9;
    run.save();
    std::vector<std::string> warnings;
    for (const std::int64_t epochs : {2, 3, 5, 9}) {
      const auto point = find_resume_point(d / "m", epochs, comm, warnings);
      ASSERT_TRUE(point);
      EXPECT_TRUE(point->finished) << epochs;
      EXPECT_EQ(point->model, d / "m");
      EXPECT_EQ(point->epoch, 3);
      EXPECT_EQ(point->ended_early, 9);
    }
    const auto point = find_resume_point(d / "m", 10, comm, warnings);
    ASSERT_TRUE(point);
    EXPECT_FALSE(point->finished);
    EXPECT_EQ(point->model, d / "m");
    EXPECT_EQ(point->epoch, 3);
    EXPECT_TRUE(warnings.empty());
    Trial longer(d / "m", 10, comm);
    EXPECT_TRUE(longer.resume().empty());
    EXPECT_EQ(longer.state.epoch, 3);
    EXPECT_EQ(longer.residual, run.residual);
  });
}

TEST(Checkpoint, ModelsOfARunThatKeptMoreAreRemoved) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 9, comm);
    run.start();
    run.epochs(6);
  });
  CheckpointFiles files{d / "m", 9};
  remove_older_models(files, 6);
  EXPECT_TRUE(std::filesystem::exists(d / "m.0"));
  files.keep_models = 2;
  spill(d / "m.1.ckp", "a state whose model is gone");  // as keepCheckPointFiles leaves it
  remove_older_models(files, 6);
  EXPECT_EQ(d.files(), (std::vector<std::string>{"m.5", "m.5.ckp", "m.6", "m.6.ckp"}));
}

TEST(Checkpoint, AnEarlierRunIsNotContinuedOnceItIsDiscarded) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 3, comm);
    run.start();
    run.epochs(3);
  });
  spill(d / "m.12.ckpt", "not ours"), spill(d / "m.x.ckp", "not ours"), spill(d / "mm.1.ckp", "not ours");
  discard_checkpoints(d / "m");
  EXPECT_EQ(d.files(), (std::vector<std::string>{"m", "m.0", "m.1", "m.12.ckpt", "m.2", "m.x.ckp", "mm.1.ckp"}));
  for (const char* f : {"m", "m.1", "m.2"})
    std::filesystem::last_write_time(d / f, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(5));
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 3, comm);
    run.start();
    std::vector<std::string> warnings;
    EXPECT_EQ(find_resume_point(d / "m", 3, warnings)->epoch, 0);
    run.epochs(1);
    EXPECT_EQ(find_resume_point(d / "m", 3, warnings)->epoch, 1);
    EXPECT_TRUE(warnings.empty());
  });
}

// The clock was set back by a day after the run that is discarded.
TEST(Checkpoint, LeftoversThatAreNewerAreNotTaken) {
  const Directory d;
  const auto epoch_found = [&] {
    std::vector<std::string> warnings;
    const auto point = find_resume_point(d / "m", 3, warnings);
    EXPECT_TRUE(warnings.empty());
    EXPECT_FALSE(point->finished);
    return point->epoch;
  };
  run_ranks(1, [&](Communicator& comm) {
    Trial earlier(d / "m", 3, comm);
    earlier.start();
    earlier.epochs(3);
    discard_checkpoints(d / "m");
    for (const char* f : {"m", "m.0", "m.1", "m.2"})
      std::filesystem::last_write_time(d / f, std::filesystem::file_time_type::clock::now() + std::chrono::hours(24));
    const std::string leftover = slurp(d / "m");
    Trial run(d / "m", 3, comm);
    run.start();
    date_back_leftovers(d / "m", 3);
    EXPECT_EQ(epoch_found(), 0);
    EXPECT_EQ(slurp(d / "m"), leftover) << "it stays until it is replaced";
    run.epochs(1);
    EXPECT_EQ(epoch_found(), 1);
    run.epochs(3);
    std::vector<std::string> warnings;
    EXPECT_TRUE(find_resume_point(d / "m", 3, warnings)->finished);
  });
}

// The moments at which a kill can strike while epoch 3 is saved: what stands in the directory then, and what is used.
TEST(Checkpoint, AKillAtAnyStepOfSavingLeavesACompleteSet) {
  const Directory before, after;
  for (const Directory* d : {&before, &after})
    run_ranks(1, [&](Communicator& comm) {
      Trial run(*d / "m", 4, comm);
      run.start();
      run.epochs(d == &before ? 2 : 3);
    });
  const std::string model = slurp(after / "m.3"), state = slurp(after / "m.3.ckp");
  const auto epoch_found = [&] {
    std::vector<std::string> warnings;
    const auto point = find_resume_point(before / "m", 4, warnings);
    EXPECT_TRUE(warnings.empty());
    EXPECT_FALSE(point->checkpoint.empty());
    return point->epoch;
  };
  spill(before / "m.3.tmp", model.substr(0, 100));
  EXPECT_EQ(epoch_found(), 2);
  spill(before / "m.3.tmp", model);
  spill(before / "m.3.ckp.tmp", state.substr(0, 200));
  EXPECT_EQ(epoch_found(), 2);
  spill(before / "m.3.ckp.tmp", state);
  EXPECT_EQ(epoch_found(), 2);
  std::filesystem::rename(before / "m.3.ckp.tmp", before / "m.3.ckp");
  EXPECT_EQ(epoch_found(), 2);
  std::filesystem::rename(before / "m.3.tmp", before / "m.3");
  EXPECT_EQ(epoch_found(), 3);
}

// Saved without copies when a run ends, after an epoch or within one.
TEST(Checkpoint, TheLastOneIsWrittenAtOnce) {
  for (const int ranks : {1, 3})
    for (const std::int64_t steps : {Trial::steps, Trial::steps - 1}) {
      const Directory d;
      run_ranks(ranks, [&](Communicator& comm) {
        Trial run(d / "m", 2, comm);
        run.start();
        run.epochs(1);
        while (run.state.minibatches_in_epoch < steps) run.step();
        if (steps == Trial::steps) run.state.samples_in_epoch = run.state.minibatches_in_epoch = 0, ++run.state.epoch;
        run.files.best = true;
        BackgroundWriter writer;
        EXPECT_TRUE(save_last_checkpoint(run.files, run.state, run.parts(), comm, writer, 1));
        EXPECT_EQ(std::filesystem::exists(d / "m.best"), steps == Trial::steps);
        Trial again(d / "m", 2, comm);
        EXPECT_TRUE(again.resume().empty());
        EXPECT_EQ(again.state.epoch, run.state.epoch);
        EXPECT_EQ(again.state.minibatches_in_epoch, run.state.minibatches_in_epoch);
        EXPECT_EQ(again.residual, run.residual);
        for (Trial* t : {&run, &again}) t->step();
        EXPECT_TRUE(std::ranges::equal(again.parameters.weights.span(), run.parameters.weights.span()));
      });
    }
}

// A disk that is full while the ranks still send their state.
TEST(Checkpoint, AFailureOfTheLastOneIsKnownToAllRanks) {
  const Directory d;
  run_ranks(3, [&](Communicator& comm) {
    Trial run(d / "m", 1, comm);
    run.start();
    run.state.epoch = 1;
    run.residual.resize(1'000'000);
    const auto last = [&] {
      BackgroundWriter writer;
      return save_last_checkpoint(run.files, run.state, run.parts(), comm, writer, 1);
    };
    for (const char* file : {"m.tmp", "m.ckp.tmp"}) {
      if (comm.rank() == 0) std::filesystem::create_symlink("/dev/full", d / file);
      EXPECT_FALSE(last()) << file;
      std::vector<std::string> warnings;
      EXPECT_EQ(find_resume_point(d / "m", 1, comm, warnings)->epoch, 0);
    }
    EXPECT_FALSE(std::filesystem::exists(d / "m"));
    EXPECT_TRUE(last());
    EXPECT_TRUE(std::filesystem::exists(d / "m"));
  });
}

TEST(Checkpoint, RealKillsAtRandomMomentsNeverCostTheResult) {
  constexpr std::int64_t epochs = 12;
  const std::string expected = undisturbed(epochs, 1);
  const Directory d;
  std::mt19937 engine(4);
  for (int kills = 0; kills < 25; ++kills) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto comm = make_solo_communicator();
      Trial run(d / "m", epochs, *comm);
      run.resume();
      while (run.state.epoch < epochs) {
        while (run.state.minibatches_in_epoch < Trial::steps) {
          run.step();
          if (run.state.minibatches_in_epoch < Trial::steps) run.save();
        }
        run.end_epoch();
      }
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(engine() % 30000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", epochs, comm);
    EXPECT_EQ(run.resume(), std::vector<std::string>());
    run.epochs(epochs);
  });
  EXPECT_EQ(slurp(d / "m") + slurp(d / "m.ckp"), expected);
}

// What the ranks have for themselves, and what becomes of it: residual values keep their sum over the ranks, owned ones
// theirs and their places, own ones go on only with their rank, and some only if the number of ranks is the same.
struct RankState {
  explicit RankState(int rank) {
    const auto r = static_cast<float>(rank);
    residual = {1 + r, 0.5f * r}, own = {10 + r}, same = {20 + r}, plain = {100 + r};
    owned = std::vector<float>(4);
    owned[static_cast<std::size_t>(rank)] = 7 + r;
    knows = rank == 3;
  }
  void archive(Archive& a) {
    for (auto [name, v] : {std::pair{sum_on_reshard_name("debt"), &residual},
                           {own_name("x"), &own},
                           {same_ranks_name("inner/x"), &same},
                           {inherited_name("debt"), &more}}) {
      const bool inherits = name.starts_with("inherited");
      if (a.loading() ? a.has(name) : !inherits)
        a(name, *v);
      else
        v->assign(v->size(), 0);
    }
    a(owned_name("sum"), owned);
    a("inner/plain", plain);
    const std::string known = "inner/" + gone_name("what it knew");
    if (a.has(known)) a(known, knows);
  }
  bool knows = false;
  std::vector<float> residual, own, same, plain, owned, more = std::vector<float>(2);
};

TEST(Checkpoint, AnotherNumberOfRanksIsDealtAnew) {
  for (int before = 1; before <= 4; ++before)
    for (int after = 1; after <= 5; ++after) {
      SCOPED_TRACE(::testing::Message() << before << " to " << after << " ranks");
      const Directory d;
      run_ranks(before, [&](Communicator& comm) {
        Trial run(d / "m", 4, comm);
        run.start();
        while (run.state.minibatches_in_epoch < run.steps) run.step();
        run.state = {};
        run.state.epoch = 2;
        RankState mine(comm.rank());
        auto parts = run.parts();
        parts.rank_state = [&](Archive& a) { mine.archive(a); };
        save_checkpoint(run.files, run.state, parts, comm);
      });
      std::mutex mutex;
      std::vector<float> sum(2);
      run_ranks(after, [&](Communicator& comm) {
        Trial run(d / "m", 4, comm);
        std::vector<std::string> warnings;
        const auto point = find_resume_point(d / "m", 4, comm, warnings);
        ASSERT_TRUE(point);
        load_model(*point, run.model.view, comm);
        run.state = load_state(
            *point, [&](Archive& a) { run.optimizer->archive(a); }, comm);
        EXPECT_EQ(run.state.epoch, 2);
        RankState mine(3);
        auto parts = run.parts();
        parts.rank_state = [&](Archive& a) { mine.archive(a); };
        parts.rank_state_name = "other";
        EXPECT_EQ(load_exchange_state(*point, parts, comm).lost, "the checkpoint was written by residuals");
        parts.rank_state_name = "residuals";
        const RankStateReport report = load_exchange_state(*point, parts, comm);
        EXPECT_EQ(report.lost, "");
        EXPECT_EQ(report.ranks, before);
        EXPECT_EQ(report.gone, before > after && before == 4 ? "what it knew" : "");
        const int r = comm.rank();
        const bool is_new = r >= before;
        EXPECT_EQ(mine.own[0], is_new ? 0 : 10 + r);
        EXPECT_EQ(mine.same[0], before == after ? 20 + r : 0);
        EXPECT_EQ(mine.plain[0], 100 + r % before);
        EXPECT_EQ(mine.residual[0], is_new ? 0 : 1 + r);
        for (int o = 0; o < 4; ++o)
          EXPECT_EQ(mine.owned[static_cast<std::size_t>(o)], o < before && (before != after || o == r) ? 7 + o : 0);
        const std::lock_guard lock(mutex);
        for (std::size_t i = 0; i < 2; ++i) sum[i] += mine.residual[i] + mine.more[i];
      });
      EXPECT_EQ(sum[0], static_cast<float>(before * (before + 1)) / 2);
      EXPECT_EQ(sum[1], static_cast<float>(before * (before - 1)) / 4);
    }
}

// The state of each rank belongs to the division of the layers. Without residuals there is nothing to lose, and what
// does not depend on the division is kept.
TEST(Checkpoint, AnotherDivisionOfLayersLosesValuesOnly) {
  for (const float value : {0.0f, 0.5f}) {
    const Directory d;
    run_ranks(2, [&](Communicator& comm) {
      Trial run(d / "m", 4, comm);
      run.start();
      run.state = {};
      run.state.epoch = 2;
      auto parts = run.parts();
      double scale = 1024;
      parts.undivided_state = [&](Archive& a) { a("lossScale.value", scale); };
      parts.common_state = [&](Archive& a) {
        std::int64_t samples = 1;
        a("samples", samples), parts.undivided_state(a);
      };
      parts.rank_state_name = "SGD, layers divided among 2 W:0, in 2 groups";
      parts.rank_state = [&](Archive& a) {
        std::int64_t epoch = 1;
        std::vector<float> residual(3, value);
        a("epoch", epoch), a("residual", std::span<float>(residual));
      };
      save_checkpoint(run.files, run.state, parts, comm);
      std::vector<std::string> warnings;
      const auto point = find_resume_point(d / "m", 4, comm, warnings);
      ASSERT_TRUE(point);
      parts.rank_state = [](Archive&) { ADD_FAILURE() << "loads the state of another division"; };
      const std::string lost = "the checkpoint was written by SGD, layers divided among 2 W:0, in 2 groups";
      for (const char* now : {"SGD, layers divided among 3 W:0, in 2 groups", "SGD, in 2 groups"}) {
        scale = 1;
        parts.rank_state_name = now;
        const RankStateReport report = load_exchange_state(*point, parts, comm);
        EXPECT_EQ(report.lost, value != 0 ? lost : "") << now;
        EXPECT_EQ(report.ranks, 2);
        EXPECT_EQ(scale, 1024);
      }
      for (const char* other : {"SGD", "EASGD, layers divided among 2 W:0, in 2 groups"}) {
        parts.rank_state_name = other;
        EXPECT_EQ(load_exchange_state(*point, parts, comm).lost, lost);
      }
    });
  }
}

TEST(Checkpoint, EveryRankThrowsWhatRankZeroCannotLoad) {
  const Directory d;
  run_ranks(1, [&](Communicator& comm) {
    Trial run(d / "m", 4, comm);
    run.start();
    run.epochs(1);
  });
  run_ranks(3, [&](Communicator& comm) {
    Trial run(d / "m", 4, comm);
    OptimizerOptions o;
    o.rule = UpdateRule::adam;
    const auto adam = make_optimizer(o);
    adam->bind(run.parameters);
    const ResumePoint point{false, 1, false, d / "m.1", d / "m.1.ckp"};
    const std::string message = error_of([&] {
      load_state(
          point, [&](Archive& a) { adam->archive(a); }, comm);
    });
    EXPECT_EQ(message, "the checkpoint was written with gradUpdateType = none, this run has adam");
  });
}

TEST(Writable, LeavesNothingBehindAndSaysWhatIsWrong) {
  const Directory d;
  check_writable(d / "a/b/m", 100);
  EXPECT_FALSE(std::filesystem::exists(d / "a"));
  std::filesystem::create_directories(d / "a/b");
  check_writable(d / "a/b/m", 100);
  EXPECT_TRUE(std::filesystem::is_empty(d / "a/b"));
  EXPECT_EQ(error_of([&] { check_writable(d / "a/b", 100); }),
            "modelPath '" + d / "a/b" + "' is a directory; it must name a file");
  spill(d / "file", "x");
  EXPECT_NE(error_of([&] { check_writable(d / "file/m", 100); }).find("Not a directory"), std::string::npos);
  std::filesystem::create_symlink(d / "gone", d / "link");
  EXPECT_NE(error_of([&] { check_writable(d / "link/m", 100); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { check_writable(d / (std::string(300, 'x') + "/m"), 100); }).find("longer than 255"),
            std::string::npos);
  EXPECT_NE(error_of([&] { check_writable(d / "m", std::size_t{1} << 60); }).find("MB free"), std::string::npos);
}

TEST(Writable, LeavesNothingBehindWhereNothingFits) {
  const Directory d;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_FSIZE, &none);
  const std::string message = error_of([&] { check_writable(d / "m", 100); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_NE(message.find("m.probe.tmp"), std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::is_empty(d / "."));
}

// Ranks of `trainer simulate` and runs of a sweep do: each checks the path of a separate training.
TEST(Writable, SeveralMayCheckAtOnce) {
  const Directory d;
  std::vector<std::thread> all;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 4; ++i)
    all.emplace_back([&] {
      for (int k = 0; k < 500; ++k) failed += !error_of([&] { check_writable(d / "a/b/m", 100); }).empty();
    });
  for (std::thread& t : all) t.join();
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(std::filesystem::is_empty(d / "."));
}

}  // namespace
}  // namespace tutti::checkpoint_test
