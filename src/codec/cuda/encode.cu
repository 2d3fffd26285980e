// SPDX-License-Identifier: Apache-2.0
// Quantising columns. A column is read once: its values wait in shared memory for the two floats. Sums run in the 64
// virtual lanes of the CPU codecs, two per lane of a warp, folded in halves.
#include "codec/cuda/quantizer.h"

namespace tutti::codec::cuda {
namespace {

constexpr unsigned encode_threads = 128;

// ---- columns of up to 32 rows: a lane each
// -----------------------------------------------------------------------------

constexpr unsigned short_rows = 32, short_words = 18;  // a column's share of shared memory

// The fold of 64 lanes of which the first `rows` hold something.
template <unsigned Size, class Use>
__device__ float fold_column(const float* v, unsigned rows, const Use& use) {
  float lane[Size];
#pragma unroll
  for (unsigned i = 0; i < Size; ++i) lane[i] = 0.0f + (i < rows ? use(v[i]) : 0.0f);
#pragma unroll
  for (unsigned half = Size / 2; half > 0; half /= 2)
#pragma unroll
    for (unsigned i = 0; i < Size / 2; ++i)
      if (i < half) lane[i] += lane[i + half];
  return lane[0];
}

template <unsigned Size>
__device__ Pair pair_of_column(Statistic statistic, const float* v, unsigned rows, float& threshold) {
  const auto n = static_cast<float>(rows);
  threshold = 0;
  if (statistic == Statistic::spread) {
    const float reach = 4.0f * sqrtf(fold_column<Size>(v, rows, [](float x) { return x * x; }) / n);
    return {-reach, reach};
  }
  if (statistic == Statistic::mean_threshold) {
    const float mean = fold_column<Size>(v, rows, [](float x) { return x; }) / n;
    const float deviation = fold_column<Size>(v, rows,
                                              [mean](float x) {
                                                const float d = x - mean;
                                                return d < 0.0f ? 0.0f - d : d;
                                              }) /
                            n;
    threshold = mean;
    return around(mean - deviation, mean + deviation);
  }
  unsigned ones = 0;
  for (unsigned i = 0; i < rows; ++i) ones += v[i] >= 0.0f;
  const float negative = fold_column<Size>(v, rows, [](float x) { return x >= 0.0f ? 0.0f : x; });
  const float positive = fold_column<Size>(v, rows, [](float x) { return x >= 0.0f ? x : 0.0f; });
  const float m0 = ones < rows ? negative / static_cast<float>(rows - ones) : 0.0f;
  const float m1 = ones > 0 ? positive / static_cast<float>(ones) : 0.0f;
  return around(m0, m1);
}

// Turns the values of a column into residuals, and gives what travels.
template <bool OneBit>
__device__ void write_column(const Quantizer<OneBit>& quantize, const Words& w, bool raw, Pair pair, float* v,
                             unsigned* out) {
  float back = 0;
  if (raw) {
    for (unsigned r = 0; r < w.rows; ++r) {
      quantize(v[r], back);
      v[r] = v[r] - back;
      out[r] = __float_as_uint(back);
    }
    return;
  }
  out[0] = __float_as_uint(pair.lower), out[1] = __float_as_uint(pair.upper);
  for (unsigned k = 0; k < w.count; ++k) {
    unsigned word = 0;
    for (unsigned r = k, shift = 0; r < w.rows; r += w.count, shift += w.bits) {
      word |= quantize(v[r], back) << shift;
      v[r] = v[r] - back;
    }
    out[2 + k] = word;
  }
}

// Calls use(element of the tile, its place in shared memory) for this lane's elements of a tile of columns.
template <class Use>
__device__ void each_of_tile(unsigned rows, unsigned total, unsigned lane, unsigned stride, const Use& use) {
  unsigned column = lane / rows, row = lane % rows;
  const unsigned columns_on = 32 / rows, rows_on = 32 % rows;
#pragma unroll 4
  for (unsigned e = lane; e < total; e += 32) {
    use(e, column * stride + row);
    column += columns_on, row += rows_on;
    if (row >= rows) row -= rows, ++column;
  }
}

template <unsigned Size, bool OneBit>
__global__ void __launch_bounds__(encode_threads) encode_short(EncodeColumns job, Words words, bool raw) {
  constexpr unsigned warps = encode_threads / 32;
  __shared__ float values[warps][32 * (Size + 1)];
  __shared__ unsigned sent[warps][32 * short_words];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = words.rows;
  const std::size_t first = (static_cast<std::size_t>(blockIdx.x) * warps + warp) * 32;
  if (first >= job.columns) return;
  const auto columns = static_cast<unsigned>(job.columns - first < 32 ? job.columns - first : 32);
  const unsigned stride = rows | 1u;  // odd: the lanes' columns start in different banks
  float* tile = values[warp];
  const float* from = job.values + first * rows;
  float* residual = job.residual + first * rows;
  each_of_tile(rows, columns * rows, lane, stride, [&](unsigned e, unsigned at) { tile[at] = from[e] + residual[e]; });
  __syncwarp();
  const unsigned step = raw ? rows : 2 + words.count;
  if (lane < columns) {
    float threshold;
    float* v = tile + lane * stride;
    const Pair pair = pair_of_column<Size>(job.statistic, v, rows, threshold);
    write_column<OneBit>(Quantizer<OneBit>(pair, threshold, job.bits), words, raw, pair, v, sent[warp] + lane * step);
  }
  __syncwarp();
  each_of_tile(rows, columns * rows, lane, stride, [&](unsigned e, unsigned at) { residual[e] = tile[at]; });
  auto* out = reinterpret_cast<unsigned*>(job.out) + first * step;
  for (unsigned e = lane; e < columns * step; e += 32) out[e] = sent[warp][e];
}

// ---- longer columns: a team of threads each
// ----------------------------------------------------------------------------

struct Sums {
  float first = 0, second = 0;
  unsigned count = 0;
};

// A column and the team that works on it. Values stay in shared memory if they fit, else they come from memory again.
template <unsigned Team, unsigned Staged>
class Column {
 public:
  __device__ Column(const float* values, float* residual, unsigned rows, float* staged, Sums* shared)
      : values_(values), residual_(residual), rows_(rows), staged_(staged), shared_(shared) {}

