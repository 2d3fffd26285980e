// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN.
#include "backend/cpu/matmul.h"

#include "backend/cpu/bfloat16_matmul.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/onednn_versions.h"
#include "backend/cpu/products.h"

namespace tutti::cpu {
namespace {

dnnl::memory::desc matrix(std::size_t rows, std::size_t columns, std::size_t stride, bool transposed) {
  const dnnl_dim_t step = dimension(stride);
  return {{dimension(rows), dimension(columns)},
          dnnl::memory::data_type::f32,
          {transposed ? 1 : step, transposed ? step : 1}};
}

Prepared planned_product(const dnnl::engine& engine, const Gemm& g) {
  const auto a = matrix(g.m, g.k, g.lda, g.transpose_a), b = matrix(g.k, g.n, g.ldb, g.transpose_b),
             c = matrix(g.m, g.n, g.ldc, false);
  return Prepared(dnnl::matmul(plan<dnnl::matmul>(engine, dnnl::primitive_attr(), a, b, c)), engine,
                  {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

// Primitives read a transposed right operand faster than dnnl_sgemm, but need code for every number of rows. Shares of
// odd size are rare and use dnnl_sgemm.
bool planned_is_better(const Gemm& g) {
  return g.transpose_b && !g.transpose_a && !g.accumulate && g.m >= 16 && g.m % 16 == 0;
}

}  // namespace

void Matmul::run(const Gemm& g, const float* a, const float* b, float* c) {
  with_errors("multiplying matrices", [&] {
    if (planned_is_better(g)) {
      const Key key{g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.lda, g.ldb, g.ldc};
      auto found = planned_.find(key);
      if (found == planned_.end()) found = planned_.emplace(key, planned_product(dnnl_.engine, g)).first;
      found->second.set(DNNL_ARG_SRC, a).set(DNNL_ARG_WEIGHTS, b).set(DNNL_ARG_DST, c).run(dnnl_.stream);
      return;
    }
    dnnl::error::wrap_c_api(
        dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', dimension(g.m), dimension(g.n), dimension(g.k),
                   1.0f, a, dimension(g.lda), b, dimension(g.ldb), g.accumulate ? 1.0f : 0.0f, c, dimension(g.ldc)),
        "dnnl_sgemm");
  });
}

void CpuBackend::gemm(const Gemm& g, const float* a, const float* b, float* c) {
  if (g.m == 0 || g.n == 0) return;
  if (bfloat16_ && Bfloat16Matmul::pays(g)) return bfloat16_->run(g, a, b, c);
  products_->run(g, a, b, c);
}

}  // namespace tutti::cpu
