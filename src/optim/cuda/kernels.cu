// SPDX-License-Identifier: Apache-2.0
// The element loops of optim/element_loops.cpp as kernels, operation by operation; compiled without fused multiply-add.
// Elements get the bits of the host's loops; sums have an order of their own, always the same.
#include <limits>
#include <type_traits>

#include "base/cuda/runtime.h"
#include "optim/cuda/together.h"
#include "optim/kernels.h"

namespace tutti::optim::cuda {

namespace {

// Managed, so that it does not matter which device a thread works on.
struct WorkspaceForSums {
  static constexpr std::size_t bytes = sizeof(double) * most_calls * most_sum_blocks;
  void* data = tutti::cuda::take_managed_memory(bytes);
  WorkspaceForSums() {
    if (!data) tutti::cuda::out_of_memory(bytes, "sums over gradients");
  }
  ~WorkspaceForSums() { cudaFree(data); }
  WorkspaceForSums(const WorkspaceForSums&) = delete;
};

}  // namespace

__global__ void add_totals(const __grid_constant__ Totals to, const double* of_blocks) {
  __shared__ double totals[most_calls];
  const unsigned call = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (call < to.count) {
    double mine = 0;
    for (unsigned b = (call == 0 ? 0 : to.end[call - 1]) + lane; b < to.end[call]; b += 32) mine += of_blocks[b];
    for (unsigned by = 16; by > 0; by /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, by);
    if (lane == 0) totals[call] = mine;
  }
  __syncthreads();
  if (call > 0 || lane >= to.count || (lane > 0 && to.sum[lane - 1] == to.sum[lane])) return;
  double sum = *to.sum[lane];
  for (unsigned c = lane; c < to.count && to.sum[c] == to.sum[lane]; ++c) sum += totals[c];
  *to.sum[lane] = sum;
}

double* workspace_for_sums() {
  static thread_local const WorkspaceForSums workspace;
  return static_cast<double*>(workspace.data);
}

namespace {

// ---- the table

template <class Rule>
void run(const Rule& rule, std::size_t n) {
  if constexpr (std::is_same_v<Rule, AddScaled>)
    put_off_penalty(n, rule);
  else if constexpr (ReadsGradient<Rule>)
    with_penalty<Turn::rule>(n, rule, [n](const auto& r) { start(n, r); });
  else
    start(n, rule);
}
template <class Rule>
void run_sum(const Rule& rule, std::size_t n, double* sum) {
  if constexpr (ReadsGradient<Rule>)
    with_penalty<Turn::scaling>(n, rule, [n, sum](const auto& r) { sum ? start_sum(n, r, sum) : start(n, r); });
  else
    start_sum(n, rule, sum);
}

template <class Rule>
constexpr Kernels::Loop<Rule> loop_of() {
  if constexpr (requires { Rule::host_only; })
    return nullptr;
  else
    return run<Rule>;
}
template <class... Rule>
constexpr std::tuple<Kernels::Loop<Rule>...> loops_of(std::tuple<Kernels::Loop<Rule>...>) {
  return {loop_of<Rule>()...};
}
template <class... Rule>
constexpr std::tuple<Kernels::Sum<Rule>...> sums_of(std::tuple<Kernels::Sum<Rule>...>) {
  return {run_sum<Rule>...};
}

void begin_together() { Together::of_thread().open = true; }
void end_together() {
  start_penalty();
  Together::of_thread().open = false;
  Together::of_thread().launch();
}

void clear(float* s, std::size_t n) {
  if (n > 0)
    tutti::cuda::check(cudaMemsetAsync(s, 0, n * sizeof(float), tutti::cuda::current_queue()), "clearing a state");
}
void clear_sums(double* sums, std::size_t count) {
  tutti::cuda::check(cudaMemsetAsync(sums, 0, count * sizeof(double), tutti::cuda::current_queue()), "clearing sums");
}

}  // namespace

static const Kernels& kernels() {
  static constexpr Kernels table = {"cuda",
                                    std::numeric_limits<std::size_t>::max(),
                                    loops_of(decltype(Kernels::loops)()),
                                    sums_of(decltype(Kernels::sums)()),
                                    clear,
                                    clear_sums,
                                    begin_together,
                                    end_together};
  return table;
}

}  // namespace tutti::optim::cuda

// What optim/kernels.cpp looks up in the library.
extern "C" const tutti::optim::Kernels* tutti_cuda_optim_kernels() { return &tutti::optim::cuda::kernels(); }
