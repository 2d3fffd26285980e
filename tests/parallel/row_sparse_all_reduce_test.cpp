// SPDX-License-Identifier: Apache-2.0
// Sparse gradients: the same bits as the dense exchange in 32 bits, the quantiser of the reference on the sparse rows
// otherwise; lists of every form, any number of ranks, asynchronous too.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "../support/run_ranks.h"
#include "parallel/options.h"
#include "training.h"

namespace tutti::row_sparse_all_reduce_test {
namespace {

using namespace training;
using Lists = std::vector<std::vector<std::uint32_t>>;  // by slice

struct Course {
  int ranks = 2, steps = 4, bits = 32;
  bool sparse = true;  // false: the same gradients, exchanged as dense ones
  double share = 0.1;  // of the rows that a rank touches
  bool async = false;
  std::vector<int> empty_ranks = {};
  int group_size = 0;         // groups of so many sum in full; 0 = there are none
  bool async_inside = false;  // they do so a minibatch behind
  bool library = false;       // sums by the MPI library
};

// Between dense slices, one whose rows are columns, one whose rows are rows, and a vector of single elements.
Parameters parameters(const Course& run) {
  Parameters p = parameters_of({{33, 7}, {9, 1000}, {200, 1}, {70, 13}, {3000, 1}, {5, 5}}, 5000);
  p.sparse_rows.resize(p.slices.size());
  for (const std::size_t s : {1u, 3u, 4u}) p.slices[s].sparse_gradient = run.sparse;
  for (const std::size_t s : {3u, 4u}) p.slices[s].sparse_by_row = true;
  return p;
}

struct Local {
  std::vector<float> gradient;
  Lists lists;
};

// What a rank computes in a step; -0 among the values, and rows that are listed although they are all zero.
Local local(const Course& run, const Parameters& p, int rank, int step) {
  Local l{gradient(p, rank, step), Lists(p.slices.size())};
  const bool empty = std::find(run.empty_ranks.begin(), run.empty_ranks.end(), rank) != run.empty_ranks.end();
  std::mt19937 random(static_cast<unsigned>(77 * rank + step));
  for (std::size_t i = 0; i < l.gradient.size(); ++i) {
    if (random() % 9 == 0) l.gradient[i] = -0.0f;
    if (empty) l.gradient[i] = 0;
  }
  std::vector<float> sparse(l.gradient);
  for (const std::size_t index : {1u, 3u, 4u}) {
    const Slice& s = p.slices[index];
    std::fill_n(sparse.begin() + static_cast<std::ptrdiff_t>(s.offset), s.size(), 0.0f);
    for (std::uint32_t row = 0; row < s.sparse_row_count() && !empty; ++row) {
      // Runs of neighbours and single rows.
      if (static_cast<double>(random() % 1000) >= run.share * 1000 && (row % 7 != 3 || random() % 2)) continue;
      if (run.share < 0.001) continue;
      l.lists[index].push_back(row);
      for (std::size_t d = 0; d < s.sparse_row_size(); ++d) {
        const std::size_t at = s.offset + (s.sparse_by_row ? d * s.rows + row : row * s.rows + d);
        sparse[at] = row % 11 == 5 ? 0 : l.gradient[at];
      }
    }
  }
  l.gradient = std::move(sparse);
  return l;
}

// As the network does: wait for what still reads gradients, zero what is listed, list, compute, announce.
void step(Player& player, Parameters& p, Sink& sink, const Local& l, int t) {
  player.begin_step(100 + t, sink);
  p.gradients.memory().synchronize();
  for (std::size_t s = 0; s < p.slices.size(); ++s) {
    if (!p.slices[s].sparse_gradient) continue;
    clear_sparse_rows(p.slices[s], p.sparse_rows[s], p.gradients);
    p.sparse_rows[s] = l.lists[s];
    const float* g = p.gradients.data() + p.slices[s].offset;
    EXPECT_TRUE(std::all_of(g, g + p.slices[s].size(), [](float v) { return v == 0; })) << "lists name all that is set";
  }
  for (std::size_t i = 0; i < p.chunks.size(); ++i) {
    const std::size_t at = p.offset(p.chunks[i]), n = p.count(p.chunks[i]);
    std::copy_n(l.gradient.begin() + static_cast<std::ptrdiff_t>(at), n, p.gradients.data() + at);
    player.chunk_ready(i);
  }
  StepMetrics metrics = training::metrics(0, t);
  player.finish_gradients(metrics);
}

struct Result {
  std::vector<std::vector<float>> sums;  // by update
  std::vector<Lists> lists;
  std::int64_t bytes = 0;  // by all ranks
};

// Keeps lists, too.
class ListCollector : public Sink {
 public:
  explicit ListCollector(Parameters& p) : parameters_(p), collector_(p) {}
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    if (chunk == 0) lists.emplace_back(parameters_.slices.size());
    const std::size_t slice = parameters_.chunks[chunk].slice;
    lists.back()[slice] = parameters_.sparse_rows[slice];
    collector_.on_reduced(chunk, columns);
  }
  const std::vector<std::vector<float>>& sums() const { return collector_.sums; }
  std::vector<Lists> lists;

