// SPDX-License-Identifier: Apache-2.0
#include "comm/device_sums.h"

#include "base/cuda_library.h"

namespace tutti {

std::unique_ptr<DeviceSums> make_device_sums(Communicator& comm, std::string& why) {
  return std::unique_ptr<DeviceSums>(
      cuda_function<DeviceSums*(Communicator&, std::string&)>("tutti_cuda_make_device_sums")(comm, why));
}

}  // namespace tutti
