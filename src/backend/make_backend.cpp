// SPDX-License-Identifier: Apache-2.0
// Creates a backend by device name; the only file that knows all of them.
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "backend/cpu/bfloat16_kernels.h"
#include "backend/cpu/cpu_backend.h"
#include "base/cuda_library.h"
#include "base/instruction_set.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// The number behind "cuda:", or -1.
int gpu(std::string_view device) {
  constexpr std::string_view prefix = "cuda:";
  int index = -1;
  if (device.substr(0, prefix.size()) != prefix) return -1;
  const char *first = device.data() + prefix.size(), *last = device.data() + device.size();
  const auto [end, error] = std::from_chars(first, last, index);
  return error == std::errc{} && end == last ? index : -1;
}

}  // namespace

bool supports(const std::string& device, ComputeType type) {
  if (gpu(device) >= 0) return true;
  return device == "cpu" &&
         (type == ComputeType::float32 ||
          (type == ComputeType::bfloat16 && cpu::bfloat16_kernels() && widest_set() == InstructionSet::avx512));
}

std::unique_ptr<Backend> make_backend(const std::string& device, ComputeType type,
                                      std::shared_ptr<const KernelChoices> choices) {
  if (const int index = gpu(device); index >= 0) {
    const CudaDevices devices = cuda_devices();
    if (devices.count == 0) throw Error(fmt::format("starting GPU {}: {}", index, devices.problem));
    return std::unique_ptr<Backend>(cuda_function<Backend*(int, ComputeType)>("tutti_cuda_make_backend")(index, type));
  }
  if (device == "cpu" && !supports(device, type))
    throw Error(type == ComputeType::bfloat16
                    ? "this processor cannot compute in bfloat16, which needs AVX-512 with BF16"
                    : "the CPU computes in float32 and bfloat16 only");
  if (device == "cpu") return std::make_unique<cpu::CpuBackend>(type, std::move(choices));
  throw Error(fmt::format("there is no device '{}'; there are: cpu, cuda:0 and so on", device));
}

}  // namespace tutti
