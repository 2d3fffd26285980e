// SPDX-License-Identifier: Apache-2.0
// Names and timing of the libraries that compute products.
#include "tutti/kernel_choices.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <limits>
#include <new>
#include <vector>

#include "backend/cpu/openblas.h"
#include "backend/cpu/products.h"
#include "base/clock.h"
#include "base/instruction_set.h"

namespace tutti {
namespace {

using Seconds = std::pair<ProductLibrary, double>;

constexpr double kSecondsPerKind = 0.02;
constexpr int kFewestRounds = 3, kMostRounds = 12;
constexpr double kGain = 0.95;  // of the time of by_shape: less of a gain is noise

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const std::size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown processor";
}

// A part of a large product that takes a millisecond or two, as rates hardly change beyond.
Gemm part_of(Gemm g) {
  constexpr std::size_t most_samples = 256, most_inputs = 4096;
  const auto threads = static_cast<std::size_t>(std::max(omp_get_max_threads(), 1));
  const double most_operations = 1e8 * static_cast<double>(threads);
  (g.transpose_a ? g.k : g.m) = std::min(g.transpose_a ? g.k : g.m, most_samples);
  if (!g.transpose_a) g.k = std::min(g.k, most_inputs), g.lda = std::min(g.lda, g.k);
  const auto columns = static_cast<std::size_t>(most_operations / (2.0 * static_cast<double>(g.m * g.k)));
  const std::size_t all = g.n;
  g.n = std::min(all, std::max(columns / 64 * 64, 512 * threads));
  if (g.ldc == all) g.ldc = g.n;  // a result without gaps: oneDNN is slower with them
  return g;
}

// Memory on huge pages, as that of weights. Not counted as the training's.
class Operand {
 public:
  ~Operand() { clear(); }
  float* reserve(std::size_t floats) {
    if (floats <= size_) return data_;
    clear();
    void* const pages =
        mmap(nullptr, floats * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    madvise(pages, floats * sizeof(float), MADV_HUGEPAGE);
    data_ = static_cast<float*>(pages), size_ = floats;
    std::fill_n(data_, floats, 0.01F);
    return data_;
  }

 private:
  void clear() {
    if (data_) munmap(data_, size_ * sizeof(float));
    data_ = nullptr, size_ = 0;
  }
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

// Seconds of the fastest round for each library, all in turn.
class Timing {
 public:
  explicit Timing(cpu::Products& products) : products_(products) {}

  ProductLibrary fastest(const RepeatedProduct& p) {
    const Gemm g = part_of(p.product);
    const ProductLibrary rule = products_.by_shape(p.product);
    std::vector<Seconds> libraries;
    for (const ProductLibrary l : all_product_libraries)
      if (l != rule && has_library(l)) libraries.emplace_back(l, std::numeric_limits<double>::max());
    // A part may go by another rule than the whole.
    const auto run = [&](ProductLibrary l) {
      return round(l == ProductLibrary::by_shape ? rule : l, g, std::min<std::size_t>(p.times, 4));
    };
    for (const auto& library : libraries) run(library.first);  // plans, packs, loads
    const auto start = Clock::now();
    for (int i = 0; i < kFewestRounds || (i < kMostRounds && seconds_since(start) < kSecondsPerKind); ++i)
      for (auto& [library, seconds] : libraries) seconds = std::min(seconds, run(library));
    const auto best = std::ranges::min_element(libraries, {}, &Seconds::second);
    return best->second < kGain * libraries.front().second ? best->first : ProductLibrary::by_shape;
  }

 private:
  static std::size_t floats(bool transposed, std::size_t rows, std::size_t columns, std::size_t stride) {
    return (transposed ? columns : rows) * stride;
  }

  // A weight comes from memory, as between two uses of it a step touches others: every round takes the next part of a
  // large one. The other operands are in the cache.
  double round(ProductLibrary library, Gemm g, std::size_t times) {
    constexpr std::size_t weight = std::size_t{1} << 23;  // floats, 32 MB
    if (!g.transpose_a && !g.transpose_b) g.ldb = std::min(std::max(g.n, weight / g.k / 16 * 16), g.ldb);
    const std::size_t part = floats(g.transpose_b, g.k, g.n, g.ldb);
    const std::size_t parts = g.transpose_a ? 1 : std::max<std::size_t>(g.transpose_b ? weight / part : g.ldb / g.n, 1);
    const float* const a = a_.reserve(floats(g.transpose_a, g.m, g.k, g.lda));
    const float* const b = b_.reserve(g.transpose_b ? parts * part : part);
    float* const c = c_.reserve(g.m * g.ldc);
    g.b_version = ++version_;
    const std::size_t from = version_ % parts * (g.transpose_b ? part : g.n);
    const auto start = Clock::now();
    for (std::size_t i = 0; i < times; ++i) products_.run(library, g, a, b + from, c);
    return seconds_since(start);
  }

  cpu::Products& products_;
  Operand a_, b_, c_;
  std::uint64_t version_ = 0;
};

}  // namespace

std::string_view name_of(ProductLibrary library) {
  switch (library) {
    case ProductLibrary::by_shape:
      return "by_shape";
    case ProductLibrary::onednn:
      return "oneDNN";
    case ProductLibrary::packed:
      return "packed";
    case ProductLibrary::openblas:
      return "OpenBLAS";
  }
  return "";
}

ProductKind ProductKind::of(const Gemm& g) {
  if (g.transpose_a) return {true, g.transpose_b, std::bit_ceil(g.k), g.n, 0};
  return {false, g.transpose_b, std::bit_ceil(g.m), g.n, g.k};
}

std::string ProductKind::text() const {
  return fmt::format("{}{}:{}:{}:{}", transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', samples, n, k);
}

std::optional<ProductKind> ProductKind::parse(std::string_view word) {
  const auto letter = [&](std::size_t i) { return word.size() > i && (word[i] == 'N' || word[i] == 'T'); };
  if (!letter(0) || !letter(1)) return std::nullopt;
  ProductKind kind{word[0] == 'T', word[1] == 'T'};
  word.remove_prefix(2);
  for (std::size_t* const size : {&kind.samples, &kind.n, &kind.k}) {
    if (!word.starts_with(':')) return std::nullopt;
    const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), *size);
    if (error != std::errc()) return std::nullopt;
    word.remove_prefix(static_cast<std::size_t>(end - word.data()));
  }
  return word.empty() ? std::optional(kind) : std::nullopt;
}

bool is_large(const Gemm& g) {
  constexpr double operations = 5e7;
  // The last chunk of a weight's gradient has few rows, and goes as the others.
  const std::size_t m = g.transpose_a ? std::max<std::size_t>(g.m, 256) : g.m;
  return 2.0 * static_cast<double>(m) * static_cast<double>(g.n) * static_cast<double>(g.k) >= operations;
}

bool has_library(ProductLibrary library) {
  switch (library) {
    case ProductLibrary::by_shape:
    case ProductLibrary::onednn:
      return true;
    case ProductLibrary::packed:
      return cpu::packed_kernels() && widest_set() >= InstructionSet::avx2;
    case ProductLibrary::openblas:
      return cpu::OpenBlas::load() != nullptr;
  }
  return false;
}

std::string product_libraries(int threads) {
  const dnnl_version_t* v = dnnl_version();
  const char* set = widest_set() == InstructionSet::avx512 ? "AVX-512"
                    : widest_set() == InstructionSet::avx2 ? "AVX2"
                                                           : "SSE";
  const cpu::OpenBlas* blas = cpu::OpenBlas::load();
  return fmt::format("{}, {}, oneDNN {}.{}.{}, {}, {} thread{}", processor(), set, v->major, v->minor, v->patch,
                     blas ? "OpenBLAS " + blas->version() : "no OpenBLAS", threads, threads == 1 ? "" : "s");
}

KernelChoices time_products(std::span<const RepeatedProduct> all) {
  cpu::Products products;
  Timing timing(products);
  KernelChoices choices;
  for (const RepeatedProduct& p : all)
    if (const ProductKind kind = ProductKind::of(p.product); is_large(p.product) && !choices.contains(kind))
      choices[kind] = timing.fastest(p);
  return choices;
}

}  // namespace tutti
