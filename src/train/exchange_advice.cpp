// SPDX-License-Identifier: Apache-2.0
#include "train/exchange_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

// The factor by which exchanges must become rarer so that they take half of the time that the other ranks save.
std::int64_t rarer_by(double exchange, double saved) {
  std::int64_t factor = 2;
  while (static_cast<double>(factor) * saved < 2 * exchange && factor < 1024) factor *= 2;
  return factor;
}

}  // namespace

std::string slow_exchange_warning(const EpochTimes& t, const SharedEpoch& e) {
  const ExchangeStats& x = t.exchange;
  if (e.ranks < 2 || x.exchanges == 0) return {};
  const double compute = t.network + t.update, exchange = x.encode + x.wait + x.decode;
  const double alone = e.ranks * compute + t.read;
  if (t.total <= alone || exchange < 0.5 * (t.total - alone)) return {};
  const double sent = static_cast<double>(x.bytes_sent) / 1e6;
  std::string text = fmt::format(
      "epoch {} took {:.3g} s on {} ranks; one rank alone would need about {:.3g} s ({} times the {:.3g} s that this "
      "rank "
      "computed). The exchange took {:.3g} s for {:.3g} MB sent by this rank ({:.3g} MB/s)",
      e.epoch, t.total, e.ranks, alone, e.ranks, compute, exchange, sent, sent / std::max(exchange, 1e-9));
  const std::int64_t factor = rarer_by(exchange, (e.ranks - 1) * compute);
  if (2 * x.exchanges > e.minibatches)
    text += fmt::format(
        ", after every {} samples of a rank (minibatchSize = {}). fix: minibatchSize = {} or more, fewer gradientBits, "
        "a "
        "method that exchanges less often (BlockMomentumSGD), or fewer ranks",
        std::max<std::int64_t>(1, e.minibatch / e.ranks), e.minibatch, e.minibatch * factor);
  else
    text += fmt::format(
        " in {} exchanges of {} minibatches. fix: exchange {} times less often (blockSize, period, syncPeriod), fewer "
        "exchangeBits, or fewer ranks",
        x.exchanges, e.minibatches, factor);
  return text;
}

}  // namespace tutti
