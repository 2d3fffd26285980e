// SPDX-License-Identifier: Apache-2.0
// Training steps of recurrent networks, momentum update included: recurrent_benchmark [name] prints the median
// milliseconds of a step for each network, and its products as a share of what they would take at the rate of a large
// product. With OMP_NUM_THREADS=1 for figures of one core.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "../tests/brainscript/networks.h"
#include "../tests/graph/sequence_data.h"
#include "momentum_sink.h"
#include "tutti/backend.h"
#include "tutti/network.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  const char* name;
  std::size_t input, cells, classes, sequences, steps;
  bool last, ragged;
  std::string layer;
};

// Of Keras; not `plain`: a loop of operations.
std::string gru(std::size_t cells, bool reset_after, bool plain) {
  return fmt::format(
      "_Keras.Gru {{{}, (Repeat ({}, 0)), Tanh, Sigmoid, 'uniform', 1, 'uniform', 1, false, {}, {}}} (x)", cells,
      3 * cells, reset_after, plain);
}

// `apart`: written as a loop, with a matrix for each gate.
const Case cases[] = {
    {"lstm20", 20, 20, 3, 100, 100, true, false, "RecurrentLSTMLayer {20} (x)"},
    {"lstm512", 512, 512, 64, 32, 32, false, false, "RecurrentLSTMLayer {512} (x)"},
    {"lstm300", 150, 300, 128, 32, 24, false, true, "RecurrentLSTMLayer {300} (x)"},
    {"short", 150, 300, 129, 6, 12, false, true, "RecurrentLSTMLayer {300} (x)"},
    {"gru20", 20, 20, 3, 100, 100, true, false, gru(20, true, true)},
    {"gru20before", 20, 20, 3, 100, 100, true, false, gru(20, false, true)},
    {"gru20loop", 20, 20, 3, 100, 100, true, false, gru(20, true, false)},
    {"gru20apart", 20, 20, 3, 100, 100, true, false, "BS.RNNs.RecurrentGRU (20, x).h"},
    {"gru512", 512, 512, 64, 32, 32, false, false, gru(512, true, true)},
    {"gru512before", 512, 512, 64, 32, 32, false, false, gru(512, false, true)},
    {"gru512loop", 512, 512, 64, 32, 32, false, false, gru(512, true, false)},
    {"gru512apart", 512, 512, 64, 32, 32, false, false, "BS.RNNs.RecurrentGRU (512, x).h"},
    {"loop20", 20, 20, 3, 100, 100, true, false, "RecurrentLSTMLayer {20, usePeepholes=true} (x)"},
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// GFLOP/s of a large product.
double gemm_rate() {
  const auto backend = make_backend("cpu");
  const std::size_t n = 1024;
  FloatBuffer a(n * n), b(n * n), c(n * n);
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    const auto start = Clock::now();
    backend->gemm({.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n}, a.data(), b.data(), c.data());
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return 2.0 * n * n * n / median(seconds) / 1e9;
}

void run(const Case& k, double rate) {
  const std::string text = fmt::format(
      "{{ x = Input {{{}, dynamicAxis=DynamicAxis {{}}}}; labels = Input {{{}{}}}; h = {};\n"
      "z = DenseLayer {{{}}} ({}); ce = CrossEntropyWithSoftmax (labels, {}); criterionNodes = (ce) }}",
      k.input, k.classes, k.last ? "" : ", dynamicAxis=''", k.layer, k.classes, k.last ? "BS.Sequences.Last (h)" : "h",
      "ReconcileDynamicAxis (z, labels)");
  const auto built = brainscript::build(text);
  if (!built.errors.empty()) throw std::runtime_error(built.errors);
  test::SequenceData data({{"x", k.input, false}, {"labels", k.classes, false}});
  std::vector<std::size_t> lengths(k.sequences, k.steps);
  std::mt19937 engine(1);
  if (k.ragged)
    for (auto& l : lengths) l = 1 + engine() % (2 * k.steps - 1);
  std::vector<std::size_t> labels = k.last ? std::vector<std::size_t>(k.sequences, 1) : lengths;
  const Batch& batch = data.batch(data.random({lengths, labels}));
  std::int64_t columns = 0;
  for (const auto l : lengths) columns += static_cast<std::int64_t>(l);

  Network network(built.graph, NetworkOptions{});
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(columns);
  MomentumSink sink(network.parameters());
  for (int i = 0; i < 3; ++i) network.forward_backward(batch, sink);
  std::vector<double> seconds;
  const auto begin = Clock::now();
  while (seconds.size() < 10 || std::chrono::duration<double>(Clock::now() - begin).count() < 3) {
    const auto start = Clock::now();
    network.forward_backward(batch, sink);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double gates = std::strncmp(k.name, "gru", 3) == 0 ? 3 : 4;
  const double flops = 2.0 * static_cast<double>(columns) * gates * static_cast<double>(k.cells) *
                       (2 * static_cast<double>(k.input) + 3 * static_cast<double>(k.cells));
  const double step = median(seconds);
  std::printf("%-12s %8.3f ms a step, %6.1f GFLOP/s in the cell's products (%2.0f %% of a large product's %.1f)\n",
              k.name, step * 1e3, flops / step / 1e9, 100 * flops / step / 1e9 / rate, rate);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const double rate = tutti::gemm_rate();
  for (const auto& k : tutti::cases)
    if (argc < 2 || std::strcmp(argv[1], k.name) == 0) tutti::run(k, rate);
}
