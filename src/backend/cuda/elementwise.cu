// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: maps, broadcast combinations, fused bias and activation, dropout; and their gradients.
#include <algorithm>
#include <cassert>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/fold.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/math.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

// Kernels of V lanes work on V neighbouring values at a time; `count` is a multiple of it. Loops over lanes that the
// compiler would not unroll by itself would keep them in memory.
template <class T, unsigned V>
__global__ void map_each(UnaryOp op, const T* x, T* y, std::size_t count) {
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    Lanes<V> v = load<V>(x + i);
#pragma unroll
    for (unsigned l = 0; l < V; ++l) v.at[l] = mapped(op, v.at[l]);
    store(y + i, v);
  }
}

template <class T, unsigned V>
__global__ void map_gradient_each(UnaryOp op, const T* x, const T* y, const T* dy, T* dx, std::size_t count, bool add) {
  const DerivedFrom from = derived_from(op);
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    Lanes<V> operand{}, result{}, d = load<V>(dy + i);
    if (from == DerivedFrom::operand) operand = load<V>(x + i);
    if (from == DerivedFrom::result) result = load<V>(y + i);
    for (unsigned l = 0; l < V; ++l) d.at[l] = derivative(op, operand.at[l], result.at[l], d.at[l]);
    put(dx + i, d, add);
  }
}

struct Operands {
  const float* x[3] = {};
  bool single[3] = {};  // one number for all elements
  unsigned count = 0;
};

Operands operands_of(std::span<const float* const> in) {
  Operands o;
  for (const float* x : in) o.x[o.count++] = x;
  return o;
}

__device__ float truth(bool v) { return v ? 1.0f : 0.0f; }

__device__ float combined(PointOp op, float a, float b, float c) {
  switch (op) {
    case PointOp::plus:
      return a + b;
    case PointOp::minus:
      return a - b;
    case PointOp::times:
      return a * b;
    case PointOp::log_plus:
      return log_plus(a, b);
    case PointOp::less:
      return truth(a < b);
    case PointOp::equal:
      return truth(a == b);
    case PointOp::greater:
      return truth(a > b);
    case PointOp::greater_equal:
      return truth(a >= b);
    case PointOp::not_equal:
      return truth(a != b);
    case PointOp::less_equal:
      return truth(a <= b);
    case PointOp::choose:
      return a != 0.0f ? b : c;
    case PointOp::clip:
      return c < a ? a : c > b ? b : c;
    case PointOp::normalize:
      return (a - b) * c;
    case PointOp::denormalize:
      return a / c + b;
  }
  return 0.0f;
}

// Whether the derivative looks at the operands.
__device__ bool reads_operands(PointOp op) {
  return op == PointOp::times || op == PointOp::log_plus || op == PointOp::choose || op == PointOp::clip ||
         op == PointOp::normalize || op == PointOp::denormalize;
}

__device__ float combined_derivative(PointOp op, unsigned k, float a, float b, float c, float d) {
  switch (op) {
    case PointOp::plus:
      return d;
    case PointOp::minus:
      return k == 0 ? d : -d;
    case PointOp::times:
      return d * (k == 0 ? b : a);
    case PointOp::log_plus:
      return d * sigmoid(k == 0 ? a - b : b - a);
    case PointOp::less:
    case PointOp::equal:
    case PointOp::greater:
    case PointOp::greater_equal:
    case PointOp::not_equal:
    case PointOp::less_equal:
      return 0.0f;
    case PointOp::choose: {
      const float first = a != 0.0f ? d : 0.0f;
      return k == 0 ? 0.0f : k == 1 ? first : d - first;
    }
    case PointOp::clip:
      return k == 2 && !(c < a) && !(c > b) ? d : 0.0f;
    case PointOp::normalize:
      return k == 0 ? d * c : k == 1 ? -(d * c) : d * (a - b);
    case PointOp::denormalize:
      return k == 0 ? d / c : k == 1 ? d : -(d * a / (c * c));
  }
  return 0.0f;
}

