// SPDX-License-Identifier: Apache-2.0
// device.h -- which device this rank computes on, from deviceId and its place on the host.
#pragma once

#include <string>
#include <vector>

#include "config/top_level.h"
#include "tutti/communicator.h"

namespace tutti::actions {

struct DevicePlan {
  std::string device = "cpu";  // for make_backend
  std::string text;            // for the settings at the start; empty in a build without the part for GPUs
  std::string notice;          // non-empty when ranks share a GPU, or a wish has no effect
};

// auto: the GPU whose number is this rank's on its host, modulo the number of GPUs; the CPU where there
// is none. A number: that GPU, for every rank. Throws Error that says why the GPU cannot be had; where nothing but a check
// is wanted, `notice` says it and the check is made on the CPU.
DevicePlan plan_device(const config::TopLevel&, const HostPlace&, bool only_check);

// Where some ranks compute on GPUs and others on the CPU: which, for a warning; empty otherwise. Collective.
std::string tell_mixed(const DevicePlan&, Communicator&);

// What this build and this machine have, for --version.
std::string gpu_text();

}  // namespace tutti::actions
