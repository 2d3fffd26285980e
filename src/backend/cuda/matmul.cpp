// SPDX-License-Identifier: Apache-2.0
// The only file that includes cuBLASLt.
#include "backend/cuda/matmul.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "backend/cuda/cuda_backend.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

void check_lt(cublasStatus_t status, const char* doing,
              const std::source_location& at = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(fmt::format("cuBLASLt gives status {}", static_cast<int>(status)).c_str(), doing, at);
}

using Library = Handle<cublasLtHandle_t, cublasLtDestroy>;
using Description = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Matrix = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// Operands and results are float32 in each case; the type says what the tensor cores may round operands to.
cublasComputeType_t compute(ComputeType type) {
  switch (type) {
    case ComputeType::float32:
      return CUBLAS_COMPUTE_32F;
    case ComputeType::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case ComputeType::bfloat16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case ComputeType::float16:
      return CUBLAS_COMPUTE_32F_FAST_16F;
  }
  return CUBLAS_COMPUTE_32F;
}

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

// Column by column, as the library counts: what is stored row by row is the transposed matrix to it.
Matrix matrix(std::size_t rows, std::size_t columns, std::size_t step) {
  Matrix m;
  check_lt(cublasLtMatrixLayoutCreate(m.out(), CUDA_R_32F, rows, columns, static_cast<std::int64_t>(step)),
           "describing a matrix");
  return m;
}

// C' = B' A': the stored operands change places and keep their own transposition.
struct Planned {
  Description description;
  Matrix a, b, c;
  cublasLtMatmulAlgo_t algorithm{};

  Planned(cublasLtHandle_t library, const Gemm& g, ComputeType type, unsigned alignment) {
    check_lt(cublasLtMatmulDescCreate(description.out(), compute(type), CUDA_R_32F), "describing a product");
    const cublasOperation_t first = g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first), set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    a = g.transpose_b ? matrix(g.k, g.n, g.ldb) : matrix(g.n, g.k, g.ldb);
    b = g.transpose_a ? matrix(g.m, g.k, g.lda) : matrix(g.k, g.m, g.lda);
    c = matrix(g.n, g.m, g.ldc);
    choose(library, alignment);
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_lt(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value),
             "describing a product");
  }
  void choose(cublasLtHandle_t library, unsigned alignment) {
    Preference preference;
    check_lt(cublasLtMatmulPreferenceCreate(preference.out()), "choosing an algorithm");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_lt(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
               "choosing an algorithm");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(attribute, static_cast<std::uint32_t>(alignment));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check_lt(cublasLtMatmulAlgoGetHeuristic(library, description.get(), a.get(), b.get(), c.get(), c.get(),
                                            preference.get(), 1, &found, &count),
             "choosing an algorithm");
    if (count == 0) throw Error("cuBLASLt has no algorithm for a product");
    algorithm = found.algo;
  }
};

// Algorithms with wide loads want operands that begin at multiples of 16 bytes; pieces of weights may not.
unsigned alignment_of(const void* a, const void* b, const void* c) {
  const auto all =
      reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | reinterpret_cast<std::uintptr_t>(c);
  return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : 4;
}

using Key =
    std::tuple<bool, bool, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, unsigned>;

}  // namespace

struct Matmul::Impl {
  Library library;
  ComputeType type;
  cudaStream_t stream;
  Scratch workspace;
  std::map<Key, Planned> planned;
};

Matmul::Matmul(ComputeType type, cudaStream_t stream) : impl_(std::make_unique<Impl>()) {
  check_lt(cublasLtCreate(impl_->library.out()), "starting cuBLASLt");
  impl_->type = type, impl_->stream = stream;
}
Matmul::~Matmul() = default;

void Matmul::run(const Gemm& g, const float* a, const float* b, float* c) {
  const unsigned alignment = alignment_of(a, b, c);
  const Key key{g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.lda, g.ldb, g.ldc, alignment};
  auto found = impl_->planned.find(key);
  if (found == impl_->planned.end())
    found = impl_->planned.emplace(key, Planned(impl_->library.get(), g, impl_->type, alignment)).first;
  const Planned& p = found->second;
  const float one = 1, before = g.accumulate ? 1.0f : 0.0f;
  check_lt(cublasLtMatmul(impl_->library.get(), p.description.get(), &one, b, p.a.get(), a, p.b.get(), &before, c,
                          p.c.get(), c, p.c.get(), &p.algorithm, impl_->workspace.bytes(workspace_bytes),
                          workspace_bytes, impl_->stream),
           "multiplying matrices");
}

std::string Matmul::library() {
  const std::size_t v = cublasLtGetVersion();  // 130001: 13.0.1
  return fmt::format("cuBLASLt {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

void CudaBackend::gemm(const Gemm& g, const float* a, const float* b, float* c) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k > 0) return matmul_->run(g, a, b, c);
  if (!g.accumulate)
    check(cudaMemset2DAsync(c, g.ldc * sizeof(float), 0, g.n * sizeof(float), g.m, stream()), "clearing a matrix");
}

}  // namespace tutti::cuda
