// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tutti/error.h"

namespace tutti {
namespace {

constexpr const char* library_name = "libtutti_cuda.so";
constexpr const char* variable = "TUTTI_CUDA_LIBRARY";

std::string named_library() {
  const char* named = std::getenv(variable);
  return named ? named : "";
}

void* load() {
  const std::string path = cuda_library_path();
  if (path.empty())
    throw Error(fmt::format("loading the GPU part: there is no {} beside the program: {}", library_name,
                            why_no_cuda_library()));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(fmt::format("loading the GPU part: {}", dlerror()));
  return library;
}

std::filesystem::path program_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

// The driver's functions, declared by the signatures in its manual.
int count_by_driver(void* driver, std::string& problem) {
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  const auto text = reinterpret_cast<int (*)(int, const char**)>(dlsym(driver, "cuGetErrorString"));
  if (!init || !count) {
    problem = "driver: libcuda.so.1 has no cuInit";
    return 0;
  }
  int devices = 0, status = init(0);
  if (status == 0) status = count(&devices);
  if (status != 0) {
    const char* says = nullptr;
    if (text) text(status, &says);
    problem = fmt::format("driver: {} (error {})", says ? says : "cannot be started", status);
    return 0;
  }
  if (devices == 0) problem = "driver: it found no GPU";
  return devices;
}

}  // namespace

std::string cuda_library_path() {
  if (const std::string named = named_library(); !named.empty()) return named;
  std::error_code ignored;
  const auto folder = program_folder();
  for (const char* beside : {"", "../lib/tutti", "../lib64/tutti", "../lib/x86_64-linux-gnu/tutti"}) {
    const auto path = folder / beside / library_name;
    if (std::filesystem::exists(path, ignored)) return path.lexically_normal().string();
  }
  return {};
}

std::string why_no_cuda_library() {
  if (!TUTTI_CUDA_CONFIGURED) return "built without CUDA";
  const auto folder = program_folder();
  std::error_code ignored;
  // An installed program was parted from its build directory.
  const bool built_here = std::filesystem::exists(folder / "build.ninja", ignored);
  return fmt::format("GPU part not built (run ninja -C {} {})", built_here ? folder.string() : "build", library_name);
}

void* cuda_symbol(const char* name) {
  static void* const library = load();  // once more by the next call, if it throws
  dlerror();
  void* symbol = dlsym(library, name);
  if (!symbol)
    throw Error(fmt::format("loading the GPU part: {} has no '{}': it belongs to another version of the program",
                            cuda_library_path(), name));
  return symbol;
}

CudaDevices cuda_devices() {
  CudaDevices devices;
  // A library named by the user is asked itself.
  if (named_library().empty()) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    devices.driver = driver != nullptr;
    if (driver)
      devices.count = count_by_driver(driver, devices.problem);
    else
      devices.problem = fmt::format("driver: {}", dlerror());
    return devices;
  }
  devices.driver = true;
  try {
    devices.count = cuda_function<int(std::string&)>("tutti_cuda_device_count")(devices.problem);
  } catch (const Error& e) {
    devices.problem = e.what();
  }
  return devices;
}

}  // namespace tutti