  __device__ unsigned rank() const { return threadIdx.x % Team; }
  __device__ void sync() const {
    if constexpr (Team == 32)
      __syncwarp();
    else
      __syncthreads();
  }
  __device__ float value(unsigned r) const { return rows_ <= Staged ? staged_[r] : values_[r] + residual_[r]; }

  // add(Sums&, value) over all rows, in the order of the 64 lanes; the same on every thread.
  template <class Add>
  __device__ Sums sums(const Add& add) {
    Sums even, odd;  // lanes rank and rank + 32
    for (unsigned first = 0; first < rows_; first += Staged) {
      const unsigned end = rows_ - first < Staged ? rows_ : first + Staged;
      stage(first, end);
      sync();
      if (rank() < 32) {
        unsigned r = rank();
        const unsigned count = end - first;
        for (; r + 32 < count; r += 64) add(even, staged_[r]), add(odd, staged_[r + 32]);
        if (r < count) add(even, staged_[r]);
      }
      if (end < rows_) sync();
    }
    return fold(even, odd);
  }

  __device__ Pair pair(Statistic statistic, float& threshold) {
    const auto n = static_cast<float>(rows_);
    threshold = 0;
    if (statistic == Statistic::spread) {
      const Sums s = sums([](Sums& to, float x) { to.first += x * x; });
      const float reach = 4.0f * sqrtf(s.first / n);
      return {-reach, reach};
    }
    if (statistic == Statistic::mean_threshold) {
      const float mean = sums([](Sums& to, float x) { to.first += x; }).first / n;
      const Sums s = sums([mean](Sums& to, float x) {
        const float d = x - mean;
        to.first += d < 0.0f ? 0.0f - d : d;
      });
      const float deviation = s.first / n;
      threshold = mean;
      return around(mean - deviation, mean + deviation);
    }
    const Sums s = sums([](Sums& to, float x) {
      const bool one = x >= 0.0f;
      to.first += one ? 0.0f : x;
      to.second += one ? x : 0.0f;
      to.count += one;
    });
    const float m0 = s.count < rows_ ? s.first / static_cast<float>(rows_ - s.count) : 0.0f;
    const float m1 = s.count > 0 ? s.second / static_cast<float>(s.count) : 0.0f;
    return around(m0, m1);
  }

