// SPDX-License-Identifier: Apache-2.0
// AllReduce over transports x ranks x sizes x bits: after every step each rank has the bits of a plain loop that
// encodes the columns of every rank, adds them in rank order and encodes the sum, with both residuals.
#include "collective/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "../support/run_ranks.h"
#include "collective/inter_group_columns.h"
#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti::all_reduce_test {
namespace {

struct Size {
  std::size_t rows = 0, columns = 0, chunk_columns = 0;
};

Parameters parameters_of(const std::vector<Size>& sizes) {
  Parameters p;
  std::size_t floats = 0;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    Slice slice;
    slice.name = "W" + std::to_string(s);
    slice.offset = floats, slice.rows = sizes[s].rows, slice.columns = sizes[s].columns;
    for (std::size_t first = 0; first < slice.columns; first += sizes[s].chunk_columns)
      p.chunks.push_back({s, first, std::min(sizes[s].chunk_columns, slice.columns - first)});
    floats += (slice.size() + 15) / 16 * 16;
    p.slices.push_back(slice);
  }
  p.weights = FloatBuffer(floats), p.gradients = FloatBuffer(floats);
  p.sparse_rows.resize(sizes.size());
  return p;
}

// Of a rank in a step; the padding between slices stays zero.
std::vector<float> gradient(const Parameters& p, int rank, int step) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + rank));
  std::normal_distribution<float> normal(0, 1 + static_cast<float>(rank));
  std::vector<float> g(p.size());
  for (const Slice& s : p.slices)
    for (std::size_t i = 0; i < s.size(); ++i) g[s.offset + i] = random() % 5 == 0 ? 0 : normal(random);
  return g;
}

class Reference {
 public:
  Reference(const Parameters& p, const Codec& codec, int ranks)
      : p_(p),
        codec_(codec),
        residual_(static_cast<std::size_t>(ranks), std::vector<float>(p.size())),
        owner_(p.size()) {}