 private:
  Parameters& parameters_;
  Collector collector_;
};

ParallelTrainOptions options(const Course& run) {
  ParallelTrainOptions o;
  o.method = DataParallelOptions();
  o.distributed_reading_given = true;
  o.as<DataParallelOptions>().gradient_bits = run.bits;
  o.as<DataParallelOptions>().buffered_async = run.async;
  if (run.library) o.method = AsaOptions(), o.as<AsaOptions>().all_reduce = AsaOptions::AllReduce::library;
  if (run.group_size == 0) return o;
  o.groups = {GroupOptions::Kind::of_size, run.group_size};
  ParallelTrainOptions inside;
  inside.method = DataParallelOptions();
  inside.as<DataParallelOptions>().buffered_async = run.async_inside;
  o.inside_groups.level = {inside};
  return o;
}

Result train(const Course& run, int break_at = -1) {
  Result result;
  std::mutex mutex;
  run_ranks(run.ranks, [&](Communicator& comm) {
    Parameters p = parameters(run);
    auto player = play(options(run), comm);
    player->start(p);
    player->begin_epoch(0);
    ListCollector sink(p);
    for (int t = 0; t < run.steps; ++t) {
      if (t == break_at) {  // a checkpoint, and everything anew from it
        player->drain(sink);
        MemoryArchive archive;
        player->archive(archive);
        archive.rewind_to_load();
        p = parameters(run);
        player = play(options(run), comm);
        player->start(p);
        player->archive(archive);
        player->begin_epoch(0);
      }
      step(*player, p, sink, local(run, p, comm.rank(), t), t);
    }
    player->drain(sink);
    const std::lock_guard lock(mutex);
    if (result.sums.empty()) result.sums = sink.sums(), result.lists = sink.lists;
    EXPECT_EQ(result.lists, sink.lists) << "rank " << comm.rank();
    ASSERT_EQ(result.sums.size(), sink.sums().size());
    for (std::size_t i = 0; i < result.sums.size(); ++i)
      EXPECT_TRUE(reference::same(result.sums[i], sink.sums()[i])) << "rank " << comm.rank();
    result.bytes += player->exchange_stats_and_reset().bytes_sent;
  });
  return result;
}

Lists united(const Course& run, const Parameters& p, int t) {
  Lists all(p.slices.size());
  for (int r = 0; r < run.ranks; ++r) {
    const Lists one = local(run, p, r, t).lists;
    for (std::size_t s = 0; s < all.size(); ++s) {
      std::vector<std::uint32_t> sum;
      std::set_union(all[s].begin(), all[s].end(), one[s].begin(), one[s].end(), std::back_inserter(sum));
      all[s] = sum;
    }
  }
  return all;
}

TEST(RowSparseAllReduce, ThirtyTwoBitsHaveTheBitsOfTheDenseExchange) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (const double share : {0.0, 0.002, 0.1, 0.5, 1.0})
      for (const bool async : {false, true}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << share << (async ? ", asynchronous" : ""));
        Course run{.ranks = ranks, .steps = 3, .share = share, .async = async};
        const Result sparse = train(run);
        const Parameters p = parameters(run);
        run.sparse = false;
        const Result dense = train(run);
        ASSERT_EQ(sparse.sums.size(), dense.sums.size());
        for (std::size_t t = 0; t < dense.sums.size(); ++t) {
          EXPECT_TRUE(reference::same(sparse.sums[t], dense.sums[t])) << "step " << t;
          EXPECT_EQ(sparse.lists[t], united(run, p, static_cast<int>(t)));
        }
      }
}

