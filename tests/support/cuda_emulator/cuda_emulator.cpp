// SPDX-License-Identifier: Apache-2.0
// the emulator of the CUDA runtime: what the host asks of the device and copies, over the streams of queue.cpp.
#include <cuda_runtime.h>

#include "device.h"
#include "place.h"
#include "queue.h"

#include <cstdio>
#include <cstdlib>

const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unknown error";
}

using cuda_emulator::enqueue;

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if ((cuda_emulator::is_pageable(to, bytes) || cuda_emulator::is_pageable(from, bytes)) &&
      cuda_emulator::breaks_capture())
    return cudaErrorStreamCaptureUnsupported;
  return enqueue(stream, [=] { std::memmove(to, from, bytes); });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  return bytes > 0 ? enqueue(stream, [=] { std::memset(p, value, bytes); }) : cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }
cudaError_t cudaMemset2DAsync(void* p, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  return enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) std::memset(static_cast<char*>(p) + row * pitch, value, width);
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  const char* const many = std::getenv("TUTTI_CUDA_EMULATOR_DEVICES");
  *count = many ? std::atoi(many) : 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "emulator:%d", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value =
      attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? static_cast<int>(cuda_emulator::most_shared_memory) : 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {"emulator on the CPU", 0, 0, 1};
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
