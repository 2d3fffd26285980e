// SPDX-License-Identifier: Apache-2.0
// together.h -- rules over runs of elements, several runs per kernel: see begin_together() of optim/kernels.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/cuda/launch.h"
#include "base/cuda/runtime.h"
#include "optim/element_rules.h"

namespace tutti::optim::cuda {

constexpr unsigned block_threads = 256, unroll = 4, block_elements = block_threads * unroll;
// Of a sum over one run, so that each thread of a large device has work.
constexpr unsigned most_sum_blocks = 1024;
constexpr unsigned most_calls = 32;  // of one kernel: as many as its parameters take

// ---- kernels

// A rule with the gradient plus a penalty, as AddScaled adds it: memory is read once, and the gradient is not changed.
template <class Rule, Turn When>
struct Penalised {
  static constexpr Turn turn = When;
  Rule rule;
  AddScaled penalty;
  __device__ auto operator()(std::size_t i) const { return rule(i, penalty.g[i] + penalty.factor * penalty.w[i]); }
};

template <class Rule>
struct Calls {
  Rule rule[most_calls];
  std::size_t n[most_calls];
  unsigned end[most_calls];  // the block behind its last one
  const int* halt;           // see base/cuda/runtime.h
};

struct Place {
  unsigned call, block, blocks;  // of the call
};

template <class Rule>
__device__ Place place_of_block(const Calls<Rule>& calls) {
  static_assert(sizeof(Calls<Rule>) <= 4096);
  unsigned c = 0;
  while (blockIdx.x >= calls.end[c]) ++c;
  const unsigned first = c == 0 ? 0 : calls.end[c - 1];
  return {c, blockIdx.x - first, calls.end[c] - first};
}

// Calls body(i) for the elements i < n that a block processes together, so that their loads are in flight together.
template <class Body>
__device__ void each(std::size_t first, std::size_t n, const Body& body) {
  first += threadIdx.x;
#pragma unroll
  for (unsigned u = 0; u < unroll; ++u)
    if (first + u * block_threads < n) body(first + u * block_threads);
}

template <class Rule>
__global__ void apply_each(const __grid_constant__ Calls<Rule> calls) {
  if (calls.halt && *calls.halt != 0) return;
  const Place at = place_of_block(calls);
  each(static_cast<std::size_t>(at.block) * block_elements, calls.n[at.call], begun(calls.rule[at.call]));
}

// Each block adds its elements in a fixed order.
template <class Rule>
__global__ void sum_each(const __grid_constant__ Calls<Rule> calls, double* of_blocks) {
  __shared__ double sums[block_threads];
  const Place at = place_of_block(calls);
  const std::size_t n = calls.n[at.call];
  const Rule rule = calls.rule[at.call];
  double mine = 0;
  for (std::size_t first = static_cast<std::size_t>(at.block) * block_elements; first < n;
       first += static_cast<std::size_t>(at.blocks) * block_elements)
    each(first, n, [&](std::size_t i) { mine += rule(i); });
  sums[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = sums[0];
}

struct Totals {
  double* sum[most_calls];
  unsigned end[most_calls];
  unsigned count;
};

// One block, with a warp per call. Contributions to one sum are contiguous, so one thread adds them, in order.
__global__ void add_totals(const __grid_constant__ Totals to, const double* of_blocks);

// ---- what has been asked for

// Calls of one kernel that have not been launched yet.
template <class Rule, bool Sums>
struct Waiting {
  Calls<Rule> calls;
  Totals totals;
  unsigned count = 0;
  static Waiting& of_thread() {
    static thread_local Waiting w;
    return w;
  }
};

// Since begin_together(), in turns.
struct Together {
  struct Launch {
    Turn turn;
    void (*now)();
  };
  bool open = false;
  std::vector<Launch> launches;
  AddScaled penalty{};        // for the rule that is asked for next
  std::size_t penalised = 0;  // elements
  static Together& of_thread() {
    static thread_local Together t;
    return t;
  }
  void launch() {
    for (const auto& l : launches) l.now();
    launches.clear();
  }
};

double* workspace_for_sums();  // of all blocks of a kernel

template <class Rule, bool Sums>
void launch_waiting() {
  auto& w = Waiting<Rule, Sums>::of_thread();
  const unsigned count = std::exchange(w.count, 0);
  if (count == 0) return;
  const dim3 blocks(w.calls.end[count - 1]), threads(block_threads);
  const auto queue = tutti::cuda::current_queue();
  if constexpr (Sums) {
    double* const workspace = workspace_for_sums();
    tutti::cuda::launch(sum_each<Rule>, blocks, threads, queue, w.calls, workspace);
    std::copy_n(w.calls.end, count, w.totals.end);
    w.totals.count = count;
    tutti::cuda::launch(add_totals, dim3(1), dim3(32 * most_calls), queue, w.totals, workspace);
  } else {
    w.calls.halt = tutti::cuda::current_halt();
    tutti::cuda::launch(apply_each<Rule>, blocks, threads, queue, w.calls);
  }
}

template <bool Sums, class Rule>
void start(std::size_t n, const Rule& rule, double* sum) {
  if (n == 0) return;
  auto& together = Together::of_thread();
  auto& w = Waiting<Rule, Sums>::of_thread();
  if (w.count == most_calls) together.launch();
  const std::size_t wanted = (n + block_elements - 1) / block_elements;
  const auto blocks = static_cast<unsigned>(Sums ? std::min<std::size_t>(wanted, most_sum_blocks) : wanted);
  w.calls.rule[w.count] = rule, w.calls.n[w.count] = n;
  w.calls.end[w.count] = (w.count == 0 ? 0 : w.calls.end[w.count - 1]) + blocks;
  w.totals.sum[w.count] = sum;
  ++w.count;
  if (!together.open) return launch_waiting<Rule, Sums>();
  if (w.count > 1) return;
  auto& launches = together.launches;
  const auto behind = std::find_if(launches.begin(), launches.end(), [](const auto& l) { return l.turn > Rule::turn; });
  launches.insert(behind, {Rule::turn, launch_waiting<Rule, Sums>});
}

template <class Rule>
void start(std::size_t n, const Rule& rule) {
  start<false>(n, rule, nullptr);
}
// Adds the result of the rule to *sum.
template <class Rule>
void start_sum(std::size_t n, const Rule& rule, double* sum) {
  start<true>(n, rule, sum);
}

inline void start_penalty() {
  auto& t = Together::of_thread();
  if (const std::size_t n = std::exchange(t.penalised, 0)) start(n, t.penalty);
}
// Not written to the gradient if the rule for it follows at once.
inline void put_off_penalty(std::size_t n, const AddScaled& penalty) {
  auto& t = Together::of_thread();
  if (!t.open) return start(n, penalty);
  start_penalty();
  t.penalty = penalty, t.penalised = n;
}

// Calls use(the rule, with the penalty that was deferred for it).
template <Turn When, class Rule, class Use>
void with_penalty(std::size_t n, const Rule& rule, const Use& use) {
  auto& t = Together::of_thread();
  if (n > 0 && t.penalised == n && t.penalty.g == rule.g) {
    t.penalised = 0;
    return use(Penalised<Rule, When>{rule, t.penalty});
  }
  start_penalty();
  use(Plainly<Rule, When>{rule});
}

}  // namespace tutti::optim::cuda
