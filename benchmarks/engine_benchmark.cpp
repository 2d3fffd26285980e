// SPDX-License-Identifier: Apache-2.0
// The engine against the library under it: a training step of the MLP 784-3x2048-10 at minibatch 256, momentum update
// included, and the plain oneDNN products of the same shapes. Run with --benchmark_enable_random_interleaving=true
// --benchmark_repetitions=15 and compare the medians of GFLOPs; the ratio is printed by `step_to_gemm`.
#include <benchmark/benchmark.h>
#include <dnnl.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../tests/graph/graph_builder.h"
#include "backend/cpu/products.h"
#include "momentum_sink.h"
#include "tutti/network.h"

namespace tutti {
namespace {

constexpr std::size_t batch_size = 256;
const std::vector<std::size_t> widths = {784, 2048, 2048, 2048, 10};

// Multiplications and additions of all products of a step; the first layer has no gradient of its data.
double flops() {
  double total = 0;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l)
    total += (l == 0 ? 4.0 : 6.0) * static_cast<double>(widths[l] * widths[l + 1] * batch_size);
  return total;
}

struct Step {
  explicit Step(ComputeType type = ComputeType::float32) : data(batch_size) {
    test::GraphBuilder b;
    std::size_t value = b.input("features", {784});
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      const auto k = static_cast<double>(l);
      const auto w =
          b.add("LearnableParameter", "W" + std::to_string(l), {},
                {{"dims", std::vector<double>{static_cast<double>(widths[l + 1]), static_cast<double>(widths[l])}},
                 {"init", std::string("heNormal")},
                 {"randomSeed", k + 1}});
      const auto bias = b.parameter("b" + std::to_string(l), {static_cast<double>(widths[l + 1])}, k + 10);
      value = b.add("Plus", "z" + std::to_string(l), {b.add("Times", "t" + std::to_string(l), {w, value}), bias});
      if (l + 2 < widths.size()) value = b.add("RectifiedLinear", "h" + std::to_string(l), {value});
    }
    const auto labels = b.input("labels", {10});
    b.criterion("CrossEntropyWithSoftmax", "ce", {labels, value});
    b.evaluation("ClassificationError", "errs", {labels, value});
    NetworkOptions options;
    options.compute_type = type;
    network = std::make_unique<Network>(b.graph(), options);
    data.random("features", 784, 0, 1);
    data.one_hot("labels", 10);
    network->bind(data.infos);
    network->initialize_parameters();
    network->plan_training(batch_size);
    sink = std::make_unique<MomentumSink>(network->parameters());
  }
  void run() { benchmark::DoNotOptimize(network->forward_backward(data.batch, *sink).criterion); }

  test::Data data;
  std::unique_ptr<Network> network;
  std::unique_ptr<MomentumSink> sink;
};

// The products alone: forward, gradient of the data, gradient of the weight, each by dnnl_sgemm.
struct Products {
  Products() {
    for (std::size_t l = 0; l < widths.size(); ++l)
      values.emplace_back(widths[l] * batch_size), deltas.emplace_back(widths[l] * batch_size);
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      weights.emplace_back(widths[l] * widths[l + 1]), gradients.emplace_back(widths[l] * widths[l + 1]);
    }
    for (auto* set : {&values, &deltas, &weights})
      for (auto& buffer : *set)
        for (std::size_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = 0.01f * static_cast<float>(i % 13) - 0.06f;
  }
  void run() {
    const auto m = static_cast<dnnl_dim_t>(batch_size);
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      const auto k = static_cast<dnnl_dim_t>(widths[l]), n = static_cast<dnnl_dim_t>(widths[l + 1]);
      dnnl_sgemm('N', 'N', m, n, k, 1, values[l].data(), k, weights[l].data(), n, 0, values[l + 1].data(), n);
    }
    for (std::size_t l = widths.size() - 1; l-- > 0;) {
      const auto k = static_cast<dnnl_dim_t>(widths[l]), n = static_cast<dnnl_dim_t>(widths[l + 1]);
      if (l > 0)
        dnnl_sgemm('N', 'T', m, k, n, 1, deltas[l + 1].data(), n, weights[l].data(), n, 0, deltas[l].data(), k);
      dnnl_sgemm('T', 'N', k, n, m, 1, values[l].data(), k, deltas[l + 1].data(), n, 0, gradients[l].data(), n);
    }
  }
  std::vector<FloatBuffer> values, deltas, weights, gradients;
};

