// SPDX-License-Identifier: Apache-2.0
#include "actions/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/cuda_library.h"
#include "tutti/error.h"

namespace tutti::actions {

DevicePlan plan_device(const config::TopLevel& top, const HostPlace& place, bool only_check) {
  using Device = config::TopLevel::Device;
  DevicePlan plan;
  const Device wanted = top.device();
  if (cuda_library_path().empty()) {
    if (wanted == Device::gpu)
      plan.notice = fmt::format("deviceId = {} has no effect here: {}; the run is on the CPU", top.device_id,
                                why_no_cuda_library());
    if (wanted != Device::cpu) plan.text = "cpu: " + why_no_cuda_library();
    return plan;
  }
  plan.text = "cpu";
  if (wanted == Device::cpu) return plan;
  const CudaDevices devices = cuda_devices();
  if (devices.count == 0 && wanted == Device::automatic) {
    plan.text = fmt::format("cpu (no GPU: {})", devices.problem);
    return plan;
  }
  const int index = wanted == Device::gpu ? top.gpu_index() : place.local_rank % devices.count;
  plan.device = fmt::format("cuda:{}", index);
  try {
    plan.text = make_backend(plan.device)->name();
  } catch (const Error& e) {
    if (only_check)
      return {
          .device = "cpu",
          .text = "cpu",
          .notice = fmt::format(
              "deviceId = {} is not available on this host: {}; checked on the CPU instead, but a run would stop here",
              top.device_id, e.what())};
    throw Error(
        fmt::format("deviceId = {} is not available on this host: {}\nfix: write deviceId = cpu, or auto to use a GPU "
                    "only where there is one",
                    top.device_id, e.what()));
  }
  const int users =
      wanted == Device::gpu ? place.local_ranks : (place.local_ranks - index + devices.count - 1) / devices.count;
  if (users > 1)
    plan.notice = fmt::format(
        "{} ranks of this host share GPU {}: their work is serialized, and each keeps its own copy of the weights",
        users, index);
  return plan;
}

std::string tell_mixed(const DevicePlan& plan, Communicator& world) {
  struct Seen {
    bool on_host = false;
    char text[255] = {};
  } mine;
  mine.on_host = plan.device == "cpu";
  std::memcpy(mine.text, plan.text.data(), std::min(plan.text.size(), sizeof mine.text - 1));
  std::vector<Seen> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  const auto on_host = [](const Seen& rank) { return rank.on_host; };
  const auto count = std::count_if(all.begin(), all.end(), on_host);
  if (count == 0 || count == world.size()) return {};
  const auto first = static_cast<std::size_t>(std::find_if(all.begin(), all.end(), on_host) - all.begin());
  return fmt::format(
      "{} of {} ranks compute on the CPU and the others on GPUs: synchronous steps take as long as the slowest rank. "
      "The first of them is rank {} on {}: {}",
      count, world.size(), first, hosts_of(world)[first], all[first].text);
}

void describe_compute_type(config::Fields& f, ComputeType& type) {
  f.choice("computeType", type,
           {{"float32", ComputeType::float32},
            {"tf32", ComputeType::tf32},
            {"bfloat16", ComputeType::bfloat16},
            {"float16", ComputeType::float16}},
           "number type of matrix products and convolutions; weights, sums and all other operations are float32");
}

void check_compute_type(const ActionContext& context, ComputeType type) {
  if (supports(context.device, type)) return;
  context.problem("computeType",
                  type == ComputeType::bfloat16
                      ? "this processor cannot compute in bfloat16, which needs AVX-512 with BF16"
                      : "the CPU computes in float32 and bfloat16 only; tf32 and float16 need a GPU",
                  "write computeType = float32, or leave the key out");
}

ComputeType compute_type_of(const config::Record& command) {
  ComputeType type = ComputeType::float32;
  Problems said_already;
  config::Notices ignored;
  config::read_open_fields(
      command, "", [&](config::Fields& f) { describe_compute_type(f, type); }, said_already, ignored);
  return type;
}

std::string gpu_text() {
  if (cuda_library_path().empty()) return why_no_cuda_library();
  const CudaDevices devices = cuda_devices();
  if (devices.count == 0)
    return fmt::format("CUDA built in, no {} ({})", devices.driver ? "GPU" : "driver", devices.problem);
  return fmt::format("CUDA built in, {} GPU{}", devices.count, devices.count == 1 ? "" : "s");
}

}  // namespace tutti::actions
