// SPDX-License-Identifier: Apache-2.0
// Sums by NCCL. The library is loaded when it is asked for, so nothing needs it to be there; its functions are declared
// by the signatures of its manual.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <vector>

#include "base/cuda/queue.h"
#include "base/cuda/runtime.h"
#include "comm/device_sums.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr const char* variable = "TUTTI_NCCL_LIBRARY";
constexpr int float32 = 7, sum = 0;  // ncclFloat32, ncclSum
struct UniqueId {
  char internal[128];
};
using NcclComm = struct ncclComm*;

struct Nccl {
  int (*version)(int*);
  const char* (*error)(int);
  int (*unique_id)(UniqueId*);
  int (*start)(NcclComm*, int ranks, UniqueId, int rank);
  int (*all_reduce)(const void*, void*, std::size_t, int type, int operation, NcclComm, cudaStream_t);
  int (*state)(NcclComm, int*);
  int (*destroy)(NcclComm);
  int (*abort)(NcclComm);

  // Null, and why, when the library cannot be had.
  static const Nccl* load(std::string& why);
  void check(int status, const char* doing) const {
    if (status != 0) throw Error(fmt::format("NCCL failed while {}: {}", doing, error(status)));
  }
};

const Nccl* Nccl::load(std::string& why) {
  const char* named = std::getenv(variable);
  if (named && !*named) {
    why = fmt::format("{} is empty", variable);
    return nullptr;
  }
  void* const library = dlopen(named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why = dlerror();
    return nullptr;
  }
  static thread_local Nccl nccl;
  bool whole = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) whole = false, why = fmt::format("the library has no {}", name);
  };
  find(nccl.version, "ncclGetVersion"), find(nccl.error, "ncclGetErrorString");
  find(nccl.unique_id, "ncclGetUniqueId"), find(nccl.start, "ncclCommInitRank");
  find(nccl.all_reduce, "ncclAllReduce"), find(nccl.state, "ncclCommGetAsyncError");
  find(nccl.destroy, "ncclCommDestroy"), find(nccl.abort, "ncclCommAbort");
  return whole ? &nccl : nullptr;
}

class NcclSums final : public DeviceSums {
 public:
  NcclSums(const Nccl& nccl, int version) : nccl_(nccl), version_(version) {}
  ~NcclSums() override {
    if (!comm_) return;
    // After a failure the other ranks may never come to what is queued.
    if (std::uncaught_exceptions() > 0) {
      nccl_.abort(comm_);
      return;
    }
    cudaStreamSynchronize(current_queue());
    nccl_.destroy(comm_);
  }
  int start(const UniqueId& id, int ranks, int rank) { return nccl_.start(&comm_, ranks, id, rank); }

  std::string name() const override {
    return fmt::format("NCCL {}.{}.{}", version_ / 10000, version_ / 100 % 100, version_ % 100);
  }
  void sum(float* values, std::size_t count) override {
    constexpr const char* doing = "summing gradients";
    int state = 0;
    nccl_.check(nccl_.state(comm_, &state), doing);
    nccl_.check(state, doing);
    if (count > 0)
      nccl_.check(nccl_.all_reduce(values, values, count, float32, cuda::sum, comm_, current_queue()), doing);
  }

 private:
  const Nccl nccl_;
  const int version_;
  NcclComm comm_ = nullptr;
};

// What the ranks tell each other before any of them begins.
struct Place {
  std::array<char, 96> host{};
  std::array<char, 32> device{};
  std::int32_t version = 0;  // 0: it has no library
};

std::string obstacle(const std::vector<Place>& places) {
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (places[r].version == 0) return fmt::format("rank {} has no NCCL", r);
    if (places[r].version != places[0].version) return fmt::format("ranks 0 and {} have different NCCL", r);
    for (std::size_t other = 0; other < r; ++other)
      if (places[r].host == places[other].host && places[r].device == places[other].device)
        return fmt::format("ranks {} and {} share a GPU", other, r);
  }
  return {};
}

template <class T>
std::vector<T> from_all(Communicator& comm, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

std::unique_ptr<DeviceSums> make_sums(Communicator& comm, std::string& why) {
  std::string missing;
  const Nccl* const nccl = Nccl::load(missing);
  Place mine;
  int device = 0, version = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetPCIBusId(mine.device.data(), static_cast<int>(mine.device.size()), device),
        "asking where the device sits");
  comm.host().copy(mine.host.data(), mine.host.size() - 1);
  if (nccl && nccl->version(&version) == 0) mine.version = version;
  why = obstacle(from_all(comm, mine));
  if (!why.empty()) {
    if (!missing.empty()) why += fmt::format(" ({})", missing);
    return nullptr;
  }
  UniqueId id{};
  int status = comm.rank() == 0 ? nccl->unique_id(&id) : 0;
  const auto ids = from_all(comm, id);
  auto sums = std::make_unique<NcclSums>(*nccl, version);
  if (from_all(comm, status)[0] == 0) status = sums->start(ids[0], comm.size(), comm.rank());
  const auto all = from_all(comm, status);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] == 0) continue;
    why = fmt::format("NCCL does not start on rank {}: {}", r, nccl->error(all[r]));
    return nullptr;
  }
  return sums;
}

}  // namespace
}  // namespace tutti::cuda

// What comm/device_sums.cpp looks up in the library.
extern "C" tutti::DeviceSums* tutti_cuda_make_device_sums(tutti::Communicator& comm, std::string& why) {
  return tutti::cuda::make_sums(comm, why).release();
}
