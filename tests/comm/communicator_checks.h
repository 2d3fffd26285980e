// SPDX-License-Identifier: Apache-2.0
// communicator_checks.h -- what every communicator must do; run over threads and over MPI.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/error.h"
#include "tutti/shared_memory.h"

namespace tutti::checks {

inline std::vector<std::byte> pattern(std::size_t n, int seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<std::size_t>(seed));
  return bytes;
}

// Each rank to each other one, several lengths, the same plans started again and again, receives in another order.
inline void transfers(Communicator& comm) {
  const int n = comm.size(), me = comm.rank();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{100003}}) {
    std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(n)), in(static_cast<std::size_t>(n));
    std::vector<std::unique_ptr<Transfer>> receives, sends;
    for (int r = 0; r < n; ++r) {
      if (r == me) continue;
      const auto at = static_cast<std::size_t>(r);
      out[at].resize(length);
      in[at].resize(length);
      receives.push_back(comm.plan_receive(r, 7, in[at]));
      sends.push_back(comm.plan_send(r, 7, out[at]));
    }
    for (int round = 0; round < 3; ++round) {
      for (auto& t : receives) t->start();
      for (int r = 0; r < n; ++r)
        if (r != me) std::ranges::copy(pattern(length, 100 * me + r + round), out[static_cast<std::size_t>(r)].begin());
      for (auto& t : sends) t->start();
      for (auto t = receives.rbegin(); t != receives.rend(); ++t) (*t)->wait();
      for (auto& t : sends) t->wait();
      for (auto& t : receives) EXPECT_TRUE(t->done());
      for (int r = 0; r < n; ++r)
        EXPECT_TRUE(r == me || in[static_cast<std::size_t>(r)] == pattern(length, 100 * r + me + round))
            << "from " << r;
    }
  }
}

// Parts of messages to several ranks start in turn; some messages have fewer parts than others, some none.
inline void transfers_in_turn(Communicator& comm) {
  const int n = comm.size(), me = comm.rank();
  constexpr std::size_t lengths[] = {2500, 0, 10, 100003};
  const auto length = [&](int from, int to) { return lengths[static_cast<std::size_t>(from + 2 * to) % 4]; };
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(n)), in(static_cast<std::size_t>(n));
  std::vector<std::unique_ptr<Transfer>> receives, sends;
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    const auto at = static_cast<std::size_t>(r);
    out[at].resize(length(me, r));
    in[at].resize(length(r, me));
    receives.push_back(comm.plan_receive(r, 9, in[at]));
    sends.push_back(comm.plan_send(r, 9, out[at]));
  }
  for (int round = 0; round < 3; ++round) {
    for (auto& t : receives) t->start();
    for (int r = 0; r < n; ++r)
      if (r != me)
        std::ranges::copy(pattern(length(me, r), 100 * me + r + round), out[static_cast<std::size_t>(r)].begin());
    start_in_turn(sends);
    for (auto& t : receives) t->wait();
    for (auto& t : sends) t->wait();
    for (int r = 0; r < n; ++r)
      EXPECT_TRUE(r == me || in[static_cast<std::size_t>(r)] == pattern(length(r, me), 100 * r + me + round))
          << "from " << r;
  }
}

// The same plans with lengths that change from round to round, none and all included.
inline void shorter_transfers(Communicator& comm) {
  const int n = comm.size(), me = comm.rank();
  constexpr std::size_t planned = 5000;
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(n)), in(static_cast<std::size_t>(n));
  std::vector<std::unique_ptr<Transfer>> receives, sends;
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    const auto at = static_cast<std::size_t>(r);
    out[at].resize(planned);
    in[at].resize(planned);
    receives.push_back(comm.plan_receive(r, 8, in[at]));
    sends.push_back(comm.plan_send(r, 8, out[at]));
  }
  for (const std::size_t length : {planned, std::size_t{7}, std::size_t{0}, planned, std::size_t{4999}}) {
    for (auto& bytes : in) std::ranges::fill(bytes, std::byte{42});
    for (auto& t : receives) t->start(length);
    for (int r = 0; r < n; ++r)
      if (r != me) std::ranges::copy(pattern(planned, 10 * me + r), out[static_cast<std::size_t>(r)].begin());
    for (auto& t : sends) t->start(length);
    for (auto& t : receives) t->wait();
    for (auto& t : sends)
      while (!t->done()) {
      }
    for (int r = 0; r < n; ++r) {
      if (r == me) continue;
      auto expected = pattern(planned, 10 * r + me);
      std::fill(expected.begin() + static_cast<std::ptrdiff_t>(length), expected.end(), std::byte{42});
      EXPECT_EQ(in[static_cast<std::size_t>(r)], expected) << length << " bytes from " << r;
    }
  }
}

