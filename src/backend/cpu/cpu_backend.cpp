// SPDX-License-Identifier: Apache-2.0
// Making the backend; memory; recurrent cells: rows distributed to the threads. Layers go step by step.
#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/bfloat16_matmul.h"
#include "backend/cpu/images.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/products.h"
#include "backend/recurrent_steps.h"
#include "base/memory.h"
#include "tutti/error.h"

namespace tutti::cpu {
namespace {

template <class R>
void distribute(void (*kernel)(const R&, std::size_t, std::size_t), const R& r) {
  parallel(r.rows, 1, r.cells * 40, [&](std::size_t begin, std::size_t end) { kernel(r, begin, end); });
}

}  // namespace

const Kernels& best_kernels() {
  return *of_widest_set([]<InstructionSet set>() { return &kernels<set>(); });
}

CpuBackend::CpuBackend(ComputeType type, std::shared_ptr<const KernelChoices> choices)
    : CpuBackend(best_kernels(), type, std::move(choices)) {}
CpuBackend::CpuBackend(const Kernels& kernels, ComputeType type, std::shared_ptr<const KernelChoices> choices)
    : kernels_(kernels),
      compute_type_(type),
      products_(std::make_unique<Products>(std::move(choices))),
      bfloat16_(type == ComputeType::bfloat16 ? std::make_unique<Bfloat16Matmul>(*bfloat16_kernels()) : nullptr),
      images_(std::make_unique<CpuImages>(kernels, type)) {}
CpuBackend::~CpuBackend() = default;

std::string CpuBackend::name() const {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("cpu (oneDNN {}.{}.{}, {} kernels{})", v->major, v->minor, v->patch, kernels_.name,
                     bfloat16_ ? ", products in bfloat16" : "");
}

ImageOps& CpuBackend::images() { return *images_; }

float* CpuBackend::allocate(std::size_t count) {
  float* p = allocate_floats(count);
  if (!p)
    throw Error(fmt::format("out of memory: {} for the values of the network{}",
                            bytes_text(static_cast<double>(count) * sizeof(float)),
                            available_text(count * sizeof(float))));
  return p;
}

void CpuBackend::release(float* p) { std::free(p); }

void CpuBackend::upload(const float* host, float* device, std::size_t count) {
  if (count) std::memcpy(device, host, count * sizeof(float));
}

void CpuBackend::download(const float* device, float* host, std::size_t count) {
  if (count) std::memcpy(host, device, count * sizeof(float));
}

void CpuBackend::fill(float value, float* x, std::size_t count) {
  parallel(count, 16, 1, [&](std::size_t begin, std::size_t end) { std::fill(x + begin, x + end, value); });
}

void CpuBackend::lstm_step(const LstmRows& r) { distribute(kernels_.lstm_step, r); }
void CpuBackend::lstm_step_gradient(const LstmRowsGradient& r) { distribute(kernels_.lstm_step_gradient, r); }
void CpuBackend::gru_step(const GruRows& r) { distribute(kernels_.gru_step, r); }
void CpuBackend::gru_step_gradient(const GruRowsGradient& r) { distribute(kernels_.gru_step_gradient, r); }
void CpuBackend::gru_reset(const GruRows& r) { distribute(kernels_.gru_reset, r); }
void CpuBackend::gru_reset_gradient(const GruRowsGradient& r) { distribute(kernels_.gru_reset_gradient, r); }

std::size_t CpuBackend::recurrent_layer_workspace(const RecurrentLayer& l) { return recurrent_steps_workspace(l); }
void CpuBackend::recurrent_layer(const RecurrentLayer& l) { recurrent_layer_by_steps(*this, l); }
void CpuBackend::recurrent_layer_gradient(const RecurrentLayer& l, const RecurrentLayerGradient& g) {
  recurrent_layer_gradient_by_steps(*this, l, g);
}

}  // namespace tutti::cpu
