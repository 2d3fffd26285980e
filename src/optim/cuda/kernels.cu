// SPDX-License-Identifier: Apache-2.0
// The element loops of optim/kernels_impl.h as kernels, operation by operation; compiled without fused multiply-add.
#include "optim/cuda/kernels.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/cuda/launch.h"
#include "base/cuda/queue.h"
#include "optim/cuda/element_rules.h"

namespace tutti::optim::cuda {
namespace {

constexpr unsigned block_threads = 256, unroll = 4;

// body(i) for the elements i below n that are this block's, some at a time so that their loads are on the way together.
template <class Body>
__device__ void each(unsigned block, std::size_t n, const Body& body) {
  const std::size_t first = static_cast<std::size_t>(block) * block_threads * unroll + threadIdx.x;
#pragma unroll
  for (unsigned u = 0; u < unroll; ++u)
    if (first + u * block_threads < n) body(first + u * block_threads);
}

// ---- several runs of elements by one kernel

// As many as the parameters of a kernel may hold.
template <class Rule>
struct Calls {
  static constexpr unsigned most = 32;
  Rule rule[most];
  std::size_t n[most];
  unsigned end[most];  // the block behind its last one
};

template <class Rule>
__global__ void apply_each(const __grid_constant__ Calls<Rule> calls) {
  static_assert(sizeof(Calls<Rule>) <= 4096);
  unsigned c = 0;
  while (blockIdx.x >= calls.end[c]) ++c;
  each(blockIdx.x - (c == 0 ? 0 : calls.end[c - 1]), calls.n[c], calls.rule[c]);
}

// What has been asked for since begin_together(), turn by turn.
struct Together {
  struct Launch {
    Turn turn;
    void (*now)();
  };
  bool open = false;
  std::vector<Launch> launches;
  AddScaled penalty{};        // for the rule that is asked for next
  std::size_t penalised = 0;  // elements
};
Together& together() {
  static thread_local Together t;
  return t;
}

template <class Rule>
struct Waiting {
  Calls<Rule> calls;
  unsigned count = 0;
};
template <class Rule>
Waiting<Rule>& waiting() {
  static thread_local Waiting<Rule> w;
  return w;
}

template <class Rule>
void launch_waiting() {
  Waiting<Rule>& w = waiting<Rule>();
  if (w.count == 0) return;
  const unsigned blocks = w.calls.end[w.count - 1];
  w.count = 0;
  tutti::cuda::launch(apply_each<Rule>, dim3(blocks), dim3(block_threads), tutti::cuda::current_queue(), w.calls);
}

void launch_together() {
  for (const auto& launch : together().launches) launch.now();
  together().launches.clear();
}

template <class Rule>
void start(std::size_t n, const Rule& rule) {
  if (n == 0) return;
  Waiting<Rule>& w = waiting<Rule>();
  if (w.count == Calls<Rule>::most) launch_together();
  const auto blocks = static_cast<unsigned>((n + block_threads * unroll - 1) / (block_threads * unroll));
  w.calls.rule[w.count] = rule, w.calls.n[w.count] = n;
  w.calls.end[w.count] = (w.count == 0 ? 0 : w.calls.end[w.count - 1]) + blocks;
  ++w.count;
  if (!together().open) return launch_waiting<Rule>();
  if (w.count > 1) return;
  auto& launches = together().launches;
  const auto behind = std::find_if(launches.begin(), launches.end(), [](const auto& l) { return l.turn > Rule::turn; });
  launches.insert(behind, {Rule::turn, launch_waiting<Rule>});
}

void start_penalty() {
  if (const std::size_t n = std::exchange(together().penalised, 0)) start(n, together().penalty);
}

template <class Rule>
void start_rule(std::size_t n, const Rule& rule) {
  Together& t = together();
  if (n > 0 && t.penalised == n && t.penalty.g == rule.g && t.penalty.w == rule.w) {
    t.penalised = 0;
    return start(n, Penalised<Rule>{rule, t.penalty.factor});
  }
  start_penalty();
  start(n, Plainly<Rule>{rule});
}

void begin_together() { together().open = true; }
void end_together() {
  start_penalty();
  together().open = false;
  launch_together();
}

// ---- with a sum

// Every block adds its elements up in a fixed order; the host adds the blocks, first to last.
constexpr unsigned most_blocks = 512;

template <class Body>
__device__ void sum_up(std::size_t n, double* partial, const Body& body) {
  __shared__ double sums[block_threads];
  double mine = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * block_threads + threadIdx.x; i < n;
       i += static_cast<std::size_t>(gridDim.x) * block_threads)
    mine += body(i);
  sums[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

__global__ void squares_kernel(std::size_t n, double* partial, const float* g) {
  sum_up(n, partial, [=](std::size_t i) { return static_cast<double>(g[i]) * g[i]; });
}

__global__ void adagrad_kernel(std::size_t n, double* partial, float* g, float* a) {
  sum_up(n, partial, [=](std::size_t i) {
    const float x = g[i];
    const float squares = a[i] + x * x;
    const float denominator = sqrtf(squares + 1e-16f);
    a[i] = squares;
    g[i] = x / denominator;
    return static_cast<double>(1.0f / denominator);
  });
}

__global__ void rms_prop_kernel(std::size_t n, double* partial, float* g, float* a, float* step, float* sign,
                                RmsConstants c) {
  sum_up(n, partial, [=](std::size_t i) {
    const float x = g[i], square = x * x;
    const bool first = step[i] == 0.0f;
    const float last = first ? square : a[i];
    const float before = first ? 0.02f : step[i];
    const float mean = c.gamma * last + (1.0f - c.gamma) * square;
    const float grown = before * c.increase, shrunk = before * c.decrease;
    const float up = grown > c.largest ? c.largest : grown;
    const float down = shrunk < c.smallest ? c.smallest : shrunk;
    const float now = x * sign[i] > 0.0f ? up : down;
    const float factor = now / sqrtf(mean + 1e-6f);
    a[i] = mean;
    step[i] = now;
    sign[i] = x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : 0.0f);
    g[i] = x * factor;
    return static_cast<double>(factor);
  });
}

// Pinned memory that the device writes directly: a few kilobytes need no copy.
struct Partials {
  double* sums = nullptr;
  Partials() {
    void* p = nullptr;
    tutti::cuda::check(cudaHostAlloc(&p, most_blocks * sizeof(double), cudaHostAllocPortable), "taking pinned memory");
    sums = static_cast<double*>(p);
  }
  ~Partials() { cudaFreeHost(sums); }
  Partials(const Partials&) = delete;
};

template <class... Wanted, class... Given>
double sum_with(void (*kernel)(std::size_t, double*, Wanted...), std::size_t n, const Given&... given) {
  if (n == 0) return 0;
  static thread_local const Partials partials;
  const std::size_t wanted = (n + block_threads * unroll - 1) / (block_threads * unroll);
  const auto blocks = static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
  const auto queue = tutti::cuda::current_queue();
  tutti::cuda::launch(kernel, dim3(blocks), dim3(block_threads), queue, n, partials.sums, given...);
  tutti::cuda::check(cudaStreamSynchronize(queue), "adding up gradients");
  double all = 0;
  for (unsigned b = 0; b < blocks; ++b) all += partials.sums[b];
  return all;
}

// ---- the table

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
void scale(float* g, std::size_t n, float factor) { start(n, Scale{g, factor}); }
void add_scaled(float* g, const float* w, std::size_t n, float factor) {
  if (!together().open) return start(n, AddScaled{g, w, factor});
  start_penalty();
  together().penalty = {g, w, factor}, together().penalised = n;
}
void shrink(float* w, std::size_t n, float threshold) { start(n, Shrink{w, threshold}); }
double sum_of_squares(const float* g, std::size_t n) { return sum_with(squares_kernel, n, g); }
void clear(float* s, std::size_t n) {
  if (n > 0)
    tutti::cuda::check(cudaMemsetAsync(s, 0, n * sizeof(float), tutti::cuda::current_queue()), "clearing a state");
}
void noise(float* w, std::size_t n, double deviation, std::uint64_t step, std::uint64_t first) {
  start(n, Noise{w, deviation, step, first});
}
double adagrad(float* g, float* a, std::size_t n) { return sum_with(adagrad_kernel, n, g, a); }
double rms_prop(float* g, float* a, float* step, float* sign, std::size_t n, const RmsConstants& c) {
  return sum_with(rms_prop_kernel, n, g, a, step, sign, c);
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
                                    scale,
                                    add_scaled,
                                    shrink,
                                    sum_of_squares,
                                    clear,
                                    noise,
                                    adagrad,
                                    rms_prop,
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
