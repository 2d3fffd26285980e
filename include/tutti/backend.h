// SPDX-License-Identifier: Apache-2.0
// backend.h -- a device with its families of operations. Each has a file pair on CPU and CUDA.
#pragma once

#include <memory>
#include <string>

#include "tutti/device.h"
#include "tutti/image_ops.h"
#include "tutti/loss_ops.h"
#include "tutti/recurrent.h"
#include "tutti/tensor_ops.h"

namespace tutti {

class Backend : public Device, public TensorOps, public RecurrentOps, public LossOps {
 public:
  virtual ImageOps& images() = 0;
};

// Whether the device can do it: every one has float32.
bool supports(const std::string& device, ComputeType);
// "cpu", or "cuda:0" for the first GPU; throws Error for a device that is not there, or a type that it does not compute
// in.
std::unique_ptr<Backend> make_backend(const std::string& device, ComputeType = ComputeType::float32);

}  // namespace tutti
