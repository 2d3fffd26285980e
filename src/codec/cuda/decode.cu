// SPDX-License-Identifier: Apache-2.0
// From the wire back to values, or added to values; and the codecs that work value by value. Everything is read and
// written once, neighbouring lanes in neighbouring places.
#include "codec/cuda/quantizer.h"
#include "codec/half_bits.h"

namespace tutti::codec::cuda {
namespace {

constexpr unsigned decode_threads = 256, decode_warps = decode_threads / 32;

__device__ inline std::size_t this_warp() {
  return static_cast<std::size_t>(blockIdx.x) * decode_warps + threadIdx.x / 32;
}

template <bool Add>
__device__ void put(float* to, float v) {
  *to = Add ? *to + v : v;
}

__device__ inline Pair pair_at(const unsigned* column) {
  return {__uint_as_float(column[0]), __uint_as_float(column[1])};
}

// Columns of up to 32 rows, 32 at a time: a lane knows its column's numbers, the others ask it.
template <bool OneBit, bool Add>
__global__ void __launch_bounds__(decode_threads) decode_short(DecodeColumns job, Words words) {
  const std::size_t first = this_warp() * 32;
  if (first >= job.columns) return;
  const unsigned lane = threadIdx.x % 32, rows = words.rows, step = 2 + words.count;
  const auto columns = static_cast<unsigned>(job.columns - first < 32 ? job.columns - first : 32);
  const auto* in = reinterpret_cast<const unsigned*>(job.in) + first * step;
  const unsigned* own = in + (lane < columns ? lane : 0) * step;
  const Reader<OneBit> reader(pair_at(own), words.bits);
  const unsigned own_word = own[2];
  float* values = job.values + first * rows;
  unsigned column = lane / rows, row = lane % rows;
  const unsigned columns_on = 32 / rows, rows_on = 32 % rows;
#pragma unroll 4
  for (unsigned base = 0; base < columns * rows; base += 32) {
    const unsigned source = column < 32 ? column : 31;
    float v;
    if constexpr (OneBit) {
      const float low = __shfl_sync(whole_warp, reader.low, source),
                  high = __shfl_sync(whole_warp, reader.high, source);
      v = (__shfl_sync(whole_warp, own_word, source) >> row & 1u) ? high : low;  // up to 32 rows are one word
    } else {
      Reader<OneBit> theirs = reader;
      theirs.grid.lower = __shfl_sync(whole_warp, reader.grid.lower, source);
      theirs.grid.step = __shfl_sync(whole_warp, reader.grid.step, source);
      const unsigned place = words.part_of_word(row);
      const unsigned word = column < columns ? in[column * step + 2 + row - place * words.count] : 0;
      v = theirs(word >> (place * words.bits));
    }
    if (base + lane < columns * rows) put<Add>(values + base + lane, v);
    column += columns_on, row += rows_on;
    if (row >= rows) row -= rows, ++column;
  }
}

// Longer columns: a warp takes up to 32 words of one column.
template <bool OneBit, bool Add>
__global__ void __launch_bounds__(decode_threads) decode_long(DecodeColumns job, Words words) {
  const unsigned chunks = (words.count + words.side - 1) / words.side;
  const std::size_t c = this_warp() / chunks;
  if (c >= job.columns) return;
  const unsigned lane = threadIdx.x % 32, part = lane / words.side;
  const unsigned k = static_cast<unsigned>(this_warp() % chunks) * words.side + lane % words.side;
  const auto* in = reinterpret_cast<const unsigned*>(job.in) + c * (2 + words.count);
  if (k >= words.count) return;
  const Reader<OneBit> reader(pair_at(in), words.bits);
  const unsigned word = in[2 + k];
  float* values = job.values + c * job.rows;
  // What is added to is read eight at a time: behind a store the compiler would let each wait for the one before it.
  constexpr unsigned batch = 8;
  for (unsigned first = part; first < words.per_word; first += words.parts * batch) {
    float old[batch] = {};
    if constexpr (Add) {
#pragma unroll
      for (unsigned u = 0; u < batch; ++u) {
        const unsigned i = first + u * words.parts, r = i * words.count + k;
        if (i < words.per_word && r < words.rows) old[u] = values[r];
      }
    }
#pragma unroll
    for (unsigned u = 0; u < batch; ++u) {
      const unsigned i = first + u * words.parts, r = i * words.count + k;
      if (i >= words.per_word || r >= words.rows) break;
      const float v = reader(word >> (i * words.bits));
      values[r] = Add ? old[u] + v : v;
    }
  }
}

// write(i, read(i)) for all i below count, four at a time: all is read before anything is written, so that their loads
// are on the way together.
template <class Read, class Write>
__device__ void each(std::size_t count, const Read& read, const Write& write) {
  constexpr unsigned unroll = 4;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * decode_threads * unroll + threadIdx.x;
  decltype(read(first)) values[unroll];
#pragma unroll
  for (unsigned u = 0; u < unroll; ++u)
    if (first + u * decode_threads < count) values[u] = read(first + u * decode_threads);
#pragma unroll
  for (unsigned u = 0; u < unroll; ++u)
    if (first + u * decode_threads < count) write(first + u * decode_threads, values[u]);
}
unsigned blocks_of(std::size_t count) {
  return static_cast<unsigned>((count + 4 * decode_threads - 1) / (4 * decode_threads));
}

template <Half F>
__device__ float limited(float v) {
  constexpr float infinity = __builtin_inff();
  v = v > kLargest<F> && v < infinity ? kLargest<F> : v;
  return v < -kLargest<F> && v > -infinity ? -kLargest<F> : v;
}

template <Half F>
__global__ void __launch_bounds__(decode_threads)
    encode_half(std::size_t count, const float* values, float* residual, unsigned short* out) {
  each(
      count, [&](std::size_t i) { return residual ? values[i] + residual[i] : values[i]; },
      [&](std::size_t i, float v) {
        const unsigned h = F == Half::ieee ? to_half(limited<F>(v)) : to_brain(limited<F>(v));
        out[i] = static_cast<unsigned short>(h);
        if (residual) residual[i] = v - (F == Half::ieee ? from_half(h) : from_brain(h));
      });
}

struct Sent {
  unsigned short bits;
  float old;
};

template <Half F, bool Add>
__global__ void __launch_bounds__(decode_threads)
    decode_half(std::size_t count, const unsigned short* in, float* values) {
  each(
      count,
      [&](std::size_t i) {
        return Sent{in[i], Add ? values[i] : 0.0f};
      },
      [&](std::size_t i, const Sent& s) {
        const float v = F == Half::ieee ? from_half(s.bits) : from_brain(s.bits);
        values[i] = Add ? s.old + v : v;
      });
}

__global__ void __launch_bounds__(decode_threads)
    encode_float(std::size_t count, const float* values, float* residual, float* out) {
  each(
      count, [&](std::size_t i) { return values[i] + residual[i]; },
      [&](std::size_t i, float v) { out[i] = v, residual[i] = 0; });
}

__global__ void __launch_bounds__(decode_threads) add_float(std::size_t count, const float* in, float* values) {
  each(
      count, [&](std::size_t i) { return values[i] + in[i]; }, [&](std::size_t i, float v) { values[i] = v; });
}

template <class... P, class... A>
void start_each(void (*kernel)(P...), std::size_t count, cudaStream_t stream, const A&... arguments) {
  if (count > 0) tutti::cuda::launch(kernel, dim3(blocks_of(count)), dim3(decode_threads), stream, count, arguments...);
}

template <bool OneBit, bool Add>
void start(const DecodeColumns& job, cudaStream_t stream) {
  const Words words(job.bits, job.rows);
  const bool in_short = job.rows <= 32;
  const std::size_t warps =
      in_short ? (job.columns + 31) / 32 : job.columns * ((words.count + words.side - 1) / words.side);
  tutti::cuda::launch(in_short ? decode_short<OneBit, Add> : decode_long<OneBit, Add>,
                      dim3(static_cast<unsigned>((warps + decode_warps - 1) / decode_warps)), dim3(decode_threads),
                      stream, job, words);
}

}  // namespace

void decode(const DecodeColumns& job, cudaStream_t stream) {
  if (job.rows == 0 || job.columns == 0) return;
  if (travels_raw(job.bits, job.rows))
    return decode_floats(job.add, job.rows * job.columns, job.in, job.values, stream);
  if (job.bits == 1)
    job.add ? start<true, true>(job, stream) : start<true, false>(job, stream);
  else
    job.add ? start<false, true>(job, stream) : start<false, false>(job, stream);
}

void encode_halves(Half format, std::size_t count, const float* values, float* residual, std::byte* out,
                   cudaStream_t stream) {
  start_each(format == Half::ieee ? encode_half<Half::ieee> : encode_half<Half::brain>, count, stream, values, residual,
             reinterpret_cast<unsigned short*>(out));
}

void decode_halves(Half format, bool add, std::size_t count, const std::byte* in, float* values, cudaStream_t stream) {
  const auto* from = reinterpret_cast<const unsigned short*>(in);
  if (format == Half::ieee)
    start_each(add ? decode_half<Half::ieee, true> : decode_half<Half::ieee, false>, count, stream, from, values);
  else
    start_each(add ? decode_half<Half::brain, true> : decode_half<Half::brain, false>, count, stream, from, values);
}

void encode_floats(std::size_t count, const float* values, float* residual, std::byte* out, cudaStream_t stream) {
  auto* to = reinterpret_cast<float*>(out);
  if (residual) return start_each(encode_float, count, stream, values, residual, to);
  if (count > 0)
    tutti::cuda::check(cudaMemcpyAsync(to, values, count * sizeof(float), cudaMemcpyDefault, stream), "copying values");
}

void decode_floats(bool add, std::size_t count, const std::byte* in, float* values, cudaStream_t stream) {
  const auto* from = reinterpret_cast<const float*>(in);
  if (add) return start_each(add_float, count, stream, from, values);
  if (count > 0)
    tutti::cuda::check(cudaMemcpyAsync(values, from, count * sizeof(float), cudaMemcpyDefault, stream),
                       "copying values");
}

}  // namespace tutti::codec::cuda
