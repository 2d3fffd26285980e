// SPDX-License-Identifier: Apache-2.0
// Making the backend; memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/bfloat16_matmul.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/images.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/parallel.h"
#include "base/available_memory.h"
#include "base/memory.h"
#include "tutti/error.h"

namespace tutti::cpu {

CpuTensors::CpuTensors(const Kernels& kernels, ComputeType type)
    : CpuDevice(kernels, type),
      matmul_(std::make_unique<Matmul>()),
      bfloat16_(type == ComputeType::bfloat16 ? std::make_unique<Bfloat16Matmul>(*bfloat16_kernels()) : nullptr) {}
CpuTensors::~CpuTensors() = default;

CpuBackend::CpuBackend(ComputeType type) : CpuBackend(best_kernels(), type) {}
CpuBackend::CpuBackend(const Kernels& kernels, ComputeType type)
    : CpuRecurrent(kernels, type), images_(std::make_unique<CpuImages>(kernels, type)) {}
CpuBackend::~CpuBackend() = default;

std::string CpuTensors::name() const {
  return fmt::format("cpu ({}, {} kernels{})", Matmul::library(), kernels_.name,
                     bfloat16_ ? ", products in bfloat16" : "");
}

ImageOps& CpuBackend::images() { return *images_; }

float* CpuDevice::allocate(std::size_t count) {
  float* p = allocate_floats(count);
  if (!p)
    throw Error(fmt::format("out of memory: {} for the values of the network{}",
                            bytes_text(static_cast<double>(count) * sizeof(float)),
                            available_text(count * sizeof(float))));
  return p;
}

void CpuDevice::release(float* p) { std::free(p); }

void CpuDevice::upload(const float* host, float* device, std::size_t count) {
  if (count) std::memcpy(device, host, count * sizeof(float));
}

void CpuDevice::download(const float* device, float* host, std::size_t count) {
  if (count) std::memcpy(host, device, count * sizeof(float));
}

void CpuTensors::fill(float value, float* x, std::size_t count) {
  parallel(count, 16, 1, [&](std::size_t begin, std::size_t end) { std::fill(x + begin, x + end, value); });
}

}  // namespace tutti::cpu