// A watch sees what has come of transfers of changing lengths; those that nobody sends stay open. What it has seen of
// a transfer is not lost on one who then waits for the rest.
inline void watched_transfers(Communicator& comm) {
  const int n = comm.size(), me = comm.rank();
  constexpr std::size_t planned = 5000;
  std::vector<std::vector<std::byte>> in(static_cast<std::size_t>(n), std::vector<std::byte>(planned));
  std::vector<std::unique_ptr<Transfer>> transfers, never_sent;
  std::vector<Transfer*> all;
  const auto out = pattern(planned, me);
  std::byte nothing{};
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    transfers.push_back(comm.plan_receive(r, 9, in[static_cast<std::size_t>(r)]));
    transfers.push_back(comm.plan_send(r, 9, out));
    never_sent.push_back(comm.receive(r, 10, {&nothing, 1}));
    all.push_back(never_sent.back().get());
  }
  for (const auto& t : transfers) all.push_back(t.get());
  const auto watch = comm.plan_poller(all.size());
  const auto complete = [](const auto& t) { return t->complete(); };
  for (const bool waits : {false, true})
    for (const std::size_t length : {planned, std::size_t{7}, std::size_t{0}, planned, std::size_t{4999}}) {
      for (auto& bytes : in) std::ranges::fill(bytes, std::byte{42});
      for (auto& t : transfers) t->start(length);
      do watch->poll(all);
      while (!waits && !std::ranges::all_of(transfers, complete));
      for (auto& t : transfers) t->wait();
      EXPECT_TRUE(std::ranges::none_of(never_sent, complete));
      for (int r = 0; r < n; ++r) {
        if (r == me) continue;
        auto expected = pattern(planned, r);
        std::fill(expected.begin() + static_cast<std::ptrdiff_t>(length), expected.end(), std::byte{42});
        EXPECT_EQ(in[static_cast<std::size_t>(r)], expected) << length << " bytes from " << r;
      }
    }
}

// Messages of one pair: in order within a tag, and a later tag does not wait for an earlier one.
inline void order_and_tags(Communicator& comm) {
  if (comm.size() < 2 || comm.rank() > 1) return;
  const int peer = 1 - comm.rank();
  std::vector<int> out{1, 2, 3}, in(3);
  std::vector<std::unique_ptr<Transfer>> all;
  const auto bytes = [](int& v) { return std::as_writable_bytes(std::span<int>(&v, 1)); };
  all.push_back(comm.receive(peer, 32767, bytes(in[2])));
  all.push_back(comm.receive(peer, 0, bytes(in[0])));
  all.push_back(comm.receive(peer, 0, bytes(in[1])));
  all.push_back(comm.send(peer, 0, bytes(out[0])));
  all.push_back(comm.send(peer, 0, bytes(out[1])));
  all.push_back(comm.send(peer, 32767, bytes(out[2])));
  for (auto& t : all)
    while (!t->done()) {
    }
  EXPECT_EQ(in, out);
}

inline void collectives(Communicator& comm) {
  const int n = comm.size(), me = comm.rank();
  for (int root = 0; root < n; ++root) {
    std::vector<std::byte> bytes = me == root ? pattern(5000, root) : std::vector<std::byte>(5000);
    comm.broadcast(root, bytes);
    EXPECT_EQ(bytes, pattern(5000, root));
  }
  std::vector<std::byte> all(static_cast<std::size_t>(n) * 3000);
  comm.all_gather(pattern(3000, me), all);
  for (int r = 0; r < n; ++r) {
    const auto part = std::span<std::byte>(all).subspan(static_cast<std::size_t>(r) * 3000, 3000);
    EXPECT_EQ(std::vector<std::byte>(part.begin(), part.end()), pattern(3000, r));
  }
  comm.barrier();
}

