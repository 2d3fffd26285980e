// SPDX-License-Identifier: Apache-2.0
// time_slice.h -- how long the system lets this process compute before others on the same core get their turn.
#pragma once

namespace tutti {

// Asks Linux 6.12 or newer for slices of 0.1 ms; older ones ignore it. Ranks yield while they wait for each other. If
// another program wants the core, a rank gets it back about 3 ms after each yield by default. The share of the core
// stays the same. Call before threads start; they inherit it.
void ask_for_short_time_slices();

}  // namespace tutti
