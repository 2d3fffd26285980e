// SPDX-License-Identifier: Apache-2.0
// cpu.h -- how many threads this rank computes with, and on which cores. Called once, before any kernel library starts
// its own threads.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/communicator.h"
#include "tutti/config.h"

namespace tutti::actions {

// The value of OMP_NUM_THREADS; 0 if it is not set or not a positive number.
std::int64_t threads_of_environment();
// numCPUThreads of the configuration, else OMP_NUM_THREADS; 0 = automatic.
std::int64_t wanted_threads(const config::Record&);

struct CpuPlan {
  int threads = 1;
  std::string text;    // "1 thread on core 0 (bound by the launcher)"
  std::string cores;   // "0-3,8"
  std::string advice;  // non-empty when ranks share cores
};

// CNTK's numCPUThreads: 0 = all cores of this rank, n > 0 = n, n < 0 = cores + n. Unbound ranks of one host
// get disjoint sets of cores, because two ranks on one core slow each other down. Ranks that share a part of a host
// (such as a NUMA domain) divide its cores.
CpuPlan plan_cpu(std::int64_t num_cpu_threads, const HostPlace& place, bool deterministic);

// The number of threads worth using for a minibatch with that many floating-point operations, at most those of the
// plan; a small network would spend its time on synchronization. Depends on the configuration alone, so that repeated
// runs give the same bits. numCPUThreads and OMP_NUM_THREADS are used as given. One if a GPU computes, because the
// other cores load data.
int threads_for(double operations_per_minibatch, const config::Record& command, const std::string& device);

// Computes with this many threads while it lives.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;

 private:
  int before_;
};

}  // namespace tutti::actions