__global__ void combine_each(PointOp op, Walk walk, Operands in, float* y) {
  for (std::size_t i = first_element(); i < walk.count; i += element_step()) {
    Places p;
    advance(walk, i, p);
    const float a = in.x[0][p.at[0]], b = in.x[1][p.at[1]], c = in.count > 2 ? in.x[2][p.at[2]] : 0.0f;
    y[p.at[3]] = combined(op, a, b, c);
  }
}

// Operands that lie as the result does, or are a single number.
template <class T, unsigned V>
struct FlatOperands {
  Lanes<V> a, b, c{};
  __device__ FlatOperands(const Operands& in, std::size_t i) : a(lanes(in, 0, i)), b(lanes(in, 1, i)) {
    if (in.count > 2) c = lanes(in, 2, i);
  }
  __device__ static Lanes<V> lanes(const Operands& in, unsigned k, std::size_t i) {
    if (!in.single[k]) return load<V>(as<T>(in.x[k]) + i);
    const float number = value_of(as<T>(in.x[k])[0]);
    Lanes<V> v;
    for (unsigned l = 0; l < V; ++l) v.at[l] = number;
    return v;
  }
};
template <class T, unsigned V>
__global__ void combine_flat(PointOp op, std::size_t count, Operands in, T* y) {
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    const FlatOperands<T, V> o(in, i);
    Lanes<V> result;
    for (unsigned l = 0; l < V; ++l) result.at[l] = combined(op, o.a.at[l], o.b.at[l], o.c.at[l]);
    store(y + i, result);
  }
}

// What an element adds to the gradient of its operand k.
struct Contribution {
  PointOp op;
  unsigned k;
  Operands in;
  const float* dy;
  __device__ float operator()(const Places& p) const {
    float a = 0, b = 0, c = 0;
    if (reads_operands(op)) {
      a = in.x[0][p.at[0]], b = in.x[1][p.at[1]];
      if (in.count > 2) c = in.x[2][p.at[2]];
    }
    return combined_derivative(op, k, a, b, c, dy[p.at[3]]);
  }
};

__global__ void combine_gradient_each(Contribution contribution, Walk walk, float* dx, bool add) {
  for (std::size_t i = first_element(); i < walk.count; i += element_step()) {
    Places p;
    advance(walk, i, p);
    float* target = dx + p.of(contribution.k);
    const float g = contribution(p);
    *target = add ? *target + g : g;
  }
}

template <class T, unsigned V>
__global__ void combine_gradient_flat(PointOp op, unsigned k, std::size_t count, Operands in, const T* dy, T* dx,
                                      bool add) {
  const bool reads = reads_operands(op);
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    Lanes<V> d = load<V>(dy + i);
    if (reads) {
      const FlatOperands<T, V> o(in, i);
      for (unsigned l = 0; l < V; ++l) d.at[l] = combined_derivative(op, k, o.a.at[l], o.b.at[l], o.c.at[l], d.at[l]);
    } else {
      for (unsigned l = 0; l < V; ++l) d.at[l] = combined_derivative(op, k, 0.0f, 0.0f, 0.0f, d.at[l]);
    }
    put(dx + i, d, add);
  }
}

template <class T, unsigned V>
__global__ void bias_activation_each(UnaryOp op, std::size_t count, unsigned n, const float* bias, T* y) {
  const bool narrow = count <= 0xffffffffu;  // divisions of 64 bits are slow
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    const unsigned column = narrow ? static_cast<unsigned>(i) % n : static_cast<unsigned>(i % n);
    Lanes<V> v = load<V>(y + i);
#pragma unroll
    for (unsigned l = 0; l < V; ++l) v.at[l] = mapped(op, v.at[l] + bias[column + l]);
    store(y + i, v);
  }
}

