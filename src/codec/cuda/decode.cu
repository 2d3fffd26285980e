// SPDX-License-Identifier: Apache-2.0
// From the wire back to values, or added to values; and the codecs that work value by value. Everything is read and
// written once, neighbouring lanes in neighbouring places.
#include <type_traits>

#include "codec/cuda/quantizer.h"
#include "codec/half_bits.h"

namespace tutti::codec::cuda {
namespace {

constexpr unsigned decode_threads = 256, decode_warps = decode_threads / 32;

__device__ inline std::size_t this_warp() {
  return static_cast<std::size_t>(blockIdx.x) * decode_warps + threadIdx.x / 32;
}

// Columns of up to 32 rows, 32 at a time: a lane knows its column's numbers, the others ask it.
template <Kind K, bool Add>
__global__ void __launch_bounds__(decode_threads) decode_short(DecodeColumns job, Words words) {
  const std::size_t first = this_warp() * 32;
  if (first >= job.columns) return;
  const unsigned lane = threadIdx.x % 32, rows = words.rows, heads = Head<K>::floats, step = heads + words.count;
  const auto columns = static_cast<unsigned>(job.columns - first < 32 ? job.columns - first : 32);
  const unsigned count = columns * rows;
  const auto* in = reinterpret_cast<const unsigned*>(job.in) + first * step;
  const unsigned* own = in + (lane < columns ? lane : 0) * step;
  const unsigned own_word = own[heads];
  const Reader<K> reader(Head<K>::read(own), static_cast<int>(words.bits));
  float* values = job.values + first * rows;
  constexpr unsigned batch = 4;
  for (unsigned base = 0; base < count; base += 32 * batch) {
    const auto element = [&](unsigned u) { return base + 32 * u + lane; };
    float old[batch] = {};
    unsigned word[batch] = {};
#pragma unroll
    for (unsigned u = 0; u < batch; ++u)
      if (const unsigned e = element(u); e < count) {
        if constexpr (Add) old[u] = values[e];
        if constexpr (K != Kind::one_bit) {
          const unsigned column = words.column_of(e), row = e - column * rows;
          word[u] = in[column * step + heads + row - words.part_of_word(row) * words.count];
        }
      }
#pragma unroll
    for (unsigned u = 0; u < batch; ++u) {
      const unsigned e = element(u), column = words.column_of(e), row = e - column * rows;
      const unsigned source = column < 32 ? column : 31;
      float v;
      if constexpr (K == Kind::one_bit) {
        const float low = __shfl_sync(whole_warp, reader.low, source),
                    high = __shfl_sync(whole_warp, reader.high, source);
        v = (__shfl_sync(whole_warp, own_word, source) >> row & 1u) ? high : low;  // up to 32 rows are one word
      } else {
        Reader<K> theirs = reader;
        theirs.take_from(source);
        v = theirs(word[u] >> (words.part_of_word(row) * words.bits));
      }
      if (e < count) values[e] = Add ? old[u] + v : v;
    }
  }
}

// How longer columns are distributed to warps. A lane reads eight values and more, if need be from several words; all
// words come before all of what is added to, and that before anything is written (base/cuda/launch.h).
template <unsigned Bits>
struct Distributed {
  static constexpr unsigned per_word = 32 / Bits, batch = 8, of_word = per_word < batch ? per_word : batch,
                            turns = batch / of_word;
  unsigned shares;  // of a column
  explicit Distributed(const Words& w) : shares((w.count + w.side * turns - 1) / (w.side * turns)) {}
};

template <Kind K, unsigned Bits, bool Add>
__global__ void __launch_bounds__(decode_threads)
    decode_long(DecodeColumns job, Words words, Distributed<Bits> distributed) {
  using D = Distributed<Bits>;
  // In 32 bits: more warps than that would fill no memory.
  const unsigned warp = blockIdx.x * decode_warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned c = warp / distributed.shares, share = warp - c * distributed.shares;
  if (c >= job.columns) return;
  const auto* in = reinterpret_cast<const unsigned*>(job.in) + std::size_t{c} * (Head<K>::floats + words.count);
  const unsigned first_word = share * D::turns * words.side + words.word_of(lane);
  unsigned word[D::turns], end[D::turns];
#pragma unroll
  for (unsigned t = 0; t < D::turns; ++t) {
    const unsigned k = first_word + t * words.side;
    word[t] = k < words.count ? in[Head<K>::floats + k] : 0;
    end[t] = k < words.count ? words.rows : 0;
  }
  const Reader<K> reader(Head<K>::read(in), Bits);
  float* values = job.values + c * job.rows;
  // Place i of a word means a row beyond the last one where there is no such place.
  for (unsigned first = words.part_of(lane); first < D::per_word; first += words.parts * D::of_word) {
    const auto place = [&](unsigned u) { return first + u % D::of_word * words.parts; };
    const auto row = [&](unsigned u) { return place(u) * words.count + first_word + u / D::of_word * words.side; };
    float old[D::batch] = {};
    if constexpr (Add) {
#pragma unroll
      for (unsigned u = 0; u < D::batch; ++u)
        if (row(u) < end[u / D::of_word]) old[u] = values[row(u)];
    }
#pragma unroll
    for (unsigned u = 0; u < D::batch; ++u)
      if (row(u) < end[u / D::of_word]) {
        const float v = reader(word[u / D::of_word] >> (place(u) * Bits));
        values[row(u)] = Add ? old[u] + v : v;
      }
  }
}

// write(i, read(i)) for all i below count, four of them by a thread.
template <class Read, class Write>
__device__ void each(std::size_t count, const Read& read, const Write& write) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * decode_threads * 4 + threadIdx.x;
  if (first < count) tutti::cuda::batch<4>(first, std::size_t{decode_threads}, count, read, write);
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

template <class... P, class... A>
void start_warps(void (*kernel)(P...), std::size_t warps, cudaStream_t stream, const A&... arguments) {
  tutti::cuda::launch(kernel, dim3(static_cast<unsigned>((warps + decode_warps - 1) / decode_warps)),
                      dim3(decode_threads), stream, arguments...);
}

template <Kind K, unsigned Bits, bool Add>
void start(const DecodeColumns& job, cudaStream_t stream) {
  const Words words(Bits, job.rows);
  const Distributed<Bits> distributed(words);
  if (job.rows <= 32)
    start_warps(decode_short<K, Add>, (job.columns + 31) / 32, stream, job, words);
  else
    start_warps(decode_long<K, Bits, Add>, job.columns * distributed.shares, stream, job, words, distributed);
}

// For the width of the levels, one of these.
template <Kind K, unsigned... Bits>
void start_of(const DecodeColumns& job, cudaStream_t stream) {
  const auto of_width = [&](auto bits) {
    if (job.format.bits != static_cast<int>(bits)) return;
    job.add ? start<K, bits, true>(job, stream) : start<K, bits, false>(job, stream);
  };
  (of_width(std::integral_constant<unsigned, Bits>{}), ...);
}

}  // namespace

void decode(const DecodeColumns& job, cudaStream_t stream) {
  if (job.rows == 0 || job.columns == 0) return;
  if (travels_raw(job.format, job.rows))
    return decode_floats(job.add, job.rows * job.columns, job.in, job.values, stream);
  switch (kind_of(job.format)) {
    case Kind::one_bit:
      return start_of<Kind::one_bit, 1>(job, stream);
    case Kind::original:
      return start_of<Kind::original, 2, 4, 8, 16>(job, stream);
    case Kind::quarters:
      return start_of<Kind::quarters, 2>(job, stream);
    case Kind::even:
      return start_of<Kind::even, 4, 8, 16>(job, stream);
  }
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
