// SPDX-License-Identifier: Apache-2.0
// calls.h -- what the host has put into streams so far, and how often it has waited. Tests look the function up by its
// name, which the real libraries do not have.
#pragma once

#include <cstdint>

struct CudaDoubleCalls {
  std::uint64_t single = 0, graphs = 0;  // kernels, copies and marks one by one; graphs, whatever they hold
  std::uint64_t plans = 0;               // of cuDNN's graphs
  std::uint64_t plain_plans = 0;         // those whose result is a plain image or a weight
  std::uint64_t waits = 0;               // of the host, for a stream or an event
};

extern "C" CudaDoubleCalls cuda_emulator_calls();
