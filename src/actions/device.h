// SPDX-License-Identifier: Apache-2.0
// device.h -- the device of this rank, from deviceId and the rank's place on its host.
#pragma once

#include <string>
#include <vector>

#include "actions/action.h"
#include "config/top_level.h"
#include "tutti/backend.h"
#include "tutti/communicator.h"

namespace tutti::actions {

struct DevicePlan {
  std::string device = "cpu";  // for make_backend
  std::string text;            // for the settings at start; empty if a program without the GPU part was to use the CPU
  std::string notice;          // set if ranks share a GPU or a setting has no effect
};

// auto: the GPU with the local rank modulo the number of GPUs, or the CPU if there is no GPU. A number: that GPU, on
// every rank. Throws an Error with the reason if the GPU is not available; for a check, `notice` has the reason and the
// CPU is used.
DevicePlan plan_device(const config::TopLevel&, const HostPlace&, bool only_check);

// A warning if some ranks compute on GPUs and others on the CPU; otherwise empty. Collective.
std::string tell_mixed(const DevicePlan&, Communicator&);

// computeType of a command block or of an enclosing one, the number type of products: one key of an action's table.
void describe_compute_type(config::Fields&, ComputeType&);
// A type that the device does not support is a mistake.
void check_compute_type(const ActionContext&, ComputeType);

// The type of a block that was checked before.
ComputeType compute_type_of(const config::Record& command);

// The devices of this build and machine, for --version.
std::string gpu_text();

}  // namespace tutti::actions
