// SPDX-License-Identifier: Apache-2.0
#include "train/phase_times.h"

#include <utility>

namespace tutti {

// The step loop counts a whole step as the network's time; exchange and update, which are parts of it, are taken out.
void PhaseTimes::update() {
  ExchangeStats exchange = running_.exchange_stats_and_reset();
  exchange += t_.network->exchange_stats_and_reset();
  const double update = update_.seconds() - std::exchange(updating_, update_.seconds());
  const Clock::time_point now = Clock::now();
  t_.times.exchange += exchange;
  t_.times.update += update;
  t_.times.network -= update + exchange.encode + exchange.wait + exchange.decode;
  t_.times.total += std::chrono::duration<double>(now - std::exchange(since_, now)).count();
}

}  // namespace tutti
