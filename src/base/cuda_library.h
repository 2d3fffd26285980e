// SPDX-License-Identifier: Apache-2.0
// cuda_library.h -- everything for GPUs stands in a library of its own, libtutti_cuda.so, that is loaded when a GPU is
// asked for: the trainer starts as fast as without, and on machines that have no driver.
#pragma once

#include <string>

namespace tutti {

// Where the library would be loaded from; empty when it is not there. TUTTI_CUDA_LIBRARY names another one.
std::string cuda_library_path();

// A function of the library by name; the library is loaded by the first call. Throws Error that says which step failed.
void* cuda_symbol(const char* name);

template <class Function>
Function* cuda_function(const char* name) {
  return reinterpret_cast<Function*>(cuda_symbol(name));
}

// What the driver says, without loading the library: the number of GPUs, or why there is none.
struct CudaDevices {
  int count = 0;
  std::string problem;
};
CudaDevices cuda_devices();

}  // namespace tutti
