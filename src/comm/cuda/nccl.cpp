// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <type_traits>

#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr const char* variable = "TUTTI_NCCL_LIBRARY";

// Switches that sum (NVLink SHARP) may use an order that differs from call to call.
void want_a_fixed_order() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("NCCL_NVLS_ENABLE", "0", 0); });
}

}  // namespace

bool Nccl::load(std::string& why) {
  const char* named = std::getenv(variable);
  if (named && !*named) {
    why = fmt::format("{} is empty", variable);
    return false;
  }
  want_a_fixed_order();
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

}  // namespace tutti::cuda
