// SPDX-License-Identifier: Apache-2.0
// the emulator of cuBLASLt: products by plain loops, operands rounded as the compute type says; sums are float32, and
// are rounded once when they are written.
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "device.h"
#include "queue.h"
#include "rounding.h"

using namespace cuda_emulator;

namespace {

float operand(float v, cublasComputeType_t type) {
  switch (type) {
    case CUBLAS_COMPUTE_32F:
      return v;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return rounded(v, bits_of_tf32);
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return rounded(v, bits_of_bfloat16);
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return rounded_to_half(v);
  }
  return v;
}

std::size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }
Stored stored(cudaDataType_t type) {
  return type == CUDA_R_32F ? Stored::float32 : type == CUDA_R_16F ? Stored::half : Stored::bfloat16;
}
float load(const void* p, cudaDataType_t type, std::size_t i) { return number_at(p, i, stored(type)); }
void store(void* p, cudaDataType_t type, std::size_t i, float v) { set_number(p, i, stored(type), v); }

constexpr int kRelu = 2, kSums = 16, kMask = 128;  // of an epilogue
constexpr std::uint64_t kAlgorithm = 70;           // the first of three
constexpr std::size_t kWorkspace = 64;             // that a product spoils

struct Product {
  CublasLtDoubleProduct how;
  CublasLtDoubleMatrix a, b, d;
  const void *from_a, *from_b;
  void* to;
  float before;

  // Column by column of the result; `left` holds the left operand column by column too.
  void run() const {
    const bool ta = how.a == CUBLAS_OP_T, tb = how.b == CUBLAS_OP_T;
    const std::size_t m = d.rows, n = d.columns, k = ta ? a.rows : a.columns;
    std::vector<float> left(m * k);
    for (std::size_t p = 0; p < k; ++p)
      for (std::size_t i = 0; i < m; ++i)
        left[p * m + i] = operand(load(from_a, a.type, ta ? i * step(a) + p : p * step(a) + i), how.compute);
    std::vector<float> column(m), sums(how.epilogue & kSums ? m : 0);
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t first = j * step(d);
      for (std::size_t i = 0; i < m; ++i) column[i] = before == 0 ? 0.0f : before * load(to, d.type, first + i);
      for (std::size_t p = 0; p < k; ++p) {
        const float factor = operand(load(from_b, b.type, tb ? p * step(b) + j : j * step(b) + p), how.compute);
        for (std::size_t i = 0; i < m; ++i) column[i] += left[p * m + i] * factor;
      }
      finish(column, j);
      for (std::size_t i = 0; i < m; ++i) store(to, d.type, first + i, column[i]);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += column[i];
    }
    for (std::size_t i = 0; i < sums.size(); ++i) store(how.vector, d.type, i, sums[i]);
  }
  // What happens to column j of the result before it is written.
  void finish(std::vector<float>& column, std::size_t j) const {
    const bool bias = how.epilogue & CUBLASLT_EPILOGUE_BIAS, masks = how.epilogue & kMask;
    const bool gradient = (how.epilogue & CUBLASLT_EPILOGUE_DRELU) == CUBLASLT_EPILOGUE_DRELU;
    for (std::size_t i = 0; i < column.size(); ++i) {
      float& v = column[i];
      const std::size_t bit = j * static_cast<std::size_t>(how.mask_step) + i;
      if (bias) v += load(how.vector, d.type, i);
      if (how.epilogue & kRelu) v = v > 0 ? v : 0;
      if (masks && !gradient)
        how.mask[bit / 32] = (how.mask[bit / 32] & ~(1u << bit % 32)) | static_cast<std::uint32_t>(v > 0) << bit % 32;
      if (gradient && !(how.mask[bit / 32] >> bit % 32 & 1u)) v = 0;
    }
  }
  static std::size_t step(const CublasLtDoubleMatrix& x) { return static_cast<std::size_t>(x.step); }
};