// Sums that depend on the order of the ranks have one order.
inline void sums(Communicator& comm) {
  const auto value = [](int rank, int i) { return 1.0 / (3 + rank * 7 + i) * (rank % 2 ? 1e9 : 1.0); };
  std::vector<double> values(20), expected(20);
  std::vector<std::int64_t> counts(20), expected_counts(20);
  for (int i = 0; i < 20; ++i) {
    const auto at = static_cast<std::size_t>(i);
    values[at] = value(comm.rank(), i);
    counts[at] = (std::int64_t{1} << 60) / (comm.rank() + 2) + i;
    for (int r = 0; r < comm.size(); ++r) {
      expected[at] = r == 0 ? value(0, i) : expected[at] + value(r, i);
      expected_counts[at] += (std::int64_t{1} << 60) / (r + 2) + i;
    }
  }
  comm.all_reduce_sum(values);
  comm.all_reduce_sum(counts);
  EXPECT_EQ(values, expected);
  EXPECT_EQ(counts, expected_counts);
}

inline void split(Communicator& comm) {
  const auto part = comm.split(comm.rank() % 2);
  EXPECT_EQ(part->rank(), comm.rank() / 2);
  EXPECT_EQ(part->size(), (comm.size() + 1 - comm.rank() % 2) / 2);
  std::vector<std::int64_t> sum{comm.rank()};
  part->all_reduce_sum(sum);
  std::int64_t expected = 0;
  for (int r = comm.rank() % 2; r < comm.size(); r += 2) expected += r;
  EXPECT_EQ(sum[0], expected);
  transfers(*part);
}

inline void place(Communicator& comm) {
  const HostPlace place = find_place(comm);
  EXPECT_EQ(place.hosts, 1);
  EXPECT_EQ(place.local_ranks, comm.size());
  EXPECT_EQ(place.local_rank, comm.rank());
  EXPECT_GE(place.allowed_cores, place.fair_cores);
  EXPECT_GE(place.fair_cores, 1);
  EXPECT_FALSE(comm.size() == 1 && place.shares_cores);
}

// Ranks bring parts of different lengths and see those of all, zeroed; a counter says when they have been written, and
// again when they have been read.
inline void shared_memory(Communicator& comm) {
  struct Counters {
    SharedCounter written, read;
  };
  const int n = comm.size(), me = comm.rank();
  for (const std::size_t most : {std::size_t{0}, std::size_t{999}, std::size_t{5'000'001}}) {
    const auto length = [&](int rank) { return most / static_cast<std::size_t>(rank + 1); };
    const auto memory = comm.share_memory(sizeof(Counters) + length(me));
    ASSERT_NE(memory, nullptr);
    const auto counters = [&](int rank) { return reinterpret_cast<Counters*>(memory->of(rank).data()); };
    const auto part = [&](int rank) { return memory->of(rank).subspan(sizeof(Counters), length(rank)); };
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->of(me).data()) % 64, 0u);
    for (const std::byte b : part(me)) ASSERT_EQ(b, std::byte{0});
    for (std::uint64_t round = 1; round <= 3; ++round) {
      const auto wait = [&](SharedCounter Counters::*which) {
        for (int r = 0; r < n; ++r)
          while (!(counters(r)->*which).reached(round)) memory->poll(), std::this_thread::yield();
      };
      std::ranges::copy(pattern(length(me), me + static_cast<int>(round)), part(me).begin());
      counters(me)->written.raise_to(round);
      wait(&Counters::written);
      for (int r = 0; r < n; ++r) {
        const auto expected = pattern(length(r), r + static_cast<int>(round));
        EXPECT_TRUE(std::ranges::equal(part(r), expected)) << "of " << r;
      }
      counters(me)->read.raise_to(round);
      wait(&Counters::read);
    }
  }
}

inline void everything(Communicator& comm) {
  transfers(comm);
  transfers_in_turn(comm);
  shorter_transfers(comm);
  watched_transfers(comm);
  order_and_tags(comm);
  collectives(comm);
  sums(comm);
  split(comm);
  place(comm);
  shared_memory(comm);
  shared_memory(*comm.split(comm.rank() % 2));
}

}  // namespace tutti::checks
