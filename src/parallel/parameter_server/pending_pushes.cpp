// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/pending_pushes.h"

#include <algorithm>

#include "base/nap.h"

namespace tutti {

void PendingPushes::request(int handler, std::size_t response_bytes) {
  pending_.push_back({handler, response_bytes, codec_.record_event()});
  poll();
}

void PendingPushes::poll() {
  for (; first_ < pending_.size() && codec_.query(pending_[first_].event); ++first_)
    server_.request(pending_[first_].handler, pending_[first_].response_bytes);
  if (first_ < pending_.size()) return;
  pending_.clear();
  first_ = 0;
}

bool PendingPushes::left(int handler) const {
  return std::none_of(pending_.begin() + static_cast<std::ptrdiff_t>(first_), pending_.end(),
                      [&](const Push& q) { return q.handler == handler; });
}

std::span<const std::byte> PendingPushes::wait(int handler) {
  const auto nothing_else = [&] { return pending_.empty() || (left(handler) && server_.responded(handler)); };
  for (Nap nap; !nothing_else(); nap.nothing_happened()) poll();
  return server_.wait(handler);
}

}  // namespace tutti