// A block takes 32 columns and the rows of a chunk; its sums go to row `blockIdx.y` of `sums`.
constexpr unsigned columns_of_block = 32, rows_of_block = 16;
template <class T>
__global__ void bias_gradient_tile(UnaryOp op, std::size_t rows, std::size_t n, std::size_t chunk, const T* y, T* dy,
                                   float* sums, bool add) {
  __shared__ float partial[rows_of_block][columns_of_block];
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * columns_of_block + threadIdx.x;
  const std::size_t behind = (blockIdx.y + 1) * chunk, end = behind < rows ? behind : rows;
  float sum = 0;
  if (column < n)
    for (std::size_t r = blockIdx.y * chunk + threadIdx.y; r < end; r += rows_of_block) {
      T& d = dy[r * n + column];
      const float g =
          op == UnaryOp::copy ? value_of(d) : derivative(op, 0.0f, value_of(y[r * n + column]), value_of(d));
      if (op != UnaryOp::copy) round_to(d, g);
      sum += g;
    }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (unsigned r = 1; r < rows_of_block; ++r) sum += partial[r][threadIdx.x];
  float& target = sums[blockIdx.y * n + column];
  target = add ? target + sum : sum;
}

__global__ void sum_rows(std::size_t rows, std::size_t n, const float* x, float* y, bool add) {
  for (std::size_t i = first_element(); i < n; i += element_step()) {
    float sum = 0;
    for (std::size_t r = 0; r < rows; ++r) sum += x[r * n + i];
    y[i] = add ? y[i] + sum : sum;
  }
}

// Whether the operands lie side by side as the result does, but for single numbers.
bool lies_flat(const Walk& walk, const Operands& in) {
  bool flat = walk.rank == 1 && walk.stride[3][0] == 1;
  for (std::size_t k = 0; k < in.count; ++k) flat = flat && (in.single[k] || walk.stride[k][0] == 1);
  return flat;
}

// ---- dropout, in both directions

__device__ std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The pixels of samples whose channels lie last; of a single pixel, all elements of a sample count as channels.
struct Planes {
  Axis channels, pixels;
};

template <class T, unsigned V>
__global__ void dropout_each(DropoutMask mask, Planes planes, const T* x, T* y, std::size_t count, bool add) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ull;
  const std::uint64_t key = mixed(*mask.seed + golden);
  const float keep = 1.0f / (1.0f - mask.rate);
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    auto column = static_cast<unsigned>(i);
    const unsigned channel = planes.channels.split(column), pixel = planes.pixels.split(column);
    const std::size_t whole = mask.whole ? mask.whole : mask.elements;
    const std::uint64_t first = static_cast<std::uint64_t>(mask.samples[column]) * whole + mask.first +
                                std::uint64_t{channel} * planes.pixels.size + pixel;
    Lanes<V> v = load<V>(x + i);
    for (unsigned l = 0; l < V; ++l) {
      const std::uint64_t r = mixed(key + (first + l * std::uint64_t{planes.pixels.size}) * golden);
      const float u = static_cast<float>(static_cast<std::int32_t>(r >> 40)) * 5.9604644775390625e-8f;  // 2^-24
      v.at[l] = u <= mask.rate ? 0.0f : v.at[l] * keep;
    }
    put(y + i, v, add);
  }
}

}  // namespace

void CudaTensors::map(UnaryOp op, const float* x, float* y, std::size_t count, Element element) {
  if (count == 0) return;
  flat(element, count, {x, y}, [&](auto number, auto lanes) {
    using T = decltype(number);
    launch_for(map_each<T, lanes>, count / lanes, stream(), op, as<T>(x), as<T>(y), count);
  });
}

void CudaTensors::map_gradient(UnaryOp op, const float* x, const float* y, const float* dy, float* dx,
                               std::size_t count, bool accumulate, Element element) {
  if (count == 0) return;
  flat(element, count, {x, y, dy, dx}, [&](auto number, auto lanes) {
    using T = decltype(number);
    launch_for(map_gradient_each<T, lanes>, count / lanes, stream(), op, as<T>(x), as<T>(y), as<T>(dy), as<T>(dx),
               count, accumulate);
  });
}

void CudaTensors::combine(PointOp op, const Layout& layout, std::span<const float* const> in, float* y) {
  const Walk walk = whole(cpu::joined(layout, in.size()));
  if (walk.count == 0) return;
  Operands operands = operands_of(in);
  for (std::size_t k = 0; k < in.size(); ++k) operands.single[k] = walk.rank == 1 && walk.stride[k][0] == 0;
  const auto read = [&](std::size_t k) { return operands.single[k] ? nullptr : operands.x[k]; };
  if (lies_flat(walk, operands))
    return flat(layout.element, walk.count, {read(0), read(1), read(2), y}, [&](auto number, auto lanes) {
      using T = decltype(number);
      launch_for(combine_flat<T, lanes>, walk.count / lanes, stream(), op, walk.count, operands, as<T>(y));
    });
  assert(layout.element == Element::float32);
  launch_for(combine_each, walk.count, stream(), op, walk, operands, y);
}