  std::vector<float> sum(const std::vector<std::vector<float>>& gradients) {
    std::vector<float> all(p_.size());
    for (const Slice& s : p_.slices) {
      std::vector<std::byte> bytes(codec_.bytes(s.rows, 1));
      std::vector<float> column(s.rows);
      for (std::size_t c = 0; c < s.columns; ++c) {
        const std::size_t at = s.offset + c * s.rows;
        for (std::size_t r = 0; r < gradients.size(); ++r) {
          codec_.encode(s.rows, 1, &gradients[r][at], codec_.lossy() ? &residual_[r][at] : nullptr, bytes.data());
          r == 0 ? codec_.decode(s.rows, 1, bytes.data(), column.data())
                 : codec_.decode_add(s.rows, 1, bytes.data(), column.data());
        }
        if (gradients.size() > 1) {  // the version of a rank alone is the sum
          codec_.encode(s.rows, 1, column.data(), codec_.lossy() ? &owner_[at] : nullptr, bytes.data());
          codec_.decode(s.rows, 1, bytes.data(), column.data());
        }
        std::ranges::copy(column, all.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    return all;
  }

 private:
  const Parameters& p_;
  const Codec& codec_;
  std::vector<std::vector<float>> residual_;  // by rank
  std::vector<float> owner_;
};

void step(AllReduce& all_reduce, const Parameters& p) {
  for (std::size_t b = 0; b < all_reduce.buckets(); ++b) all_reduce.arm(b);
  for (std::size_t c = 0; c < p.chunks.size(); ++c) {
    all_reduce.encode(c);
    if (all_reduce.last_of_bucket(c)) all_reduce.launch(all_reduce.bucket_of(c));
  }
  for (std::size_t b = 0; b < all_reduce.buckets(); ++b) all_reduce.complete(b);
  for (std::size_t c = 0; c < p.chunks.size(); ++c) all_reduce.decode(c);
  all_reduce.flush();
}

// The groups' sums are summed between the groups by the first ranks of each, which divide the columns, and broadcast
// within: the bits of as many ranks as there are groups, for any number of ranks that divide the columns.
void hierarchical_step(InterGroupColumns& columns, AllReduce* between, const Parameters& p) {
  for (std::size_t c = 0; c < p.chunks.size(); ++c) columns.load(c);
  if (between) step(*between, columns.mine());
  columns.arm();
  for (std::size_t c = 0; between && c < p.chunks.size(); ++c) columns.send(c);
  for (std::size_t r = 0; r < columns.runs(); ++r) columns.complete(r), columns.store(r);
  columns.flush();
}

void expect_bits(const std::vector<float>& expected, const Parameters& p, int rank, int t) {
  for (std::size_t i = 0; i < p.size(); ++i)
    ASSERT_EQ(std::memcmp(&expected[i], p.gradients.data() + i, sizeof(float)), 0)
        << "rank " << rank << ", step " << t << ", value " << i << ": " << expected[i] << " and "
        << p.gradients.data()[i];
}

TEST(HierarchicalAllReduce, HasTheBitsOfAsManyRanksAsGroups) {
  const std::vector<std::vector<int>> layouts{{0, 0, 1, 1}, {0, 0, 0, 1, 1}, {0, 1, 2, 2}, {0, 0, 0}};  // group by rank
  const std::vector<Size> network{{5, 3, 2}, {1, 7, 7}, {64, 33, 10}, {200, 1, 1}, {7, 1000, 300}};
  for (const std::vector<int>& groups : layouts)
    for (const Transport transport : {Transport::messages, Transport::shared_memory})
      for (const int bits : {32, 16, 4, 2, 1}) {
        const int n = groups.back() + 1, ranks = static_cast<int>(groups.size());
        int smallest = ranks;
        for (int g = 0; g < n; ++g) smallest = std::min(smallest, static_cast<int>(std::ranges::count(groups, g)));
        for (int dividing = 1; dividing <= smallest; ++dividing) {
          SCOPED_TRACE(testing::Message()
                       << ranks << " ranks, " << n << " groups, " << dividing << " divide, " << bits);
          run_ranks(ranks, [&](Communicator& comm) {
            const int mine = groups[static_cast<std::size_t>(comm.rank())];
            const auto group = comm.split(mine);
            const auto peers = comm.split(std::min(group->rank(), dividing));
            Parameters p = parameters_of(network);
            const auto codec = make_codec(CodecOptions{.bits = bits});
            InterGroupColumns columns(*group, p, dividing);
            FloatBuffer local, owner;
            std::unique_ptr<AllReduce> between;
            if (columns.is_inter_group_rank()) {
              const std::size_t size = columns.mine().size();
              between = std::make_unique<AllReduce>(*peers, columns.mine(), *codec,
                                                    AllReduceSettings{.transport = transport, .bucket_values = 40});
              if (codec->lossy()) {
                local = FloatBuffer(size), owner = FloatBuffer(size);
                between->use({local.data(), owner.data()});
              }
            }
            Reference reference(p, *codec, n);
            for (int t = 0; t < 3; ++t) {
              std::vector<std::vector<float>> sums;
              for (int g = 0; g < n; ++g) sums.push_back(gradient(p, g, t));
              std::ranges::copy(sums[static_cast<std::size_t>(mine)], p.gradients.data());
              hierarchical_step(columns, between.get(), p);
              expect_bits(reference.sum(sums), p, comm.rank(), t);
            }
          });
        }
      }
}

struct Case {
  Transport transport = Transport::messages;
  int ranks = 1, bits = 32;
};

class AllReduceTest : public testing::TestWithParam<Case> {};

TEST_P(AllReduceTest, HasTheBitsOfAPlainLoop) {
  const auto [transport, ranks, bits] = GetParam();
  const std::vector<std::vector<Size>> networks = {
      {{1, 1, 1}},                                             // one value: most ranks own nothing
      {{5, 3, 2}, {1, 7, 7}, {64, 33, 10}},                    // small slices, uneven last chunks
      {{200, 1, 1}, {7, 1000, 300}, {1, 1, 1}, {512, 20, 7}},  // columns longer and shorter than a codec's block
      {{2, 4, 1}, {2, 4, 1}, {2, 4, 1}, {2, 4, 1}, {2, 4, 1}, {3, 1, 1}},  // many chunks in one bucket
  };
  for (std::size_t n = 0; n < networks.size(); ++n)
    for (const std::size_t bucket_values : {std::size_t{0}, std::size_t{40}}) {
      SCOPED_TRACE(n);
      run_ranks(ranks, [&](Communicator& comm) {
        Parameters p = parameters_of(networks[n]);
        const auto codec = make_codec(CodecOptions{.bits = bits});
        FloatBuffer local, owner;
        if (codec->lossy()) local = FloatBuffer(p.size()), owner = FloatBuffer(p.size());
        AllReduce all_reduce(comm, p, *codec, {.transport = transport, .bucket_values = bucket_values});
        if (codec->lossy()) all_reduce.use({local.data(), owner.data()});
        Reference reference(p, *codec, ranks);
        for (int t = 0; t < 4; ++t) {
          std::vector<std::vector<float>> gradients;
          for (int r = 0; r < ranks; ++r) gradients.push_back(gradient(p, r, t));
          std::ranges::copy(gradients[static_cast<std::size_t>(comm.rank())], p.gradients.data());
          step(all_reduce, p);
          expect_bits(reference.sum(gradients), p, comm.rank(), t);
        }
      });
    }
}

TEST(AllReduce, AllBucketsTogetherAreOneExchange) {
  run_ranks(2, [](Communicator& comm) {
    Parameters p = parameters_of({{64, 8, 8}, {64, 8, 8}, {64, 8, 8}});
    const auto codec = make_codec(CodecOptions{.bits = 32});
    AllReduce all_reduce(comm, p, *codec, {.transport = Transport::messages, .bucket_values = 400});
    ASSERT_EQ(all_reduce.buckets(), 3U);
    for (int t = 0; t < 4; ++t) step(all_reduce, p);
    EXPECT_EQ(all_reduce.exchange_stats_and_reset().exchanges, 4);
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Transport transport : {Transport::messages, Transport::shared_memory})
    for (const int ranks : {1, 2, 3, 5})
      for (const int bits : {1, 2, 4, 8, 16, 32}) all.push_back({transport, ranks, bits});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transports, AllReduceTest, testing::ValuesIn(cases()), [](const auto& c) {
  return std::string(c.param.transport == Transport::messages ? "Messages" : "SharedMemory") + "On" +
         std::to_string(c.param.ranks) + "RanksIn" + std::to_string(c.param.bits) + "Bits";
});

}  // namespace
}  // namespace tutti::all_reduce_test
