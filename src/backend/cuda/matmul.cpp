// SPDX-License-Identifier: Apache-2.0
// GEMM by cuBLASLt, with bias and ReLU if the library supports them. The algorithm is chosen once per shape, so that a
// shape gives the same bits every time. The only file that includes cuBLASLt.
#include <cublasLt.h>
#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/arrange.h"
#include "backend/cuda/cuda_backend.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

void check_lt(cublasStatus_t status, const char* doing,
              const std::source_location& at = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(cublasLtGetStatusName(status), doing, at);
}

// What a product does to its result before it is written, and the library's word for it.
enum class Epilogue { none, bias, bias_relu, bias_relu_mask, relu_gradient, relu_gradient_sums };
constexpr cublasLtEpilogue_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS,
                                            CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
                                            CUBLASLT_EPILOGUE_DRELU,     CUBLASLT_EPILOGUE_DRELU_BGRAD};

struct EpilogueOperands {
  Epilogue what = Epilogue::none;
  const void* vector = nullptr;  // bias, or where the sums of columns go; of the result's type to the library
  const float* mask = nullptr;   // a bit for each element, as the library lays them out
};

using Library = Handle<cublasLtHandle_t, cublasLtDestroy>;
using Description = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Matrix = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// The type that tensor cores may round float32 operands to; 16-bit operands are used as they are.
cublasComputeType_t compute(ComputeType type) {
  return type == ComputeType::tf32       ? CUBLAS_COMPUTE_32F_FAST_TF32
         : type == ComputeType::bfloat16 ? CUBLAS_COMPUTE_32F_FAST_16BF
         : type == ComputeType::float16  ? CUBLAS_COMPUTE_32F_FAST_16F
                                         : CUBLAS_COMPUTE_32F;
}

cudaDataType_t stored(Element e) {
  return e == Element::float32 ? CUDA_R_32F : e == Element::bfloat16 ? CUDA_R_16BF : CUDA_R_16F;
}

// A matrix in memory, row-major.
struct Stored {
  std::size_t rows, width;
};
Stored stored_a(const Gemm& g) { return g.transpose_a ? Stored{g.k, g.m} : Stored{g.m, g.k}; }
Stored stored_b(const Gemm& g) { return g.transpose_b ? Stored{g.n, g.k} : Stored{g.k, g.n}; }

// The product as the library sees it. If anything has 16 bits, float32 operands are rounded to them, into rows aligned
// to 16 bytes.
Gemm as_read(Gemm g) {
  const Element half = g.a_element != Element::float32   ? g.a_element
                       : g.b_element != Element::float32 ? g.b_element
                                                         : g.c_element;
  const auto round = [&](Element& element, std::size_t& step, const Stored& s) {
    if (element == half) return;
    element = half, step = (s.width + 7) / 8 * 8;
  };
  round(g.a_element, g.lda, stored_a(g)), round(g.b_element, g.ldb, stored_b(g));
  return g;
}

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

// The library is column-major: a row-major matrix is its transpose.
Matrix matrix(Element element, std::size_t rows, std::size_t columns, std::size_t step) {
  Matrix m;
  check_lt(cublasLtMatrixLayoutCreate(m.out(), stored(element), rows, columns, static_cast<std::int64_t>(step)),
           "describing a matrix");
  return m;
}

// One shape. C' = B' A': the stored operands are exchanged and keep their transposition.
struct Planned {
  Description description;
  Matrix a, b, c;
  std::vector<cublasLtMatmulAlgo_t> algorithms;  // as the library ranks them; none: it cannot
  std::size_t chosen = 0;

  Planned(cublasLtHandle_t library, const Gemm& g, const EpilogueOperands& e, ComputeType type, unsigned alignment) {
    const cublasComputeType_t how = g.a_element == Element::float32 ? compute(type) : CUBLAS_COMPUTE_32F;
    check_lt(cublasLtMatmulDescCreate(description.out(), how, CUDA_R_32F), doing);
    const cublasOperation_t first = g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first), set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (e.what != Epilogue::none) set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogues[static_cast<std::size_t>(e.what)]);
    if (e.mask) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(Backend::mask_floats(g.n) * 32));
    point_to(e);
    const Stored of_a = stored_a(g), of_b = stored_b(g);
    a = matrix(g.b_element, of_b.width, of_b.rows, g.ldb);
    b = matrix(g.a_element, of_a.width, of_a.rows, g.lda);
    c = matrix(g.c_element, g.n, g.m, g.ldc);
    rank(library, alignment);
  }

  // Layers of one shape share the plan, so its pointers are set before each product.
  void point_to(const EpilogueOperands& e) const {
    if (e.vector) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, e.vector);
    if (e.mask) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, e.mask);
  }

 private:
  static constexpr const char* doing = "describing a product";
  static constexpr int most_algorithms = 8;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check_lt(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value), doing);
  }
  void rank(cublasLtHandle_t library, unsigned alignment) {
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
    cublasLtMatmulHeuristicResult_t found[most_algorithms] = {};
    int count = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(library, description.get(), a.get(), b.get(), c.get(), c.get(),
                                                       preference.get(), most_algorithms, found, &count);
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; ++i)
      if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[i].algo);
  }
};

