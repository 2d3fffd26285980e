// SPDX-License-Identifier: Apache-2.0
// nccl.h -- the functions of NCCL used here, declared by the signatures in its manual. The library is loaded on demand,
// so nothing depends on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace tutti::cuda {

struct Nccl {
  static constexpr int float32 = 7, sum = 0;  // ncclFloat32, ncclSum
  struct UniqueId {
    char internal[128];
  };
  using Comm = struct ncclComm*;

  int (*version)(int*);
  const char* (*error)(int);
  int (*unique_id)(UniqueId*);
  int (*start)(Comm*, int ranks, UniqueId, int rank);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void*, void*, std::size_t, int type, int operation, Comm, cudaStream_t);
  int (*state)(Comm, int*);
  int (*destroy)(Comm);
  int (*abort)(Comm);

  // Returns false, and the reason, if the library is not available.
  bool load(std::string& why);
  // Throws Error.
  void check(int status, const char* doing) const;
};

}  // namespace tutti::cuda
