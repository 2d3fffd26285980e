// SPDX-License-Identifier: Apache-2.0
#include "toy_method.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "../support/run_ranks.h"
#include "config/load.h"
#include "training.h"

namespace tutti::toy_method_test {
namespace {

using namespace training;

// The table with one more row.
using Table = std::variant<NoExchange, EasgdOptions, FollowRankZero>;

TEST(ToyMethod, IsOneMoreRow) {
  static_assert(MethodRow<FollowRankZero>);
  std::vector<std::string> names;
  for_each_row(static_cast<const Table*>(nullptr), [&]<class Options>() { names.emplace_back(Options::name); });
  EXPECT_EQ(names, (std::vector<std::string>{"none", "EASGD", "FollowRankZero"}));

  FollowRankZero options;
  Problems problems;
  config::Notices notices;
  config::read_fields(
      config::record_from_text("period=0"), FollowRankZero::name, [&](config::Fields& f) { options.describe(f); },
      problems, notices);
  EXPECT_FALSE(problems.empty());
}

class Descent final : public Sink {
 public:
  explicit Descent(Parameters& p) : p_(p) {}
  void on_reduced(std::size_t chunk, std::int64_t) override {
    const std::size_t at = p_.offset(p_.chunks[chunk]);
    for (std::size_t i = at; i < at + p_.count(p_.chunks[chunk]); ++i) p_.weights.data()[i] -= p_.gradients.data()[i];
  }

 private:
  Parameters& p_;
};

TEST(ToyMethod, RanksFollowRankZero) {
  constexpr int ranks = 3, period = 4;
  std::vector<std::vector<float>> weights(ranks), between(ranks);
  run_ranks(ranks, [&](Communicator& comm) {
    Parameters p = parameters_of({{5, 3}, {7, 1}});
    Player player(FollowRankZero{period}.make({comm}), comm);
    player.start(p);
    player.begin_epoch(0);
    Descent sink(p);
    const auto me = static_cast<std::size_t>(comm.rank());
    for (int t = 0; t < period; ++t) {
      between[me].assign(p.weights.data(), p.weights.data() + p.size());
      step(player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 10);
      player.exchange_weights(30);
    }
    weights[me].assign(p.weights.data(), p.weights.data() + p.size());
    player.drain(sink);
    EXPECT_GT(player.metrics_of_others_and_reset().samples, 0);
  });
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
  EXPECT_NE(between[1], between[0]) << "until then each goes its own way";
}

}  // namespace
}  // namespace tutti::toy_method_test
