// SPDX-License-Identifier: Apache-2.0
// cuda_library.h -- loads libtutti_cuda.so, which contains all GPU code, when a GPU is requested. So the trainer starts
// as fast without a GPU, and runs on machines without a driver.
#pragma once

#include <string>

namespace tutti {

// The path of the library; empty if it does not exist. TUTTI_CUDA_LIBRARY overrides it.
std::string cuda_library_path();

// Why there is no library beside the program: "built without CUDA", or "GPU part not built" with the command that
// builds it.
std::string why_no_cuda_library();

// Returns a function of the library by name. The first call loads the library. Throws an Error that names the step that
// failed.
void* cuda_symbol(const char* name);

template <class Function>
Function* cuda_function(const char* name) {
  return reinterpret_cast<Function*>(cuda_symbol(name));
}

// Asks the driver without loading the library: the number of GPUs, or the reason why there is none.
struct CudaDevices {
  int count = 0;
  bool driver = false;  // whether there is one
  std::string problem;
};
CudaDevices cuda_devices();

}  // namespace tutti