void CudaTensors::combine_gradient(PointOp op, std::size_t k, const Layout& layout, std::span<const float* const> in,
                                   const float* dy, float* dx, bool accumulate) {
  const Layout l = cpu::joined(layout, in.size());
  if (cpu::elements(l) == 0) return;
  const Contribution contribution{op, static_cast<unsigned>(k), operands_of(in), dy};
  const Walk walk = whole(l);
  if (lies_flat(walk, contribution.in))
    return flat(layout.element, walk.count, {contribution.in.x[0], contribution.in.x[1], contribution.in.x[2], dy, dx},
                [&](auto number, auto lanes) {
                  using T = decltype(number);
                  launch_for(combine_gradient_flat<T, lanes>, walk.count / lanes, stream(), op, contribution.k,
                             walk.count, contribution.in, as<T>(dy), as<T>(dx), accumulate);
                });
  assert(layout.element == Element::float32);
  if (cpu::repeats(l, k)) return fold(l, k, contribution, dx, accumulate, stream());
  launch_for(combine_gradient_each, walk.count, stream(), contribution, walk, dx, accumulate);
}

void CudaTensors::bias_activation(UnaryOp op, std::size_t rows, std::size_t n, const float* bias, float* y,
                                  Element element) {
  const std::size_t count = rows * n;
  if (count == 0) return;
  flat(element, n, {y}, [&](auto number, auto lanes) {
    using T = decltype(number);
    launch_for(bias_activation_each<T, lanes>, count / lanes, stream(), op, count, n, bias, as<T>(y));
  });
}

void CudaTensors::bias_activation_gradient(UnaryOp op, std::size_t rows, std::size_t n, const float* y, float* dy,
                                           float* dbias, bool accumulate, Element element) {
  if (n == 0) return;
  if (!dbias) {
    if (op != UnaryOp::copy) map_gradient(op, y, y, dy, dy, rows * n, false, element);
    return;
  }
  if (rows == 0) {
    if (!accumulate) fill(0, dbias, n);
    return;
  }
  constexpr std::size_t rows_of_chunk = 128, most_chunks = 256;
  const std::size_t chunks = std::min((rows + rows_of_chunk - 1) / rows_of_chunk, most_chunks);
  const std::size_t chunk = (rows + chunks - 1) / chunks;
  float* sums = chunks == 1 ? dbias : scratch_.reserve<float>(chunks * n);
  with_type(element, [&](auto number) {
    using T = decltype(number);
    launch(bias_gradient_tile<T>,
           dim3(static_cast<unsigned>((n + columns_of_block - 1) / columns_of_block), static_cast<unsigned>(chunks)),
           dim3(columns_of_block, rows_of_block), stream(), op, rows, n, chunk, as<T>(y), as<T>(dy), sums,
           chunks == 1 && accumulate);
  });
  if (chunks > 1) launch(sum_rows, blocks_for(n, 64), 64, stream(), chunks, n, sums, dbias, accumulate);
}

void CudaTensors::dropout(const DropoutMask& mask, const float* x, float* y, std::size_t count, bool accumulate,
                          Element element) {
  if (count == 0) return;
  in_32_bits(count);
  const bool lies_last = mask.block > 0 && mask.pixels > 1;
  const Planes planes{Axis(lies_last ? mask.channels : mask.elements), Axis(lies_last ? mask.pixels : 1)};
  // The values that a thread takes at a time are of one sample, and of one pixel where channels lie last.
  flat(element, planes.channels.size, {x, y}, [&](auto number, auto lanes) {
    using T = decltype(number);
    launch_for(dropout_each<T, lanes>, count / lanes, stream(), mask, planes, as<T>(x), as<T>(y), count, accumulate);
  });
}

}  // namespace tutti::cuda
