// SPDX-License-Identifier: Apache-2.0
// The rate of oneDNN's own matrix product on this core: the yardstick of throughput.py and compare_pytorch.py. Prints
// GFLOP/s of the matmul primitive, with weights packed beforehand into the library's own layout, and for float32 of
// dnnl_sgemm with plain weights. Usage: gemm_rate SAMPLES INPUTS OUTPUTS [SECONDS [float32|bfloat16]]; binding and
// OMP_NUM_THREADS are the caller's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <vector>

#include "backend/cpu/onednn_versions.h"

namespace {

using Clock = std::chrono::steady_clock;
using dnnl::memory;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Both variants of a layer's forward product, in turn, each call timed alone; 0 = not measured.
struct Rates {
  double primitive = 0, sgemm = 0;
};

double median(std::vector<double>& v) {
  const auto middle = v.begin() + static_cast<long>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

Rates median_rates(memory::dim samples, memory::dim inputs, memory::dim outputs, double seconds, bool bfloat16) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc x({samples, inputs}, type, memory::format_tag::ab);
  const memory::desc any({inputs, outputs}, type, memory::format_tag::any);
  const memory::desc plain({inputs, outputs}, type, memory::format_tag::ab);
  const memory::desc y({samples, outputs}, memory::data_type::f32, memory::format_tag::ab);
  const auto plan = tutti::cpu::plan<dnnl::matmul>(engine, dnnl::primitive_attr(), x, any, y);
  const dnnl::matmul product(plan);
  memory from(x, engine), packed(plan.weights_desc(), engine), weights(plain, engine), to(y, engine);
  const auto floats = [](memory& m) { return static_cast<float*>(m.get_data_handle()); };
  for (memory* m : {&from, &packed, &weights, &to})
    std::fill_n(floats(*m), m->get_desc().get_size() / sizeof(float), 0.5F);

  std::vector<double> primitive, sgemm;
  const double work = 2e-9 * static_cast<double>(samples) * static_cast<double>(inputs) * static_cast<double>(outputs);
  for (const auto start = Clock::now(); primitive.size() < 5 || seconds_since(start) < seconds;) {
    const auto begin = Clock::now();
    product.execute(stream, {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, to}});
    stream.wait();
    primitive.push_back(work / seconds_since(begin));
    if (bfloat16) continue;
    const auto again = Clock::now();
    dnnl_sgemm('N', 'N', samples, outputs, inputs, 1, floats(from), inputs, floats(weights), outputs, 0, floats(to),
               outputs);
    sgemm.push_back(work / seconds_since(again));
  }
  return {median(primitive), bfloat16 ? 0 : median(sgemm)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: gemm_rate SAMPLES INPUTS OUTPUTS [SECONDS [float32|bfloat16]]\n");
    return 2;
  }
  const Rates rates =
      median_rates(std::atol(argv[1]), std::atol(argv[2]), std::atol(argv[3]), argc > 4 ? std::atof(argv[4]) : 1,
                   argc > 5 && std::strcmp(argv[5], "bfloat16") == 0);
  std::printf("%.2f %.2f\n", rates.primitive, rates.sgemm);
  return 0;
}
