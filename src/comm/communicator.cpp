// SPDX-License-Identifier: Apache-2.0
// Shared by all communicators: sums in rank order, and which ranks share a host and its cores.
#include "tutti/communicator.h"

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>
#include <vector>

#include "comm/agreement.h"

namespace tutti {
namespace {

template <class T>
void sum_in_rank_order(Communicator& comm, std::span<T> values) {
  if (comm.size() == 1 || values.empty()) return;
  std::vector<T> all(values.size() * static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(values), std::as_writable_bytes(std::span<T>(all)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T sum = all[i];
    for (std::size_t at = i + values.size(); at < all.size(); at += values.size()) sum += all[at];
    values[i] = sum;
  }
}

struct Seat {
  char host[256];
  cpu_set_t cores;
};

}  // namespace

std::unique_ptr<Transfer> Communicator::send(int to, int tag, std::span<const std::byte> bytes) {
  auto transfer = plan_send(to, tag, bytes);
  transfer->start();
  return transfer;
}

std::unique_ptr<Transfer> Communicator::receive(int from, int tag, std::span<std::byte> bytes) {
  auto transfer = plan_receive(from, tag, bytes);
  transfer->start();
  return transfer;
}

void Communicator::all_reduce_sum(std::span<double> values) { sum_in_rank_order(*this, values); }
void Communicator::all_reduce_sum(std::span<std::int64_t> values) { sum_in_rank_order(*this, values); }
void Communicator::all_reduce_sum(std::span<float> values) { sum_in_rank_order(*this, values); }

bool all_agree(Communicator& comm, bool mine) {
  std::int64_t against = mine ? 0 : 1;
  if (comm.size() > 1) comm.all_reduce_sum(std::span(&against, 1));
  return against == 0;
}

HostPlace find_place(Communicator& comm) {
  Seat mine{};
  const std::string host = comm.host();
  std::memcpy(mine.host, host.data(), std::min(host.size(), sizeof mine.host - 1));
  if (sched_getaffinity(0, sizeof mine.cores, &mine.cores) != 0) CPU_SET(0, &mine.cores);

  std::vector<Seat> seats(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span<Seat>(&mine, 1)), std::as_writable_bytes(std::span<Seat>(seats)));

  HostPlace place;
  place.local_ranks = 0;
  std::set<std::string> hosts;
  cpu_set_t together;
  CPU_ZERO(&together);
  for (int r = 0; r < comm.size(); ++r) {
    const Seat& seat = seats[static_cast<std::size_t>(r)];
    hosts.insert(seat.host);
    if (std::strcmp(seat.host, mine.host) != 0) continue;
    if (r == comm.rank()) place.local_rank = place.local_ranks;
    ++place.local_ranks;
    CPU_OR(&together, &together, &seat.cores);
    cpu_set_t both;
    CPU_AND(&both, &seat.cores, &mine.cores);
    if (r != comm.rank() && CPU_COUNT(&both) > 0) place.shares_cores = true;
  }
  place.hosts = static_cast<int>(hosts.size());
  place.allowed_cores = std::max(1, CPU_COUNT(&mine.cores));
  place.fair_cores = place.shares_cores
                         ? std::max(1, std::min(place.allowed_cores, CPU_COUNT(&together) / place.local_ranks))
                         : place.allowed_cores;
  return place;
}

std::vector<std::string> hosts_of(Communicator& comm) {
  struct Name {
    char text[256];
  } mine{};
  const std::string host = comm.host();
  std::memcpy(mine.text, host.data(), std::min(host.size(), sizeof mine.text - 1));
  std::vector<Name> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span<Name>(&mine, 1)), std::as_writable_bytes(std::span<Name>(all)));
  std::vector<std::string> names;
  for (const Name& name : all) names.emplace_back(name.text);
  return names;
}

}  // namespace tutti
