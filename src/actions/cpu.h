// SPDX-License-Identifier: Apache-2.0
// cpu.h -- how many threads this rank computes with, and on which cores. Called once, before any kernel library starts
// its own threads.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/communicator.h"
#include "tutti/config.h"

namespace tutti::actions {

// What OMP_NUM_THREADS asks for; 0 where it is not set, or is no positive number.
std::int64_t threads_of_environment();
// numCPUThreads where the configuration has it, else OMP_NUM_THREADS; 0 = automatic.
std::int64_t wanted_threads(const config::Record&);

struct CpuPlan {
  int threads = 1;
  int cores_allowed = 1;    // by the affinity mask the launcher gave us
  bool bound_here = false;  // we divided the mask among the ranks of this host ourselves
  std::string text;         // "1 thread on core 0 (bound by the launcher)"
  std::string advice;       // non-empty when ranks share cores
};

// numCPUThreads of semantics 1.6: 0 = all cores this rank has, n > 0 = n, n < 0 = cores + n. Ranks of one host that
// were left unbound are given disjoint sets of cores, because two ranks on one core cost both their speed.
// Ranks that share a part of a host (a NUMA domain, say) use their fair number of its cores.
CpuPlan plan_cpu(std::int64_t num_cpu_threads, const HostPlace& place, bool deterministic);

// Threads worth using for a minibatch of so many floating-point operations, at most those of the plan: a small network
// would spend its time in handing work over. Depends on the configuration alone, so that reruns give the same bits;
// numCPUThreads and OMP_NUM_THREADS are taken at their word. One where a GPU computes: the other cores load data.
int threads_for(double operations_per_minibatch, const config::Record& command, const std::string& device);

// Computes with this many threads as long as it lives.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;

 private:
  int before_;
};

}  // namespace tutti::actions