TEST(RowSparseAllReduce, SumsByTheLibraryListRowsOfAnyRank) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const double share : {0.0, 0.1, 1.0}) {
      Course run{.ranks = ranks, .steps = 3, .share = share, .library = true};
      const Result sparse = train(run);
      const Parameters p = parameters(run);
      run.sparse = false;
      EXPECT_EQ(sparse.sums, train(run).sums);
      ASSERT_EQ(sparse.lists.size(), 3u);
      for (int t = 0; t < 3; ++t) EXPECT_EQ(sparse.lists[static_cast<std::size_t>(t)], united(run, p, t));
    }
}

TEST(RowSparseAllReduce, InGroupsHasTheBitsOfTheDenseExchange) {
  for (const auto& [ranks, size] : {std::pair(4, 2), {3, 2}, {5, 3}, {5, 4}})
    for (const double share : {0.0, 0.01, 0.3, 1.0})
      for (const bool async : {false, true})
        for (const bool async_inside : {false, true}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks by " << size << ", " << share << (async ? ", behind" : "")
                                          << (async_inside ? ", behind within" : ""));
          Course run{.ranks = ranks, .steps = 4, .share = share, .async = async};
          run.group_size = size, run.async_inside = async_inside;
          const Result sparse = train(run);
          const Parameters p = parameters(run);
          run.sparse = false;
          const Result dense = train(run);
          ASSERT_EQ(dense.sums.size(), 4u);
          ASSERT_EQ(sparse.sums.size(), dense.sums.size());
          for (std::size_t t = 0; t < dense.sums.size(); ++t) {
            EXPECT_TRUE(reference::same(sparse.sums[t], dense.sums[t])) << "step " << t;
            EXPECT_EQ(sparse.lists[t], united(run, p, static_cast<int>(t))) << "step " << t;
          }
        }
}

TEST(RowSparseAllReduce, InGroupsGoesOnFromItsArchive) {
  for (const int bits : {32, 2}) {
    Course run{.ranks = 5, .bits = bits};
    run.group_size = 3;
    EXPECT_EQ(train(run, 2).sums, train(run).sums) << bits;
  }
}

TEST(RowSparseAllReduce, RanksWithoutSamples) {
  for (const auto& empty : {std::vector<int>{0}, std::vector<int>{1, 2}, std::vector<int>{0, 1, 2, 3}}) {
    Course run{.ranks = 4, .empty_ranks = empty};
    const Result sparse = train(run);
    run.sparse = false;
    EXPECT_EQ(sparse.sums, train(run).sums);
  }
}

TEST(RowSparseAllReduce, SendsInProportionToSparseRows) {
  Course run{.ranks = 3, .share = 0.001};
  const auto few = train(run).bytes;
  run.share = 1;
  const auto all = train(run).bytes;
  run.sparse = false;
  const auto dense = train(run).bytes;
  EXPECT_LT(few, dense / 3);
  // Everything sparse_rows costs what the dense exchange does and the first messages of three lists.
  EXPECT_GT(all, dense);
  EXPECT_LE(all, dense + run.steps * 3 * 2 * 3 * 1024);
}

