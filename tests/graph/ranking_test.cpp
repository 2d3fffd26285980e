// SPDX-License-Identifier: Apache-2.0
// Criteria over several samples of a minibatch against their definitions: LambdaRank, NDCG1Eval,
// CosDistanceWithNegativeSamples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph_builder.h"

namespace tutti::ranking_test {
namespace {

using test::Announced;
using test::Data;
using test::GraphBuilder;

struct Documents {
  std::vector<float> gains, queries;
};

// Queries of 1, 4, 3 and 5 documents, not sorted by gain, with equal gains, one of them without any gain.
const Documents documents = {{2, 7, 0, 3, 3, 0, 0, 0, 1, 31, 1, 0, 15}, {4, 9, 9, 9, 9, 0, 0, 0, 5, 5, 5, 5, 5}};

std::size_t first_of(const Documents& d, std::size_t i) {
  while (i > 0 && d.queries[i - 1] == d.queries[i]) --i;
  return i;
}
std::size_t last_of(const Documents& d, std::size_t i) {
  const float query = d.queries[i];
  while (i < d.queries.size() && d.queries[i] == query) ++i;
  return i;
}

// Ranks by definition: how many documents of the query stand before i.
double rank_by_score(const Documents& d, const std::vector<float>& scores, std::size_t i) {
  double rank = 0;
  for (std::size_t j = first_of(d, i); j < last_of(d, i); ++j)
    rank += scores[j] > scores[i] || (scores[j] == scores[i] && d.gains[j] < d.gains[i]) ||
            (scores[j] == scores[i] && d.gains[j] == d.gains[i] && j < i);
  return rank;
}
double rank_by_gain(const Documents& d, std::size_t i) {
  double rank = 0;
  for (std::size_t j = first_of(d, i); j < last_of(d, i); ++j)
    rank += d.gains[j] > d.gains[i] || (d.gains[j] == d.gains[i] && j < i);
  return rank;
}
double ideal(const Documents& d, std::size_t i) {
  double sum = 0;
  for (std::size_t j = first_of(d, i); j < last_of(d, i); ++j)
    sum += static_cast<double>(d.gains[j]) / std::log2(2 + rank_by_gain(d, j));
  return sum;
}

double lambda_rank(const Documents& d, const std::vector<float>& scores) {
  double total = 0, queries = 0;
  for (std::size_t q = 0; q < scores.size(); q = last_of(d, q)) {
    double sum = 0;
    for (std::size_t j = q; j < last_of(d, q); ++j)
      sum += static_cast<double>(d.gains[j]) / std::log2(2 + rank_by_score(d, scores, j));
    total += ideal(d, q) > 0 ? sum / ideal(d, q) : 0, ++queries;
  }
  return (1 - total / queries) * 100 * static_cast<double>(scores.size());
}

std::vector<double> lambdas(const Documents& d, const std::vector<float>& scores) {
  std::vector<double> all(scores.size(), 0);
  const auto worth = [&](std::size_t gain_of, std::size_t place_of) {
    return static_cast<double>(d.gains[gain_of]) / std::log2(2 + rank_by_score(d, scores, place_of));
  };
  for (std::size_t i = 0; i < scores.size(); ++i)
    for (std::size_t j = first_of(d, i); j < last_of(d, i); ++j) {
      if (!(d.gains[i] > d.gains[j])) continue;
      const double exchanged = worth(i, j) + worth(j, i) - worth(i, i) - worth(j, j);
      const double pull = std::fabs(exchanged / ideal(d, i)) /
                          (1 + std::exp(static_cast<double>(scores[i]) - static_cast<double>(scores[j])));
      all[i] -= pull, all[j] += pull;
    }
  return all;
}

double ndcg1(const Documents& d, const std::vector<float>& scores) {
  double total = 0, queries = 0;
  for (std::size_t q = 0; q < scores.size(); q = last_of(d, q)) {
    double found = 0, best = 0;
    for (std::size_t j = q; j < last_of(d, q); ++j) {
      if (rank_by_score(d, scores, j) == 0) found = static_cast<double>(d.gains[j]);
      best = std::max(best, static_cast<double>(d.gains[j]));
    }
    total += best > 0 ? found / best : 0, ++queries;
  }
  return total / queries * 100 * static_cast<double>(scores.size());
}

struct Ranked {
  StepMetrics metrics;
  std::vector<float> gradients;
};

// The parameter has one weight for each document, so its gradient are the lambdas.
Ranked ranked(const Documents& d, const std::vector<float>& scores, bool as_sequences, double factor = 1) {
  const std::size_t n = scores.size();
  GraphBuilder b;
  const auto gain = b.input("gain", {1}), query = b.input("query", {1}),
             which = b.input("which", {static_cast<double>(n)});
  auto score = b.add("Times", "score", {b.parameter("S", {1, static_cast<double>(n)}), which});
  // Packed order is another one than that of the data.
  if (as_sequences) score = b.add("TimeReverse", "again", {b.add("TimeReverse", "turned", {score})});
  const auto rank = b.add("LambdaRank", "rank", {gain, score, query});
  b.criterion("ElementTimes", "total", {b.constant("factor", factor), rank});
  b.evaluation("LambdaRank", "lambda", {gain, score, query});
  b.evaluation("NDCG1Eval", "first", {gain, score, query});
  Network network(b.graph(), {});
  Data data(n);
  data.dense("gain", d.gains), data.dense("query", d.queries);
  std::vector<float> one(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) one[i * n + i] = 1;
  data.dense("which", one);
  std::vector<std::int64_t> begin = {0};
  for (std::size_t q = 0; q < n; q = last_of(d, q)) begin.push_back(static_cast<std::int64_t>(last_of(d, q)));
  if (as_sequences)
    for (auto& s : data.batch.streams) s.sequence_begin = begin;
  network.bind(data.infos);
  network.initialize_parameters();
  std::copy(scores.begin(), scores.end(), network.parameters().weights.data());
  network.plan_training(as_sequences ? 5 : 4);  // less than the share: it is not worked off in parts
  Announced sink;
  Ranked r;
  r.metrics = network.forward_backward(data.batch, sink);
  r.gradients = test::gradients(network);
  return r;
}

std::vector<std::vector<float>> some_scores() {
  const std::size_t n = documents.gains.size();
  std::vector<std::vector<float>> all = {std::vector<float>(n, 0.5f), documents.gains};
  std::mt19937 engine(3);
  for (int k = 0; k < 5; ++k) {
    std::vector<float> s(n);
    for (auto& v : s) v = static_cast<float>(engine() % 7) / 2 - 1.5f;  // some are equal
    all.push_back(s);
  }
  return all;
}

TEST(Ranking, AgreesWithItsDefinition) {
  for (const auto& scores : some_scores())
    for (const bool sequences : {false, true}) {
      SCOPED_TRACE(testing::Message() << (sequences ? "queries are sequences" : "one sequence"));
      const Ranked r = ranked(documents, scores, sequences);
      EXPECT_NEAR(r.metrics.criterion, lambda_rank(documents, scores), 1e-3);
      EXPECT_NEAR(r.metrics.evaluations[0].sum, lambda_rank(documents, scores), 1e-3);
      EXPECT_NEAR(r.metrics.evaluations[1].sum, ndcg1(documents, scores), 1e-3);
      const auto wanted = lambdas(documents, scores);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(r.gradients[i], wanted[i], 1e-5) << "document " << i;
    }
}

TEST(Ranking, ThePerfectOrderCostsNothing) {
  const Ranked r = ranked({{3, 2, 1}, {1, 1, 1}}, {5, 0, -5}, false);
  EXPECT_NEAR(r.metrics.criterion, 0, 1e-4);
  EXPECT_NEAR(r.metrics.evaluations[1].sum, 300, 1e-3);
}

TEST(Ranking, TheGradientFollowsTheCriterion) {
  const auto scores = some_scores()[3];
  const Ranked one = ranked(documents, scores, false), twice = ranked(documents, scores, false, -2);
  for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(twice.gradients[i], -2 * one.gradients[i], 1e-6);
}

TEST(Ranking, ScoresThatAreNoNumbersAreSeen) {
  auto scores = some_scores()[3];
  scores[2] = std::nanf("");
  EXPECT_THROW(ranked(documents, scores, false), NumericError);
}

TEST(Ranking, EmptyShares) {
  GraphBuilder b;
  const auto x = b.input("x", {2});
  const auto score = b.add("Times", "score", {b.parameter("S", {1, 2}), x});
  const auto gain = b.input("gain", {1}), query = b.input("query", {1});
  const auto cosine =
      b.add("CosDistanceWithNegativeSamples", "cosine", {x, b.add("Times", "y", {b.parameter("V", {2, 2}), x})});
  b.graph().criteria = {b.add(
      "Plus", "total", {b.add("LambdaRank", "rank", {gain, score, query}), b.add("SumElements", "sum", {cosine})})};
  Network network(b.graph(), {});
  Data data(0);
  data.random("x", 2), data.random("gain", 1), data.random("query", 1);
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(3);
  Announced sink;
  EXPECT_EQ(network.forward_backward(data.batch, sink).criterion, 0);
  EXPECT_THAT(test::gradients(network), testing::Each(0));
}

// Vectors of three elements; b follows a by one sample, or by what the shift says.
TEST(NegativeSamples, AreTheNextOnesOfTheMinibatch) {
  constexpr std::size_t n = 7, dim = 3;
  for (const auto& [shift, negatives] : {std::pair{1.0, 4.0}, {0.0, 2.0}, {3.0, 9.0}, {2.0, 0.0}})
    for (const bool sequences : {false, true}) {
      SCOPED_TRACE(testing::Message() << "shift " << shift << ", " << negatives << " negatives" << sequences);
      GraphBuilder builder;
      auto a = builder.input("a", {dim});
      if (sequences) a = builder.add("TimeReverse", "again", {builder.add("TimeReverse", "turned", {a})});
      const auto op = builder.add("CosDistanceWithNegativeSamples", "op", {a, builder.input("b", {dim})},
                                  {{"shift", shift}, {"negatives", negatives}});
      builder.graph().outputs = {op};
      Network network(builder.graph(), {});
      Data data(n);
      data.random("a", dim), data.random("b", dim);
      const std::vector<std::int64_t> begin = {0, 2, 3, 7};
      if (sequences)
        for (auto& s : data.batch.streams) s.sequence_begin = begin;
      network.bind(data.infos);
      network.initialize_parameters();
      network.plan_evaluation(3, {"op"});
      const auto found = network.forward(data.batch)[0];
      const auto size = static_cast<std::size_t>(negatives) + 1;
      ASSERT_EQ(found.values.size(), n * size);
      const auto &x = data.values(0), &y = data.values(1);
      for (std::size_t c = 0; c < n; ++c)
        for (std::size_t k = 0; k < size; ++k) {
          const std::size_t other = k == 0 ? c : (c + static_cast<std::size_t>(shift) + k - 1) % n;
          double dot = 0, xx = 0, yy = 0;
          for (std::size_t i = 0; i < dim; ++i) {
            const double u = x[c * dim + i], v = y[other * dim + i];
            dot += u * v, xx += u * u, yy += v * v;
          }
          EXPECT_NEAR(found.values[c * size + k], dot / std::sqrt(xx * yy), 1e-5) << "sample " << c << ", " << k;
        }
    }
}

std::string error_of(const std::string& operation, std::vector<std::vector<double>> dims, test::Attributes attributes) {
  GraphBuilder b;
  std::vector<std::size_t> inputs;
  for (std::size_t k = 0; k < dims.size(); ++k) inputs.push_back(b.input("x" + std::to_string(k), dims[k]));
  b.graph().outputs = {b.add(operation, "op", inputs, std::move(attributes))};
  try {
    Network network(b.graph(), {});
    network.plan_evaluation(1, {"op"});
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}

TEST(Ranking, MistakesAreNamed) {
  EXPECT_THAT(error_of("LambdaRank", {{1}, {2}, {1}}, {}), testing::HasSubstr("the score 'x1' [2] has 2 elements"));
  EXPECT_THAT(error_of("CosDistanceWithNegativeSamples", {{3}, {2}}, {}), testing::HasSubstr("do not fit"));
  EXPECT_THAT(error_of("CosDistanceWithNegativeSamples", {{3}, {3}}, {{"negatives", 0.5}}),
              testing::HasSubstr("negatives = 0.5 is not a number of samples"));
}

}  // namespace
}  // namespace tutti::ranking_test
