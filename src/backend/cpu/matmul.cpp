// SPDX-License-Identifier: Apache-2.0
// The only file that includes oneDNN.
#include "backend/cpu/matmul.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <source_location>
#include <tuple>

#include "backend/cpu/bfloat16_matmul.h"
#include "backend/cpu/cpu_backend.h"
#include "base/handle.h"
#include "tutti/error.h"

namespace tutti::cpu {
namespace {

void check(dnnl_status_t status, const char* doing, std::source_location at = std::source_location::current()) {
  if (status != dnnl_success)
    throw Error(fmt::format("oneDNN failed while {} (status {}, {}:{})", doing, static_cast<int>(status),
                            at.file_name(), at.line()));
}

using Engine = Handle<dnnl_engine_t, dnnl_engine_destroy>;
using Stream = Handle<dnnl_stream_t, dnnl_stream_destroy>;
using Primitive = Handle<dnnl_primitive_t, dnnl_primitive_destroy>;
using Memory = Handle<dnnl_memory_t, dnnl_memory_destroy>;
using Description = Handle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;

dnnl_memory_desc_t matrix(std::size_t rows, std::size_t columns, std::size_t stride, bool transposed) {
  dnnl_memory_desc_t md;
  const dnnl_dims_t dims = {static_cast<dnnl_dim_t>(rows), static_cast<dnnl_dim_t>(columns)};
  const auto step = static_cast<dnnl_dim_t>(stride);
  const dnnl_dims_t strides = {transposed ? 1 : step, transposed ? step : 1};
  check(dnnl_memory_desc_init_by_strides(&md, 2, dims, dnnl_f32, strides), "describing a matrix");
  return md;
}

// A matmul primitive with its three memory objects; only the data pointers change from call to call.
struct Planned {
  Primitive primitive;
  std::array<Memory, 3> memory;

  Planned(dnnl_engine_t engine, const Gemm& g) {
    const std::array<dnnl_memory_desc_t, 3> md = {
        matrix(g.m, g.k, g.lda, g.transpose_a), matrix(g.k, g.n, g.ldb, g.transpose_b), matrix(g.m, g.n, g.ldc, false)};
    dnnl_matmul_desc_t op;
    check(dnnl_matmul_desc_init(&op, &md[0], &md[1], nullptr, &md[2]), "describing a product");
    Description description;
    check(dnnl_primitive_desc_create(description.out(), &op, nullptr, engine, nullptr), "planning a product");
    check(dnnl_primitive_create(primitive.out(), description.get()), "generating code for a product");
    for (std::size_t i = 0; i < 3; ++i)
      check(dnnl_memory_create(memory[i].out(), &md[i], engine, DNNL_MEMORY_NONE), "planning a product");
  }

  void run(dnnl_stream_t stream, const float* a, const float* b, float* c) {
    const std::array<void*, 3> data = {const_cast<float*>(a), const_cast<float*>(b), c};
    for (std::size_t i = 0; i < 3; ++i)
      check(dnnl_memory_set_data_handle(memory[i].get(), data[i]), "passing a matrix");
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, memory[0].get()}, {DNNL_ARG_WEIGHTS, memory[1].get()}, {DNNL_ARG_DST, memory[2].get()}};
    check(dnnl_primitive_execute(primitive.get(), stream, 3, args), "multiplying matrices");
    check(dnnl_stream_wait(stream), "multiplying matrices");
  }
};

using Key = std::tuple<bool, bool, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;

// Primitives read a transposed right operand faster than dnnl_sgemm does, but need code for every number of rows;
// shares of odd size are rare and go the other way.
bool planned_is_better(const Gemm& g) {
  return g.transpose_b && !g.transpose_a && !g.accumulate && g.m >= 16 && g.m % 16 == 0;
}

}  // namespace

struct Matmul::Impl {
  Engine engine;
  Stream stream;
  std::map<Key, Planned> planned;
};

Matmul::Matmul() : impl_(std::make_unique<Impl>()) {
  check(dnnl_engine_create(impl_->engine.out(), dnnl_cpu, 0), "starting its CPU engine");
  check(dnnl_stream_create(impl_->stream.out(), impl_->engine.get(), dnnl_stream_default_flags),
        "starting its CPU engine");
}
Matmul::~Matmul() = default;

void Matmul::run(const Gemm& g, const float* a, const float* b, float* c) {
  if (planned_is_better(g)) {
    const Key key{g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.lda, g.ldb, g.ldc};
    auto found = impl_->planned.find(key);
    if (found == impl_->planned.end()) found = impl_->planned.emplace(key, Planned(impl_->engine.get(), g)).first;
    return found->second.run(impl_->stream.get(), a, b, c);
  }
  const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  check(dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', size(g.m), size(g.n), size(g.k), 1.0f, a,
                   size(g.lda), b, size(g.ldb), g.accumulate ? 1.0f : 0.0f, c, size(g.ldc)),
        "multiplying matrices");
}

void CpuBackend::gemm(const Gemm& g, const float* a, const float* b, float* c) {
  if (g.m == 0 || g.n == 0) return;
  if (bfloat16_ && Bfloat16Matmul::pays(g)) return bfloat16_->run(g, a, b, c);
  matmul_->run(g, a, b, c);
}

std::string Matmul::library() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace tutti::cpu
