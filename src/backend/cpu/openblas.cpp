// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/openblas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

#include "backend/cpu/parallel.h"
#include "base/instruction_set.h"

namespace tutti::cpu {

OpenBlas::OpenBlas(void* library) {
  sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  const auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"));
  const auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_parallel"));
  if (!config || !core || !parallel) sgemm_ = nullptr;
  if (!sgemm_) return;
  constexpr int sequential = 0;  // of openblas_get_parallel()
  serial_ = parallel() == sequential;
  // "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64"
  const std::string text = config();
  const std::size_t begin = text.find(' ');
  version_ = begin == std::string::npos ? text : text.substr(begin + 1, text.find(' ', begin + 1) - begin - 1);
  version_ += std::string(" for ") + core();
}

OpenBlas* OpenBlas::load() {
  static const std::unique_ptr<OpenBlas> loaded = []() -> std::unique_ptr<OpenBlas> {
    // OpenBLAS reads these when it is loaded. It must not start threads, and must keep to the instruction set of the
    // other kernels.
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
#if defined(__x86_64__)
    if (widest_set() == InstructionSet::avx2 && __builtin_cpu_supports("avx512f"))
      setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
    void* const library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
    if (!library) return nullptr;
    std::unique_ptr<OpenBlas> blas(new OpenBlas(library));
    return blas->sgemm_ ? std::move(blas) : nullptr;
  }();
  return loaded.get();
}

void OpenBlas::run(const Gemm& g, const float* a, const float* b, float* c) {
  constexpr int row_major = 101, plain = 111, transposed = 112;
  const auto size = [](std::size_t n) { return static_cast<int>(n); };
  const auto columns = [&](std::size_t begin, std::size_t end) {
    sgemm_(row_major, g.transpose_a ? transposed : plain, g.transpose_b ? transposed : plain, size(g.m),
           size(end - begin), size(g.k), 1.0F, a, size(g.lda), b + begin * (g.transpose_b ? g.ldb : 1), size(g.ldb),
           g.accumulate ? 1.0F : 0.0F, c + begin, size(g.ldc));
  };
  if (serial_) {
    const std::lock_guard lock(one_caller_);
    return columns(0, g.n);
  }
  parallel(g.n, 64, g.m * g.k, columns);
}

}  // namespace tutti::cpu