// The sparse rows of a rank are quantised with its residual, the sums at the owner; other residuals wait.
TEST(RowSparseAllReduce, FewBitsFollowTheReferenceOnSparseRows) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int bits : {1, 4})
      for (const bool async : {false, true}) {
        const Course run{.ranks = ranks, .steps = 5, .bits = bits, .share = 0.2, .async = async};
        const Result result = train(run);
        const Parameters p = parameters(run);
        std::vector<std::vector<float>> residual(static_cast<std::size_t>(ranks), std::vector<float>(p.size()));
        std::vector<float> owner(p.size());
        for (int t = 0; t < run.steps; ++t) {
          const Lists lists = united(run, p, t);
          std::vector<Local> locals;
          for (int r = 0; r < ranks; ++r) locals.push_back(local(run, p, r, t));
          for (const std::size_t index : {1u, 3u, 4u}) {
            const Slice& s = p.slices[index];
            const auto at = [&](std::uint32_t row, std::size_t d) {
              return s.offset + (s.sparse_by_row ? d * s.rows + row : row * s.rows + d);
            };
            const auto quantised = [&](std::uint32_t row, const std::vector<float>& values, std::vector<float>& rest) {
              std::vector<float> r;
              for (std::size_t d = 0; d < s.sparse_row_size(); ++d) r.push_back(rest[at(row, d)]);
              const auto column = reference::quantize({bits}, values, r);
              for (std::size_t d = 0; d < s.sparse_row_size(); ++d) rest[at(row, d)] = r[d];
              return column.values;
            };
            for (const auto row : lists[index]) {
              std::vector<float> sum(s.sparse_row_size());
              for (int r = 0; r < ranks; ++r) {
                const Local& l = locals[static_cast<std::size_t>(r)];
                if (!std::binary_search(l.lists[index].begin(), l.lists[index].end(), row)) continue;
                std::vector<float> values;
                for (std::size_t d = 0; d < s.sparse_row_size(); ++d) values.push_back(l.gradient[at(row, d)]);
                const auto sent = quantised(row, values, residual[static_cast<std::size_t>(r)]);
                for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += sent[d];
              }
              if (ranks > 1) sum = quantised(row, sum, owner);
              for (std::size_t d = 0; d < sum.size(); ++d)
                ASSERT_EQ(result.sums[static_cast<std::size_t>(t)][at(row, d)], sum[d])
                    << ranks << " ranks, " << bits << " bits, step " << t << ", slice " << index << ", row " << row;
            }
          }
        }
      }
}

// 1 bit, then 32: the first step in 32 bits lists and delivers every row that something was held back of.
TEST(RowSparseAllReduce, ChangingToThirtyTwoBitsDeliversTheResiduals) {
  for (const int ranks : {1, 3}) {
    const Course run{.ranks = ranks, .share = 0.2};
    auto o = options(run);
    o.as<DataParallelOptions>().gradient_bits.values = {1, 32};
    run_ranks(ranks, [&](Communicator& comm) {
      Parameters p = parameters(run);
      const auto player = play(o, comm);
      player->start(p);
      ListCollector sink(p);
      for (int t = 0; t < 5; ++t) {
        if (t % 3 == 0) player->begin_epoch(t / 3);
        step(*player, p, sink, local(run, p, comm.rank(), t), t);
      }
      std::vector<double> sent(p.size()), wanted(p.size());
      for (int t = 0; t < 4; ++t)
        for (std::size_t i = 0; i < p.size(); ++i) {
          sent[i] += sink.sums()[static_cast<std::size_t>(t)][i];
          EXPECT_TRUE(std::isfinite(sent[i]));
        }
      for (int t = 0; t < 4; ++t)
        for (int r = 0; r < ranks; ++r) {
          const auto g = local(run, p, r, t).gradient;
          for (std::size_t i = 0; i < p.size(); ++i) wanted[i] += g[i];
        }
      for (std::size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(sent[i], wanted[i], 1e-4) << i;
      EXPECT_EQ(sink.lists[4], united(run, p, 4)) << "once and not again";
    });
  }
}

TEST(RowSparseAllReduce, ContinuesFromItsArchive) {
  for (const int bits : {1, 32})
    for (const bool async : {false, true}) {
      const Course run{.ranks = 3, .steps = 6, .bits = bits, .async = async};
      EXPECT_EQ(train(run).sums, train(run, 3).sums) << bits << " bits";
    }
}

// Ranks that train alone first keep their own lists.
TEST(RowSparseAllReduce, WarmStartHandsOutLocalLists) {
  const Course run{};
  auto o = options(run);
  o.start_epoch = 2;
  run_ranks(2, [&](Communicator& comm) {
    Parameters p = parameters(run);
    const auto player = play(o, comm);
    player->start(p);
    for (int epoch = 0; epoch < 3; ++epoch) {
      player->begin_epoch(epoch);
      ListCollector sink(p);
      const Local mine = local(run, p, comm.rank(), epoch);
      step(*player, p, sink, mine, epoch);
      EXPECT_EQ(sink.lists[0], epoch == 0 ? mine.lists : united(run, p, epoch));
    }
  });
}

}  // namespace
}  // namespace tutti::row_sparse_all_reduce_test
