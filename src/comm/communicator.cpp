// SPDX-License-Identifier: Apache-2.0
// Shared by all communicators: sums in rank order, and which ranks share a host and its cores.
#include "tutti/communicator.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "base/cuda_library.h"
#include "comm/agreement.h"
#include "comm/device_sums.h"

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
  cpu_set_t mine{};
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_SET(0, &mine);
  const std::vector<cpu_set_t> cores = from_all(comm, mine);
  const std::vector<std::string> hosts = hosts_of(comm);
  const auto me = static_cast<std::size_t>(comm.rank());

  HostPlace place;
  place.local_ranks = 0;
  cpu_set_t together;
  CPU_ZERO(&together);
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    if (hosts[r] != hosts[me]) continue;
    if (r == me) place.local_rank = place.local_ranks;
    ++place.local_ranks;
    CPU_OR(&together, &together, &cores[r]);
    cpu_set_t both;
    CPU_AND(&both, &cores[r], &mine);
    if (r != me && CPU_COUNT(&both) > 0) place.shares_cores = true;
  }
  place.hosts = static_cast<int>(std::set(hosts.begin(), hosts.end()).size());
  place.allowed_cores = std::max(1, CPU_COUNT(&mine));
  place.fair_cores = place.shares_cores
                         ? std::max(1, std::min(place.allowed_cores, CPU_COUNT(&together) / place.local_ranks))
                         : place.allowed_cores;
  return place;
}

std::vector<std::string> hosts_of(Communicator& comm) {
  std::array<char, 256> mine{};
  comm.host().copy(mine.data(), mine.size() - 1);
  std::vector<std::string> names;
  for (const auto& name : from_all(comm, mine)) names.emplace_back(name.data());
  return names;
}

std::unique_ptr<DeviceSums> make_device_sums(Communicator& comm, std::string& why) {
  return std::unique_ptr<DeviceSums>(
      cuda_function<DeviceSums*(Communicator&, std::string&)>("tutti_cuda_make_device_sums")(comm, why));
}

}  // namespace tutti
