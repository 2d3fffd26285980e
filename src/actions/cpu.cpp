// SPDX-License-Identifier: Apache-2.0
#include "actions/cpu.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "actions/binding.h"
#include "config/top_level.h"
#include "tutti/error.h"

namespace tutti::actions {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype([](hwloc_topology* t) { hwloc_topology_destroy(t); })>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype([](hwloc_bitmap_s* b) { hwloc_bitmap_free(b); })>;

// The logical processors of the mask, one per physical core first, so that ranks and threads do not share cores
// needlessly.
std::vector<unsigned> cores_of(hwloc_topology_t topology, hwloc_const_bitmap_t mask) {
  std::vector<unsigned> first, second;
  const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  for (int c = 0; c < cores; ++c) {
    const Bitmap own(
        hwloc_bitmap_dup(hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(c))->cpuset));
    hwloc_bitmap_and(own.get(), own.get(), mask);
    bool is_first = true;
    for (int pu = hwloc_bitmap_first(own.get()); pu >= 0; pu = hwloc_bitmap_next(own.get(), pu)) {
      (is_first ? first : second).push_back(static_cast<unsigned>(pu));
      is_first = false;
    }
  }
  if (first.empty()) {
    for (int pu = hwloc_bitmap_first(mask); pu >= 0; pu = hwloc_bitmap_next(mask, pu))
      first.push_back(static_cast<unsigned>(pu));
  }
  return first;  // hardware threads of one core share its vector units: they would not add speed
}

}  // namespace

std::int64_t threads_of_environment() {
  // OpenMP accepts a list for nested regions, "4,2"; the first one counts.
  const char* const text = std::getenv("OMP_NUM_THREADS");
  const long n = text ? std::strtol(text, nullptr, 10) : 0;
  return n > 0 && n < 1'000'000 ? n : 0;
}

std::int64_t wanted_threads(const config::Record& block) {
  return block.has("numCPUThreads") ? block.integer("numCPUThreads", 0) : threads_of_environment();
}

CpuPlan plan_cpu(std::int64_t num_cpu_threads, const HostPlace& place, bool deterministic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error("reading the processor topology failed");
  const Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) throw Error("reading the processor topology failed");
  const Bitmap mask(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(raw, mask.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(mask.get(), hwloc_topology_get_allowed_cpuset(raw));
  std::vector<unsigned> cores = cores_of(raw, mask.get());

  CpuPlan plan;
  const std::size_t n = cores.size();  // in the affinity mask from the launcher
  const bool whole_machine = n == cores_of(raw, hwloc_topology_get_allowed_cpuset(raw)).size();
  bool bound_here = false;  // this program divided the mask among the ranks of the host
  std::string how = whole_machine ? "all of this machine" : "bound by the launcher";
  if (place.local_ranks > 1 && whole_machine && n > 1) {
    const auto ranks = static_cast<std::size_t>(place.local_ranks), r = static_cast<std::size_t>(place.local_rank);
    if (n >= ranks) {
      cores = std::vector<unsigned>(cores.begin() + static_cast<long>(n * r / ranks),
                                    cores.begin() + static_cast<long>(n * (r + 1) / ranks));
      how = "the launcher left the ranks unbound";
    } else {
      cores = {cores[r % n]};
      how = "more ranks than cores";
      plan.advice =
          fmt::format("{} ranks share {} cores of this host: steps will be slower than with one rank per core",
                      place.local_ranks, n);
    }
    const Bitmap mine(hwloc_bitmap_alloc());
    for (unsigned pu : cores) hwloc_bitmap_set(mine.get(), pu);
    bound_here = hwloc_set_cpubind(raw, mine.get(), HWLOC_CPUBIND_PROCESS) == 0;
    if (!bound_here) how = "binding failed";
  }

  int available = static_cast<int>(std::max<std::size_t>(cores.size(), 1));
  if (!bound_here && place.shares_cores) {
    available = std::min(available, std::max(place.fair_cores, 1));
    how += ", shared with other ranks";
  }
  plan.threads = num_cpu_threads == 0 ? available : config::threads_to_use(num_cpu_threads, available);
  if (deterministic) plan.threads = 1;
  omp_set_num_threads(plan.threads);
  omp_set_dynamic(0);
  std::sort(cores.begin(), cores.end());
  plan.cores = core_list(cores);
  plan.text = fmt::format("{} thread{} on core{} {} ({})", plan.threads, plan.threads == 1 ? "" : "s",
                          cores.size() == 1 ? "" : "s", plan.cores, how);
  return plan;
}

int threads_for(double operations_per_minibatch, const config::Record& command, const std::string& device) {
  if (device != "cpu") return 1;
  if (wanted_threads(command) != 0) return std::max(omp_get_max_threads(), 1);
  constexpr double worth_a_thread = 5e7;  // about a quarter of a millisecond of one core, many times a hand-over
  const auto useful = static_cast<int>(std::min(operations_per_minibatch / worth_a_thread, 1e6));
  return std::clamp(useful, 1, std::max(omp_get_max_threads(), 1));
}

ThreadLimit::ThreadLimit(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ThreadLimit::~ThreadLimit() { omp_set_num_threads(before_); }

}  // namespace tutti::actions
