// SPDX-License-Identifier: Apache-2.0
#include "graph/rank_transfers.h"

#include <algorithm>

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
    const auto steps_to = [&](const Block& b) { return (b.rank - ranks.rank() + ranks.size()) % ranks.size(); };
    std::vector<Block> in_turn(blocks.begin(), blocks.end());
    std::ranges::stable_sort(in_turn, {}, steps_to);
    for (const Block& b : in_turn) {
      if (b.count == 0) continue;
      const std::span<std::byte> bytes = std::as_writable_bytes(std::span(b.data, b.count));
      if (b.sends)
        plan->sends.push_back(ranks.plan_send(b.rank, tag, bytes));
      else
        plan->receives.push_back(ranks.plan_receive(b.rank, tag, bytes));
    }
    plans_.push_back(std::move(plan));
  }
  for (const auto& t : plans_.back()->receives) t->start();
  start_in_turn(plans_.back()->sends);
}

void RankTransfers::poll() {
  for (const auto* transfers : {&plans_.back()->sends, &plans_.back()->receives})
    for (const auto& t : *transfers) static_cast<void>(t->done());
}

void RankTransfers::wait() {
  for (const auto* transfers : {&plans_.back()->receives, &plans_.back()->sends})
    for (const auto& t : *transfers) t->wait();
}

std::int64_t RankTransfers::values_sent() const {
  std::int64_t sum = 0;
  for (const Block& b : plans_.back()->blocks) sum += b.sends ? static_cast<std::int64_t>(b.count) : 0;
  return sum;
}

}  // namespace tutti::graph
