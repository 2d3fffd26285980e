// SPDX-License-Identifier: Apache-2.0
// device name -> backend; the only file that knows all of them.
#include <fmt/format.h>

#include "backend/cpu/bfloat16_kernels.h"
#include "backend/cpu/cpu_backend.h"
#include "tutti/error.h"

namespace tutti {

bool supports(const std::string& device, ComputeType type) {
  return device == "cpu" && (type == ComputeType::float32 || cpu::bfloat16_kernels());
}

std::unique_ptr<Backend> make_backend(const std::string& device, ComputeType type) {
  if (device == "cpu" && !supports(device, type))
    throw Error("this processor does not compute in bfloat16: that needs AVX-512 with BF16");
  if (device == "cpu") return std::make_unique<cpu::CpuBackend>(type);
  throw Error(fmt::format("this build has no backend for the device '{}'; it has: cpu", device));
}

}  // namespace tutti
