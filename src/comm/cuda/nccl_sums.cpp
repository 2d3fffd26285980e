// SPDX-License-Identifier: Apache-2.0
// Sums by NCCL, in a stream of their own. A thread polls the library for failures, which would otherwise look like
// device work that never ends.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/cuda/runtime.h"
#include "comm/agreement.h"
#include "comm/device_sums.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr const char* summing = "summing over the ranks";
constexpr auto between_looks = std::chrono::milliseconds(200);

// The functions of NCCL used here, declared by the signatures in its manual. The library is loaded on demand, so
// nothing depends on it.
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

bool Nccl::load(std::string& why) {
  constexpr const char* variable = "TUTTI_NCCL_LIBRARY";
  const char* named = std::getenv(variable);
  if (named && !*named) {
    why = fmt::format("{} is empty", variable);
    return false;
  }
  // Switches that sum (NVLink SHARP) may use an order that differs from call to call.
  static std::once_flag once;
  std::call_once(once, [] { setenv("NCCL_NVLS_ENABLE", "0", 0); });
  void* const library = dlopen(named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why = dlerror();
    return false;
  }
  bool whole = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) whole = false, why = fmt::format("the library has no {}", name);
  };
  find(version, "ncclGetVersion"), find(error, "ncclGetErrorString");
  find(unique_id, "ncclGetUniqueId"), find(start, "ncclCommInitRank");
  find(group_start, "ncclGroupStart"), find(group_end, "ncclGroupEnd");
  find(all_reduce, "ncclAllReduce"), find(state, "ncclCommGetAsyncError");
  find(destroy, "ncclCommDestroy"), find(abort, "ncclCommAbort");
  return whole;
}

void Nccl::check(int status, const char* doing) const {
  if (status != 0) throw Error(fmt::format("NCCL failed while {}: {}", doing, error(status)));
}

class NcclSums final : public DeviceSums {
 public:
  NcclSums(const Nccl& nccl, int version, Communicator& ranks)
      : nccl_(nccl), version_(version), ranks_(ranks), stream_(make_stream()), given_(make_event()) {}
  ~NcclSums() override;
  int start(const Nccl::UniqueId& id) { return nccl_.start(&comm_, ranks_.size(), id, ranks_.rank()); }
  void look_after_it() {
    guard_ = std::thread([this] { look(); });
  }

  std::string name() const override {
    return fmt::format("NCCL {}.{}.{}", version_ / 10000, version_ / 100 % 100, version_ % 100);
  }
  std::uint64_t sum(std::span<const Run> runs) override;
  bool query(std::uint64_t event) override { return events_.query(event); }
  void follow(std::uint64_t sum) override { events_.stream_wait(current_queue(), sum); }

 private:
  void look();
  void check_state() const;

  const Nccl nccl_;
  const int version_;
  Communicator& ranks_;
  Stream stream_;
  Event given_;  // behind what is to be summed
  Events events_{summing};

  std::mutex mutex_;  // of the library's communicator
  std::condition_variable ended_;
  bool over_ = false;
  Nccl::Comm comm_ = nullptr;
  std::thread guard_;
};

// After a failure the other ranks may never reach the enqueued work, nor a collective end.
NcclSums::~NcclSums() {
  const bool fails = std::uncaught_exceptions() > 0 || !guard_.joinable();
  if (!fails) cudaStreamSynchronize(stream_.get());
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  if (guard_.joinable()) guard_.join();
  if (comm_) fails ? nccl_.abort(comm_) : nccl_.destroy(comm_);
}

std::uint64_t NcclSums::sum(std::span<const Run> runs) {
  check(cudaEventRecord(given_.get(), current_queue()), summing);
  check(cudaStreamWaitEvent(stream_.get(), given_.get(), 0), summing);
  const std::lock_guard lock(mutex_);
  if (!comm_) throw Error("NCCL has been given up after a failure");
  check_state();
  nccl_.check(nccl_.group_start(), summing);
  for (const Run& run : runs)
    if (run.count > 0)
      nccl_.check(nccl_.all_reduce(run.values, run.sums, run.count, Nccl::float32, Nccl::sum, comm_, stream_.get()),
                  summing);
  nccl_.check(nccl_.group_end(), summing);
  return events_.add(stream_.get());
}

void NcclSums::check_state() const {
  int state = 0;
  nccl_.check(nccl_.state(comm_, &state), summing);
  nccl_.check(state, summing);
}

// Communicator::fail() ends the process or, if ranks are threads, notifies them; they continue once the device does.
void NcclSums::look() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, between_looks, [&] { return over_; })) {
    try {
      check_state();
    } catch (const Error&) {
      ranks_.fail(std::current_exception());
      nccl_.abort(std::exchange(comm_, nullptr));
      return;
    }
  }
}

// What the ranks exchange before any of them begins.
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

std::unique_ptr<DeviceSums> make_sums(Communicator& comm, std::string& why) {
  std::string missing;
  Nccl nccl;
  Place mine;
  int device = 0, version = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetPCIBusId(mine.device.data(), static_cast<int>(mine.device.size()), device),
        "asking where the device sits");
  comm.host().copy(mine.host.data(), mine.host.size() - 1);
  if (nccl.load(missing) && nccl.version(&version) == 0) mine.version = version;
  why = obstacle(from_all(comm, mine));
  if (!why.empty()) {
    if (!missing.empty()) why += fmt::format(" ({})", missing);
    return nullptr;
  }
  Nccl::UniqueId id{};
  int status = comm.rank() == 0 ? nccl.unique_id(&id) : 0;
  const auto ids = from_all(comm, id);
  auto sums = std::make_unique<NcclSums>(nccl, version, comm);
  if (from_all(comm, status)[0] == 0) status = sums->start(ids[0]);
  const auto all = from_all(comm, status);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] == 0) continue;
    why = fmt::format("NCCL does not start on rank {}: {}", r, nccl.error(all[r]));
    return nullptr;
  }
  sums->look_after_it();
  return sums;
}

}  // namespace
}  // namespace tutti::cuda

// The symbol that comm/device_sums.cpp looks up in the library.
extern "C" tutti::DeviceSums* tutti_cuda_make_device_sums(tutti::Communicator& comm, std::string& why) {
  return tutti::cuda::make_sums(comm, why).release();
}
