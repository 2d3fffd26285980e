// SPDX-License-Identifier: Apache-2.0
// The element loops of optim/kernels_impl.h as kernels, operation by operation; compiled without fused multiply-add.
#include "optim/cuda/kernels.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/cuda/launch.h"
#include "base/cuda/queue.h"
#include "optim/noise_formula.h"

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

// ---- element by element
// ------------------------------------------------------------------------------------------------

// The order in which the elements of a run are worked on, whatever is left out.
enum class Turn { clip, penalty, rule, noise, shrinkage };

// Rules get the gradient of an element, so that what stands before them can change it on its way.
struct Descend {
  float* w;
  const float* g;
  float rate;
  __device__ void operator()(std::size_t i, float x) const { w[i] -= rate * x; }
};

struct Momentum {
  float* w;
  const float* g;
  float *s, mu, gain;
  __device__ void operator()(std::size_t i, float x) const {
    const float next = mu * s[i] + gain * x;
    s[i] = next;
    w[i] -= next;
  }
};

struct Nesterov {
  float* w;
  const float* g;
  float *s, mu, gain;
  __device__ void operator()(std::size_t i, float x) const {
    const float push = gain * x;
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= mu * next + push;
  }
};

struct SparseMomentum {
  float* w;
  const float* g;
  float *s, mu, rate;
  __device__ void operator()(std::size_t i, float x) const {
    const float fresh = 1.0f - mu;
    const float next = mu * s[i] + fresh * x;
    s[i] = next;
    w[i] -= rate * next;
  }
};

struct SparseNesterov {
  float* w;
  const float* g;
  float *s, mu, rate;
  __device__ void operator()(std::size_t i, float x) const {
    const float fresh = 1.0f - mu;
    const float push = fresh * x;
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= rate * (mu * next + push);
  }
};

struct Truncate {
  static constexpr Turn turn = Turn::clip;
  float *g, limit;
  __device__ void operator()(std::size_t i) const {
    const float x = g[i];
    const float low = x < -limit ? -limit : x;
    g[i] = low > limit ? limit : low;
  }
};

struct Scale {
  static constexpr Turn turn = Turn::clip;
  float *g, factor;
  __device__ void operator()(std::size_t i) const { g[i] *= factor; }
};

struct AddScaled {
  static constexpr Turn turn = Turn::penalty;
  float* g;
  const float* w;
  float factor;
  __device__ void operator()(std::size_t i) const { g[i] += factor * w[i]; }
};

struct Shrink {
  static constexpr Turn turn = Turn::shrinkage;
  float *w, threshold;
  __device__ void operator()(std::size_t i) const {
    const float x = w[i];
    const float down = x - threshold, up = x + threshold;
    const float inner = x < -threshold ? up : (x != x ? x : 0.0f);
    w[i] = x > threshold ? down : inner;
  }
};

struct Noise {
  static constexpr Turn turn = Turn::noise;
  float* w;
  double deviation;
  std::uint64_t step, first;
  __device__ void operator()(std::size_t i) const {
    const auto p = noise::polar(step, first + i);
    w[i] += static_cast<float>(deviation * (p.a * sqrt(p.square)));
  }
};

template <bool Smooth>
struct FsAdagrad {
  float* w;
  const float* g;
  float *a, *m;
  FsAdagradConstants c;
  __device__ void operator()(std::size_t i, float x) const {
    const float squares = c.keep * a[i] + (1.0f - c.keep) * (x * x);
    a[i] = squares;
    const float ratio = c.target / sqrtf(squares != 0.0f ? squares : 1.0f);
    const float limited = ratio > 10.0f ? 10.0f : ratio;
    const float normalised = squares != 0.0f ? x * limited : x;
    if constexpr (Smooth) {
      const float next = c.momentum * m[i] + (1.0f - c.momentum) * normalised;
      m[i] = next;
      w[i] -= c.rate * next;
    } else {
      w[i] -= c.rate * normalised;
    }
  }
};

struct Adam {
  float* w;
  const float* g;
  float *m, *v;
  AdamConstants c;
  __device__ void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float mean = c.beta1 * m[i] + (1.0f - c.beta1) * x;
    const float square = c.beta2 * v[i] + (1.0f - c.beta2) * (x * x);
    m[i] = mean;
    v[i] = square;
    w[i] -= c.rate * mean / (sqrtf(square) * c.root_correction + c.epsilon);
  }
};

struct Textbook {
  float* w;
  const float* g;
  float* a;
  TextbookConstants c;
  __device__ void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float square = c.decay * a[i] + (1.0f - c.decay) * (x * x);
    a[i] = square;
    w[i] -= c.rate * x / (sqrtf(square) + c.epsilon);
  }
};

// A rule by the gradient as it lies in memory.
template <class Rule>
struct Plainly {
  static constexpr Turn turn = Turn::rule;
  Rule rule;
  __device__ void operator()(std::size_t i) const { rule(i, rule.g[i]); }
};

// By the gradient and a penalty, as AddScaled adds it: memory is passed over once, and the gradient stays as it is.
template <class Rule>
struct Penalised {
  static constexpr Turn turn = Turn::rule;
  Rule rule;
  float factor;
  __device__ void operator()(std::size_t i) const { rule(i, rule.g[i] + factor * rule.w[i]); }
};

// ---- several runs of elements by one kernel
// ----------------------------------------------------------------------------

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
// ----------------------------------------------------------------------------------------------------------

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
// -----------------------------------------------------------------------------------------------------------

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