template <class Work>
void measure(benchmark::State& state) {
  Work work;
  for (int i = 0; i < 3; ++i) work.run();
  for (auto _ : state) work.run();
  state.counters["GFLOPs"] = benchmark::Counter(flops() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(measure<Step>)->Name("training_step")->Unit(benchmark::kMillisecond);
BENCHMARK(measure<Products>)->Name("plain_products")->Unit(benchmark::kMillisecond);

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Of the processor, so that other work on the machine counts less.
template <class Work>
double seconds(const Work& work) {
  const double begin = processor_seconds();
  work();
  return processor_seconds() - begin;
}

double median(std::vector<double>& v) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Both in turn, so that a noisy machine disturbs both alike; the counter is the median of the ratios.
void step_to_gemm(benchmark::State& state) {
  Step step;
  Products products;
  std::vector<double> ratios, steps;
  for (int i = 0; i < 3; ++i) step.run(), products.run();
  for (auto _ : state) {
    const double plain = seconds([&] { products.run(); });
    steps.push_back(seconds([&] { step.run(); }));
    ratios.push_back(plain / steps.back());
  }
  state.counters["ratio"] = median(ratios);
  state.counters["step_ms"] = median(steps) * 1e3;
  state.counters["samples_per_s"] = static_cast<double>(batch_size) / median(steps);
}
BENCHMARK(step_to_gemm)->Unit(benchmark::kMillisecond)->Iterations(40);

// A step with products in bfloat16 against one in float32, in turn.
void bfloat16_to_float32(benchmark::State& state) {
  if (!supports("cpu", ComputeType::bfloat16))
    return state.SkipWithError("this processor does not compute in bfloat16");
  Step exact, rounded(ComputeType::bfloat16);
  std::vector<double> ratios, steps;
  for (int i = 0; i < 3; ++i) exact.run(), rounded.run();
  for (auto _ : state) {
    const double plain = seconds([&] { exact.run(); });
    steps.push_back(seconds([&] { rounded.run(); }));
    ratios.push_back(plain / steps.back());
  }
  state.counters["ratio"] = median(ratios);
  state.counters["step_ms"] = median(steps) * 1e3;
  state.counters["samples_per_s"] = static_cast<double>(batch_size) / median(steps);
}
BENCHMARK(bfloat16_to_float32)->Unit(benchmark::kMillisecond)->Iterations(40);

// The products of a 2048 x 2048 layer alone: forward, gradient of the data, gradient of the weight, one of each per
// turn, the weight converted anew every turn.
void product_rates(benchmark::State& state) {
  if (!supports("cpu", ComputeType::bfloat16))
    return state.SkipWithError("this processor does not compute in bfloat16");
  const auto exact = make_backend("cpu"), rounded = make_backend("cpu", ComputeType::bfloat16);
  constexpr std::size_t width = 2048;
  FloatBuffer x(batch_size * width), y(batch_size * width), w(width * width), dw(width * width);
  for (auto* buffer : {&x, &y, &w})
    for (std::size_t i = 0; i < buffer->size(); ++i) buffer->data()[i] = 0.01f * static_cast<float>(i % 13) - 0.06f;
  const Gemm forward{.m = batch_size, .n = width, .k = width, .lda = width, .ldb = width, .ldc = width};
  Gemm data = forward, weight = forward;
  data.transpose_b = true;
  weight.transpose_a = true, weight.m = width, weight.k = batch_size;
  std::vector<double> rates[4];  // ratio and GFLOP/s: float32, bfloat16, and bfloat16 with the weight kept
  const auto all = [&](Backend& b, std::uint64_t version) {
    Gemm f = forward, d = data;
    f.b_version = d.b_version = version;
    return seconds([&] {
      b.gemm(f, x.data(), w.data(), y.data());
      b.gemm(d, y.data(), w.data(), x.data());
      b.gemm(weight, x.data(), y.data(), dw.data());
    });
  };
  const double work = 3 * 2.0 * batch_size * width * width * 1e-9;
  for (auto _ : state) {
    const double plain = all(*exact, 0), fresh = all(*rounded, rounded->new_version());
    const std::uint64_t version = rounded->new_version();
    all(*rounded, version);
    const double kept = all(*rounded, version);
    rates[0].push_back(plain / fresh), rates[1].push_back(work / plain), rates[2].push_back(work / fresh);
    rates[3].push_back(work / kept);
  }
  state.counters["ratio"] = median(rates[0]);
  state.counters["float32"] = median(rates[1]);
  state.counters["bfloat16"] = median(rates[2]);
  state.counters["weight_kept"] = median(rates[3]);
}
BENCHMARK(product_rates)->Unit(benchmark::kMillisecond)->Iterations(40);

// The three products of a layer of `inputs` by `outputs` at `rows` samples: GFLOP/s of every library of this machine,
// in turn (libopenblas0-serial has OpenBLAS). ONEDNN_MAX_CPU_ISA=AVX2 limits all of them.
void float32_rates(benchmark::State& state) {
  cpu::Products products;
  const auto rows = static_cast<std::size_t>(state.range(0)), in = static_cast<std::size_t>(state.range(1)),
             out = static_cast<std::size_t>(state.range(2));
  FloatBuffer x(rows * in), y(rows * out), w(in * out);
  for (auto* buffer : {&x, &y, &w})
    for (std::size_t i = 0; i < buffer->size(); ++i) buffer->data()[i] = 0.01f * static_cast<float>(i % 13) - 0.06f;
  struct Role {
    const char* name;
    Gemm g;
    const float *a, *b;
    float* c;
    std::map<ProductLibrary, std::vector<double>> rates = {};
  };
  Role roles[] = {
      {"forward", {.m = rows, .n = out, .k = in, .lda = in, .ldb = out, .ldc = out}, x.data(), w.data(), y.data()},
      {"data",
       {.transpose_b = true, .m = rows, .n = in, .k = out, .lda = out, .ldb = out, .ldc = in},
       y.data(),
       w.data(),
       x.data()},
      {"weight",
       {.transpose_a = true, .m = in, .n = out, .k = rows, .lda = in, .ldb = out, .ldc = out},
       x.data(),
       y.data(),
       w.data()}};
  const double work = 2e-9 * static_cast<double>(rows * in * out);
  for (auto _ : state)
    for (Role& r : roles)
      for (const ProductLibrary l : all_product_libraries)
        if (has_library(l)) r.rates[l].push_back(work / seconds([&] { products.run(l, r.g, r.a, r.b, r.c); }));
  for (Role& r : roles)
    for (auto& [library, rates] : r.rates)
      state.counters[std::string(r.name) + ' ' + std::string(name_of(library))] = median(rates);
}
BENCHMARK(float32_rates)
    ->Args({256, 784, 2048})
    ->Args({256, 2048, 2048})
    ->Args({64, 2048, 2048})
    ->Args({32, 512, 2048})
    ->Args({32, 9216, 4096})
    ->Args({32, 4096, 4096})
    ->Args({1024, 64, 2048})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(40);

}  // namespace
}  // namespace tutti

BENCHMARK_MAIN();
