// SPDX-License-Identifier: Apache-2.0
// The float32 rate of oneDNN's own matrix product on this core: the yardstick of throughput.py. Prints GFLOP/s.
// Usage: gemm_rate SAMPLES INPUTS OUTPUTS [SECONDS]; binding and OMP_NUM_THREADS are the caller's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using dnnl::memory;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// The product that a layer's forward pass is, with the weights in the layout that oneDNN likes best.
double median_rate(memory::dim samples, memory::dim inputs, memory::dim outputs, double seconds) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc x({samples, inputs}, memory::data_type::f32, memory::format_tag::ab);
  const memory::desc any({inputs, outputs}, memory::data_type::f32, memory::format_tag::any);
  const memory::desc y({samples, outputs}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(x, any, y), engine);
  const dnnl::matmul product(plan);
  memory from(x, engine), weights(plan.weights_desc(), engine), to(y, engine);
  for (memory* m : {&from, &weights, &to})
    std::fill_n(static_cast<float*>(m->get_data_handle()), m->get_desc().get_size() / sizeof(float), 0.5F);

  std::vector<double> rates;
  const double work = 2e-9 * static_cast<double>(samples) * static_cast<double>(inputs) * static_cast<double>(outputs);
  for (const auto start = Clock::now(); rates.size() < 5 || seconds_since(start) < seconds;) {
    const auto begin = Clock::now();
    product.execute(stream, {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, to}});
    stream.wait();
    rates.push_back(work / seconds_since(begin));
  }
  std::nth_element(rates.begin(), rates.begin() + static_cast<long>(rates.size() / 2), rates.end());
  return rates[rates.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: gemm_rate SAMPLES INPUTS OUTPUTS [SECONDS]\n");
    return 2;
  }
  std::printf("%.2f\n", median_rate(std::atol(argv[1]), std::atol(argv[2]), std::atol(argv[3]),
                                    argc > 4 ? std::atof(argv[4]) : 1));
  return 0;
}
