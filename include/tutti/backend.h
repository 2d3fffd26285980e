// SPDX-License-Identifier: Apache-2.0
// backend.h -- a compute device with its families of operations. CPU and CUDA implement each family in a file pair.
#pragma once

#include <memory>
#include <string>

#include "tutti/device.h"
#include "tutti/image_ops.h"
#include "tutti/kernel_choices.h"
#include "tutti/loss_ops.h"
#include "tutti/recurrent.h"
#include "tutti/tensor_ops.h"

namespace tutti {

class Backend : public Device, public TensorOps, public RecurrentOps, public LossOps {
 public:
  virtual ImageOps& images() = 0;
};

// Whether the device can compute in this type. Every device supports float32.
bool supports(const std::string& device, ComputeType);
// Creates the backend "cpu", or "cuda:0" for the first GPU. Throws Error if there is no such device or it does not
// support the compute type. The CPU computes products as the choices say, which may be filled in later; null = by their
// shape.
std::unique_ptr<Backend> make_backend(const std::string& device, ComputeType = ComputeType::float32,
                                      std::shared_ptr<const KernelChoices> = nullptr);

}  // namespace tutti