  template <bool OneBit>
  __device__ void write(const Quantizer<OneBit>& quantize, const Words& w, Pair pair, unsigned* out) const {
    if (rank() == 0) out[0] = __float_as_uint(pair.lower), out[1] = __float_as_uint(pair.upper);
    const unsigned lane = rank() % 32, part = lane / w.side;
    for (unsigned first = rank() / 32 * w.side; first < w.count; first += Team / 32 * w.side) {
      const unsigned k = first + lane % w.side;
      unsigned word = 0;
#pragma unroll 4
      for (unsigned i = part; i < w.per_word; i += w.parts) {
        const unsigned r = i * w.count + k;
        if (k >= w.count || r >= rows_) break;
        const float v = value(r);
        float back;
        word |= quantize(v, back) << (i * w.bits);
        residual_[r] = v - back;
      }
      for (unsigned by = w.side; by < 32; by *= 2) word |= __shfl_xor_sync(whole_warp, word, by);
      if (part == 0 && k < w.count) out[2 + k] = word;
    }
  }

 private:
  __device__ void stage(unsigned first, unsigned end) {
    if (rows_ <= Staged && staged_here_) return;
    staged_here_ = true;
#pragma unroll 8
    for (unsigned r = first + rank(); r < end; r += Team) staged_[r - first] = values_[r] + residual_[r];
  }

  __device__ Sums fold(const Sums& even, const Sums& odd) {
    Sums s{even.first + odd.first, even.second + odd.second, even.count + odd.count};
    if (rank() < 32)
      for (unsigned by = 16; by > 0; by /= 2) {
        s.first += __shfl_xor_sync(whole_warp, s.first, by);
        s.second += __shfl_xor_sync(whole_warp, s.second, by);
        s.count += __shfl_xor_sync(whole_warp, s.count, by);
      }
    if constexpr (Team > 32) {
      if (rank() == 0) *shared_ = s;
      __syncthreads();
      s = *shared_;
      __syncthreads();
    }
    return s;
  }

  const float* values_;
  float* residual_;
  unsigned rows_;
  float* staged_;
  Sums* shared_;
  bool staged_here_ = false;
};

template <unsigned Team, unsigned Staged, bool OneBit>
__global__ void __launch_bounds__(encode_threads) encode_long(EncodeColumns job, Words words) {
  constexpr unsigned teams = encode_threads / Team;
  __shared__ float staged[teams][Staged];
  __shared__ Sums shared;
  const unsigned team = threadIdx.x / Team;
  const std::size_t c = static_cast<std::size_t>(blockIdx.x) * teams + team;
  if (c >= job.columns) return;
  Column<Team, Staged> column(job.values + c * job.rows, job.residual + c * job.rows, words.rows, staged[team],
                              &shared);
  float threshold;
  const Pair pair = column.pair(job.statistic, threshold);
  auto* out = reinterpret_cast<unsigned*>(job.out) + c * (2 + words.count);
  column.template write<OneBit>(Quantizer<OneBit>(pair, threshold, job.bits), words, pair, out);
}

template <unsigned Size, bool OneBit>
void start_short(const EncodeColumns& job, const Words& words, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((job.columns + encode_threads - 1) / encode_threads);
  tutti::cuda::launch(encode_short<Size, OneBit>, dim3(blocks), dim3(encode_threads), stream, job, words,
                      travels_raw(job.bits, job.rows));
}

template <unsigned Team, unsigned Staged, bool OneBit>
void start_long(const EncodeColumns& job, const Words& words, cudaStream_t stream) {
  constexpr unsigned teams = encode_threads / Team;
  const auto blocks = static_cast<unsigned>((job.columns + teams - 1) / teams);
  tutti::cuda::launch(encode_long<Team, Staged, OneBit>, dim3(blocks), dim3(encode_threads), stream, job, words);
}

template <bool OneBit>
void start(const EncodeColumns& job, cudaStream_t stream) {
  const Words words(job.bits, job.rows);
  if (job.rows <= 4) return start_short<4, OneBit>(job, words, stream);
  if (job.rows <= 8) return start_short<8, OneBit>(job, words, stream);
  if (job.rows <= 16) return start_short<16, OneBit>(job, words, stream);
  if (job.rows <= short_rows) return start_short<32, OneBit>(job, words, stream);
  if (job.rows <= 512) return start_long<32, 512, OneBit>(job, words, stream);
  if (job.rows <= 2048) return start_long<32, 2048, OneBit>(job, words, stream);
  start_long<encode_threads, 10240, OneBit>(job, words, stream);
}

}  // namespace

void encode(const EncodeColumns& job, cudaStream_t stream) {
  if (job.rows == 0 || job.columns == 0) return;
  job.bits == 1 ? start<true>(job, stream) : start<false>(job, stream);
}

}  // namespace tutti::codec::cuda