// Algorithms with wide loads need operands aligned to 16 bytes; chunks of weights may not be.
unsigned alignment_of(std::initializer_list<const void*> operands) {
  std::uintptr_t all = 0;
  for (const void* p : operands) all |= reinterpret_cast<std::uintptr_t>(p);
  return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 2;
}

using Key = std::tuple<Epilogue, bool, bool, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t,
                       std::size_t, Element, Element, unsigned>;

// The key contains everything except the size of the minibatch, which is the number of rows of a value, summed over in
// the gradient of a weight.
std::size_t size_of(const Gemm& g) { return g.transpose_a ? g.k : g.m; }
std::string shape_of(const Gemm& g, Epilogue what, ComputeType type, unsigned alignment) {
  const auto bits = [](Element e) { return 8 * bytes_of(e); };
  return fmt::format(
      "product:{}:{}:{}{}:{}x{}:{},{},{}:{}{}", static_cast<int>(type), static_cast<int>(what),
      g.transpose_a ? 't' : 'n', g.transpose_b ? 't' : 'n', g.transpose_a ? g.m : g.k, g.n, g.lda, g.ldb, g.ldc,
      alignment,
      g.a_element == Element::float32 ? "" : fmt::format(":{}to{}bits", bits(g.a_element), bits(g.c_element)));
}

}  // namespace

class Matmul {
 public:
  Matmul(ComputeType t, const std::string& device, cudaStream_t s)
      : type_(t), stream_(s), algorithms_(matmul_library() + " " + device) {
    check_lt(cublasLtCreate(library_.out()), "starting cuBLASLt");
  }
  // Returns false, without changing the result, if the library has no such product for this shape.
  bool run(const Gemm&, const EpilogueOperands&, const float* a, const float* b, float* c);

 private:
  // The 16-bit copy of a float32 operand, if the library needs one.
  const void* rounded(const Stored& s, const float* x, std::size_t step, Element element, std::size_t to_step,
                      Scratch& buffer) const {
    void* const to = buffer.bytes(s.rows * to_step * bytes_of(element));
    round_rows(s.rows, s.width, x, step, element, to, to_step, stream_);
    return to;
  }
  const void* left(const Gemm& g, const Gemm& read, const float* a) {
    return g.a_element == read.a_element ? a : rounded(stored_a(g), a, g.lda, read.a_element, read.lda, rounded_a_);
  }
  const void* right(const Gemm& g, const Gemm& read, const float* b) {
    if (g.b_element == read.b_element) return b;
    Scratch& made = made_of_[{b, stored_b(g).width}];
    if (g.same_b) return made.bytes(0);
    return rounded(stored_b(g), b, g.ldb, read.b_element, read.ldb, made);
  }
  // A bias has the type of the result.
  EpilogueOperands vector(EpilogueOperands e, const Gemm& read) {
    if (e.vector && read.c_element != Element::float32)
      e.vector =
          rounded({1, read.n}, static_cast<const float*>(e.vector), read.n, read.c_element, read.n, rounded_vector_);
    return e;
  }

  // A product without an epilogue must always be possible: without tensor cores if they cannot read its operands.
  Planned plan(const Gemm& g, const EpilogueOperands& e, unsigned alignment) {
    Planned p(library_.get(), g, e, type_, alignment);
    if (e.what != Epilogue::none || !p.algorithms.empty()) return p;
    Planned plain(library_.get(), g, e, ComputeType::float32, alignment);
    if (plain.algorithms.empty()) throw Error("cuBLASLt has no algorithm for a product");
    return plain;
  }

  bool multiply(const Planned& p, std::size_t algorithm, bool accumulate, const void* a, const void* b, float* c) {
    const float one = 1, before = accumulate ? 1.0f : 0.0f;
    return cublasLtMatmul(library_.get(), p.description.get(), &one, b, p.a.get(), a, p.b.get(), &before, c, p.c.get(),
                          c, p.c.get(), &p.algorithms[algorithm], workspace_.bytes(workspace_bytes), workspace_bytes,
                          stream_) == CUBLAS_STATUS_SUCCESS;
  }

  // Large products measure the algorithms that the library ranks highest, on the actual result memory unless the result
  // is accumulated.
  void choose(Planned& p, const Gemm& g, const EpilogueOperands& e, unsigned alignment, const void* a, const void* b,
              float* c) {
    constexpr double worth_measuring = 1e8;
    const double work = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
    if (p.algorithms.size() < 2 || work < worth_measuring || !algorithms_.lasts()) return;
    const auto choice = algorithms_.at(algorithms_.name_of(shape_of(g, e.what, type_, alignment), size_of(g)), [&] {
      Scratch copy;
      Stopwatch watch(stream_);
      float* const result = g.accumulate ? copy.reserve<float>(g.m * g.ldc) : c;
      Algorithms::Choice best;
      std::optional<float> least;
      for (std::size_t i = 0; i < p.algorithms.size(); ++i) {
        const auto taken = watch.time([&] { return multiply(p, i, false, a, b, result); });
        // The library's order decides between algorithms that are about equally fast.
        if (taken && (!least || *taken < 0.97f * *least)) least = taken, best.algorithm = static_cast<int>(i);
      }
      return best;
    });
    if (const auto index = static_cast<std::size_t>(choice.algorithm); index < p.algorithms.size()) p.chosen = index;
  }

