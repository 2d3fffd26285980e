// SPDX-License-Identifier: Apache-2.0
// The element loops of optim/kernels_impl.h as kernels, operation by operation; compiled without fused multiply-add.
#include "optim/cuda/kernels.h"

#include <limits>

#include "base/cuda/runtime.h"
#include "optim/cuda/together.h"

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
void start_rule(std::size_t n, const Rule& rule) {
  with_penalty<Turn::rule>(n, rule, [n](const auto& r) { start(n, r); });
}
template <class Rule>
void start_scaling(std::size_t n, const Rule& rule, double* sum) {
  with_penalty<Turn::scaling>(n, rule, [n, sum](const auto& r) { sum ? start_sum(n, r, sum) : start(n, r); });
}

void begin_together() { Together::of_thread().open = true; }
void end_together() {
  start_penalty();
  Together::of_thread().open = false;
  Together::of_thread().launch();
}

void descend(float* w, const float* g, std::size_t n, float rate) { start_rule(n, Descend{w, g, rate}); }
void momentum(float* w, const float* g, float* s, std::size_t n, float mu, float gain) {
  start_rule(n, Momentum{w, g, s, mu, gain});
}
void nesterov(float* w, const float* g, float* s, std::size_t n, float mu, float gain) {
  start_rule(n, Nesterov{w, g, s, mu, gain});
}
void sparse_momentum(float* w, const float* g, float* s, std::size_t n, float mu, float rate) {
  start_rule(n, SparseMomentum{w, g, s, mu, rate});
}
void sparse_nesterov(float* w, const float* g, float* s, std::size_t n, float mu, float rate) {
  start_rule(n, SparseNesterov{w, g, s, mu, rate});
}
void truncate(float* g, std::size_t n, float limit) { start(n, Truncate{g, limit}); }
void add_scaled(float* g, const float* w, std::size_t n, float factor) { put_off_penalty(n, {g, w, factor}); }
void shrink(float* w, std::size_t n, float threshold) { start(n, Shrink{w, threshold}); }
void clear(float* s, std::size_t n) {
  if (n > 0)
    tutti::cuda::check(cudaMemsetAsync(s, 0, n * sizeof(float), tutti::cuda::current_queue()), "clearing a state");
}
void noise(float* w, std::size_t n, double deviation, std::uint64_t step, std::uint64_t first) {
  start(n, Noise{w, deviation, step, first});
}
void clear_sums(double* sums, std::size_t count) {
  tutti::cuda::check(cudaMemsetAsync(sums, 0, count * sizeof(double), tutti::cuda::current_queue()), "clearing sums");
}
void add_squares(const float* g, std::size_t n, double* sum) { start_sum(n, Squares{g}, sum); }
void limit_norm(float* g, std::size_t n, const double* squares, double limit) {
  start(n, LimitNorm{g, squares, limit});
}
void adagrad(float* g, float* a, std::size_t n, double* sum) { start_scaling(n, Adagrad{g, a}, sum); }
void rms_prop(float* g, float* a, float* step, float* sign, std::size_t n, const RmsConstants& c, double* sum) {
  start_scaling(n, RmsProp{g, a, step, sign, c}, sum);
}
void descend_by_mean(float* w, const float* g, std::size_t n, float rate, const double* sum, std::size_t count) {
  start(n, DescendByMean{w, g, rate, sum, static_cast<double>(count)});
}
void fs_adagrad(float* w, const float* g, float* a, float* m, std::size_t n, const FsAdagradConstants& c) {
  c.momentum > 0.0f ? start_rule(n, FsAdagrad<true>{w, g, a, m, c}) : start_rule(n, FsAdagrad<false>{w, g, a, m, c});
}
void adam(float* w, const float* g, float* m, float* v, std::size_t n, const AdamConstants& c) {
  start_rule(n, Adam{w, g, m, v, c});
}
void rms_prop_textbook(float* w, const float* g, float* a, std::size_t n, const TextbookConstants& c) {
  start_rule(n, Textbook{w, g, a, c});
}

}  // namespace

const Kernels& kernels() {
  static constexpr Kernels table = {"cuda",
                                    std::numeric_limits<std::size_t>::max(),
                                    descend,
                                    momentum,
                                    nesterov,
                                    sparse_momentum,
                                    sparse_nesterov,
                                    truncate,
                                    add_scaled,
                                    shrink,
                                    clear,
                                    noise,
                                    clear_sums,
                                    add_squares,
                                    limit_norm,
                                    adagrad,
                                    rms_prop,
                                    descend_by_mean,
                                    fs_adagrad,
                                    adam,
                                    rms_prop_textbook,
                                    nullptr,
                                    nullptr,
                                    begin_together,
                                    end_together};
  return table;
}

}  // namespace tutti::optim::cuda

// What optim/kernels.cpp looks up in the library.
extern "C" const tutti::optim::Kernels* tutti_cuda_optim_kernels() { return &tutti::optim::cuda::kernels(); }
