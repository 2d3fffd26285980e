// SPDX-License-Identifier: Apache-2.0
// A command line or a file of one rank may differ from those of the others.
#include "train/rank_agreement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/threads.h"
#include "config/load.h"
#include "tutti/error.h"

namespace tutti::rank_agreement_test {
namespace {

// What all ranks say where the last of three has something else; "" if they agree.
template <class Compare>
std::string message(const std::string& text, const std::string& of_last_rank, const Compare& compare) {
  std::string messages[3];
  run_ranks(3, [&](Communicator& comm) {
    try {
      compare(comm, comm.rank() == 2 ? of_last_rank : text);
    } catch (const ConfigError& e) {
      messages[comm.rank()] = e.diagnostics()[0].message;
    }
  });
  EXPECT_EQ(messages[1], messages[0]);
  EXPECT_EQ(messages[2], messages[0]);
  return messages[0];
}

SgdOptions options(const std::string& text) {
  Problems problems;
  config::Notices notices;
  return read_sgd_options(config::record_from_text("SGD = [\n" + text + "\n]", "a.cntk").block("SGD"), problems,
                          notices);
}

TEST(RankAgreement, NamesTheRankAndTheFirstSettingThatDiffers) {
  const std::string same = "maxEpochs=2\nlearningRatesPerMB=1\n", lead = "the ranks have different settings: SGD.";
  const auto of = [&](const std::string& last) {
    return message(same, last,
                   [](Communicator& comm, const std::string& text) { require_same_sgd(comm, options(text)); });
  };
  EXPECT_EQ(of(same), "");
  EXPECT_EQ(of("learningRatesPerMB=1.0\nmaxEpochs=2"), "") << "another spelling";
  EXPECT_EQ(of(same + "modelPath=elsewhere\ntraceLevel=1"), "") << "rank 0 alone writes";
  EXPECT_EQ(of("numMBsToShowResult=7\nlearningRatesPerMB=1\nmaxEpochs=3"),
            lead + "maxEpochs is 2 on rank 0 and 3 on rank 2");
  EXPECT_EQ(of(same + "ParallelTrain=[parallelizationMethod=EASGD]"),
            lead + "ParallelTrain.parallelizationMethod is none on rank 0 and EASGD on rank 2");
  EXPECT_EQ(of(same + "ModelParallel=[dense=shard]"),
            lead + "ModelParallel.dense is not set on rank 0 and shard on rank 2");
}

TEST(RankAgreement, FilesNeedOnlyBeGivenOnAllRanks) {
  const std::string same = "maxEpochs=2\nlearningRatesPerMB=1\n";
  const auto of = [&](const std::string& first, const std::string& last) {
    return message(same + first, same + last,
                   [](Communicator& comm, const std::string& text) { require_same_sgd(comm, options(text)); });
  };
  EXPECT_EQ(of("timeline=a\nmetrics=[jsonl=b]", "timeline=c\nmetrics=[jsonl=d]"), "");
  EXPECT_NE(of("timeline=a", ""), "");
}

TEST(RankAgreement, SettingsMayBeMissingOrInAnotherOrder) {
  const auto of = [](const std::string& first, const std::string& last) {
    return message(first, last, [](Communicator& comm, const std::string& text) { require_same_settings(comm, text); });
  };
  EXPECT_EQ(of("a = 1\nb = [\n  c = 2\n]\n", "a = 1\nb = [\n  c = 2\n]\n"), "");
  EXPECT_EQ(of("a = 1\n", "a = 1\nb = [\n  c = 2\n]\n"),
            "the ranks have different settings: b.c is not set on rank 0 and 2 on rank 2");
  EXPECT_EQ(of("a = 1\nb = 2\n", "b = 2\na = 1\n"),
            "the ranks have different settings: rank 2 lists them in another order");
}

}  // namespace
}  // namespace tutti::rank_agreement_test
