// SPDX-License-Identifier: Apache-2.0
// simulator.h -- `trainer simulate`: measures the parts of a config's step on this host, and computes from them what
// every method reaches on clusters of other sizes and links.
#pragma once

namespace tutti::simulator {

// `argv` begins after "simulate". Starts the ranks that measure and passes on what rank 0 prints.
int run(int argc, const char* const* argv);
// The command of a rank; `argv` as main gets it, "simulate-rank" first.
int run_rank(int argc, char** argv);

}  // namespace tutti::simulator