  Library library_;
  ComputeType type_;
  cudaStream_t stream_;
  Algorithms algorithms_;
  Scratch workspace_, rounded_a_, rounded_vector_;
  // By right operand, which products may see as matrices of several widths: its values in 16 bits.
  std::map<std::pair<const float*, std::size_t>, Scratch> made_of_;
  std::map<Key, Planned> planned_;
};

bool Matmul::run(const Gemm& given, const EpilogueOperands& epilogue, const float* given_a, const float* given_b,
                 float* c) {
  const Gemm g = as_read(given);
  // Memory allocated here is aligned to 16 bytes.
  const unsigned alignment = alignment_of({g.a_element == given.a_element ? given_a : nullptr,
                                           g.b_element == given.b_element ? given_b : nullptr, c,
                                           g.c_element != Element::float32 ? nullptr : epilogue.vector, epilogue.mask});
  if (epilogue.mask && alignment < 16) return false;
  const Key key{epilogue.what, g.transpose_a, g.transpose_b, g.m,         g.n,         g.k,
                g.lda,         g.ldb,         g.ldc,         g.a_element, g.c_element, alignment};
  auto found = planned_.find(key);
  if (found != planned_.end() && found->second.algorithms.empty()) return false;
  const void *a = left(given, g, given_a), *b = right(given, g, given_b);
  const EpilogueOperands e = vector(epilogue, g);
  if (found == planned_.end()) {
    not_while_capturing(stream_);
    found = planned_.emplace(key, plan(g, e, alignment)).first;
    choose(found->second, g, e, alignment, a, b, c);
  }
  Planned& p = found->second;
  if (p.algorithms.empty()) return false;
  p.point_to(e);
  if (multiply(p, p.chosen, g.accumulate, a, b, c)) return true;
  if (e.what == Epilogue::none) throw Error("cuBLASLt could not start a product");
  not_while_capturing(stream_);  // what may not be captured is none the worse for that
  p.algorithms.clear();          // it only seemed to have one
  return false;
}

std::string matmul_library() {
  const std::size_t v = cublasLtGetVersion();  // 130001: 13.0.1
  return fmt::format("cuBLASLt {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

CudaTensors::CudaTensors(int device, ComputeType type)
    : CudaDevice(device, type), matmul_(std::make_unique<Matmul>(type, device_name_, stream())) {}
CudaTensors::~CudaTensors() = default;

void CudaTensors::gemm(const Gemm& g, const float* a, const float* b, float* c) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k > 0) {
    matmul_->run(g, {}, a, b, c);
    return;
  }
  if (!g.accumulate)
    check(cudaMemset2DAsync(c, g.ldc * bytes_of(g.c_element), 0, g.n * bytes_of(g.c_element), g.m, stream()),
          "clearing a matrix");
}

void CudaTensors::gemm_bias(const Gemm& g, UnaryOp op, const float* a, const float* b, const float* bias, float* c,
                            float* mask) {
  const bool plain = g.m == 0 || g.n == 0 || g.k == 0 || g.accumulate;
  const bool relu = op == UnaryOp::relu;
  if (!plain && relu && mask) {
    const bool masked = matmul_->run(g, {Epilogue::bias_relu_mask, bias, mask}, a, b, c);
    if (!masked) {
      masks_.erase({mask, g.m});
    } else {
      masks_.insert({mask, g.m});
      return;
    }
  }
  if (!plain && (relu || op == UnaryOp::copy) &&
      matmul_->run(g, {relu ? Epilogue::bias_relu : Epilogue::bias, bias, nullptr}, a, b, c))
    return;
  Backend::gemm_bias(g, op, a, b, bias, c, mask);
}

void CudaTensors::gemm_relu_gradient(const Gemm& g, const float* a, const float* b, const float* y, const float* mask,
                                     float* c, float* sums) {
  if (g.m > 0 && g.n > 0 && g.k > 0 && !g.accumulate && masks_.contains({mask, g.m})) {
    // Sums would be of the result's type.
    if (sums && g.c_element == Element::float32 && matmul_->run(g, {Epilogue::relu_gradient_sums, sums, mask}, a, b, c))
      return;
    if (matmul_->run(g, {Epilogue::relu_gradient, nullptr, mask}, a, b, c)) {
      if (sums) bias_activation_gradient(UnaryOp::copy, g.m, g.n, y, c, sums, false, g.c_element);
      return;
    }
  }
  Backend::gemm_relu_gradient(g, a, b, y, mask, c, sums);
}

}  // namespace tutti::cuda
