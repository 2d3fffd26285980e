// SPDX-License-Identifier: Apache-2.0
#include "graph/rank_transfers.h"

#include <algorithm>
#include <utility>

#include "graph/kernel.h"

namespace tutti::graph {

void RankTransfers::start(Communicator& ranks, int tag, std::span<const Block> blocks) {
  const auto known =
      std::find_if(plans_.begin(), plans_.end(), [&](const auto& p) { return std::ranges::equal(p->blocks, blocks); });
  if (known != plans_.end()) {
    std::rotate(known, known + 1, plans_.end());
  } else {
    if (plans_.size() == most_shapes) plans_.erase(plans_.begin());
    auto plan = std::make_unique<Plan>();
    plan->blocks.assign(blocks.begin(), blocks.end());
    // Rank r sends to r + 1 first, so that the ranks do not all send to the same rank at once.
    const auto turn = [&](const Block& b) {
      return std::pair(b.sends, (b.rank - ranks.rank() + ranks.size()) % ranks.size());
    };
    std::vector<Block> in_turn(blocks.begin(), blocks.end());
    std::ranges::stable_sort(in_turn, {}, turn);
    for (const Block& b : in_turn) {
      if (b.count == 0) continue;
      const std::span<std::byte> bytes = std::as_writable_bytes(std::span(b.data, b.count));
      plan->transfers.push_back(b.sends ? ranks.plan_send(b.rank, tag, bytes) : ranks.plan_receive(b.rank, tag, bytes));
      if (!b.sends) ++plan->receives;
    }
    plans_.push_back(std::move(plan));
  }
  const std::span transfers(plans_.back()->transfers);
  for (const auto& t : transfers.first(plans_.back()->receives)) t->start();
  start_in_turn(transfers.subspan(plans_.back()->receives));
}

void RankTransfers::poll() {
  for (const auto& t : plans_.back()->transfers) static_cast<void>(t->done());
}

void RankTransfers::wait() {
  for (const auto& t : plans_.back()->transfers) t->wait();
}

std::int64_t RankTransfers::values_sent() const {
  std::int64_t sum = 0;
  for (const Block& b : plans_.back()->blocks) sum += b.sends ? static_cast<std::int64_t>(b.count) : 0;
  return sum;
}

}  // namespace tutti::graph