template <class T, class... A>
cublasStatus_t make(T** p, A... a) {
  *p = new T{a...};
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t destroy(T* p) {
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}

// The gradient of ReLU without sums is something that the library may not have: here it has not.
bool knows_epilogue(const CublasLtDoubleProduct& how, const CublasLtDoubleMatrix& d) {
  const bool vector = (how.epilogue & (CUBLASLT_EPILOGUE_BIAS | kSums)) == 0 || how.vector;
  const bool mask =
      (how.epilogue & kMask) == 0 || (how.mask && reinterpret_cast<std::uintptr_t>(how.mask) % 16 == 0 &&
                                      how.mask_step % 128 == 0 && how.mask_step >= static_cast<std::int64_t>(d.rows));
  return vector && mask;
}

// Both operands are of one type, the result of that type or float32; only operands of float32 may be rounded.
bool knows_types(const CublasLtDoubleProduct& how, const CublasLtDoubleMatrix& a, const CublasLtDoubleMatrix& b,
                 const CublasLtDoubleMatrix& d) {
  return a.type == b.type && (d.type == a.type || d.type == CUDA_R_32F) &&
         (a.type == CUDA_R_32F || how.compute == CUBLAS_COMPUTE_32F);
}

bool fits(const CublasLtDoubleProduct& how, const CublasLtDoubleMatrix& a, const CublasLtDoubleMatrix& b,
          const CublasLtDoubleMatrix& d) {
  const bool ta = how.a == CUBLAS_OP_T, tb = how.b == CUBLAS_OP_T;
  const auto stored = [](const CublasLtDoubleMatrix& x) { return x.step >= static_cast<std::int64_t>(x.rows); };
  return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && stored(a) && stored(b) && stored(d) &&
         knows_epilogue(how, d) && knows_types(how, a, b, d);
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) { return make(h); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return destroy(h); }
const char* cublasLtGetStatusName(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS          ? "CUBLAS_STATUS_SUCCESS"
         : s == CUBLAS_STATUS_INVALID_VALUE  ? "CUBLAS_STATUS_INVALID_VALUE"
         : s == CUBLAS_STATUS_INTERNAL_ERROR ? "CUBLAS_STATUS_INTERNAL_ERROR"
                                             : "CUBLAS_STATUS_NOT_SUPPORTED";
}
std::size_t cublasLtGetVersion() { return 0; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t type, cudaDataType_t) {
  return make(d, type);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return destroy(d); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  const auto take = [&](auto& to) {
    if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(d->a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(d->b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(d->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(d->vector);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(d->mask);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(d->mask_step);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* m, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t step) {
  return make(m, type, rows, columns, step);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t m) { return destroy(m); }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) { return make(p); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return destroy(p); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return bytes == sizeof(std::uint64_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != sizeof p->alignment) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint32_t wanted;
  std::memcpy(&wanted, value, bytes);
  p->alignment = std::min(p->alignment, wanted);
  return CUBLAS_STATUS_SUCCESS;
}
// The first of three cannot be taken, the second is the slow one. Tensor cores want operands that begin at multiples of
// 16 bytes. A mask of one column cannot be written. Within a capture there is no answer.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (cuda_emulator::breaks_capture()) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (!fits(*how, *a, *b, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  if (how->epilogue == CUBLASLT_EPILOGUE_DRELU) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (how->epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS && d->columns == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (how->compute != CUBLAS_COMPUTE_32F && preference->alignment < 16) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < 3 && i < wanted; ++i, ++*found) {
    results[i] = {};
    results[i].algo.data[0] = kAlgorithm + static_cast<std::uint64_t>(i);
    results[i].state = i == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b,
                              const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const std::uint64_t which = algorithm->data[0];
  const auto begins = [](const void* p, const CublasLtDoubleMatrix& x) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes_of(x.type) == 0;
  };
  if (!begins(a, *layout_a) || !begins(b, *layout_b) || !begins(d, *layout_d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!fits(*how, *layout_a, *layout_b, *layout_d) || *static_cast<const float*>(alpha) != 1 || which <= kAlgorithm ||
      which > kAlgorithm + 2 || workspace_bytes < kWorkspace || !cuda_emulator::on_device(workspace, workspace_bytes) ||
      reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{*how, *layout_a, *layout_b, *layout_d, a, b, d, *static_cast<const float*>(beta)};
  const cudaError_t status = cuda_emulator::enqueue(stream, [product, workspace] {
    std::memset(workspace, 0xee, kWorkspace);
    product.run();
  });
  if (status != cudaSuccess) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (which == kAlgorithm + 1) cuda_emulator::enqueue(stream, [] {});
  return CUBLAS_STATUS_SUCCESS;
}
