// SPDX-License-Identifier: Apache-2.0
// Quantising columns. A column is read once, if shared memory has room for it: its values wait there for the two
// floats. Sums run in the 64 virtual lanes of the CPU codecs, two per lane of a warp, folded in halves.
#include "base/cuda/batch.h"
#include "codec/cuda/quantizer.h"

namespace tutti::codec::cuda {
namespace {

constexpr unsigned encode_threads = 128, reads_at_once = 8;

// ---- columns of up to 32 rows: a lane each

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
#pragma unroll
  for (unsigned i = 0; i < Size; ++i) ones += i < rows && v[i] >= 0.0f;
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
  const unsigned count = columns * rows;
  const auto place = [&](unsigned e) { return e + words.column_of(e) * (stride - rows); };
  constexpr unsigned at_once = Size < reads_at_once ? Size : reads_at_once;
#pragma unroll 1
  for (unsigned e = lane; e < count; e += 32 * at_once)
    tutti::cuda::batch<at_once>(
        e, 32u, count, [&](unsigned i) { return from[i] + residual[i]; },
        [&](unsigned i, float v) { tile[place(i)] = v; });
  __syncwarp();
  const unsigned step = raw ? rows : 2 + words.count;
  if (lane < columns) {
    float threshold;
    float* v = tile + lane * stride;
    const Pair pair = pair_of_column<Size>(job.statistic, v, rows, threshold);
    write_column<OneBit>(Quantizer<OneBit>(pair, threshold, job.bits), words, raw, pair, v, sent[warp] + lane * step);
  }
  __syncwarp();
#pragma unroll 1
  for (unsigned e = lane; e < count; e += 32) residual[e] = tile[place(e)];
  auto* out = reinterpret_cast<unsigned*>(job.out) + first * step;
#pragma unroll 1
  for (unsigned e = lane; e < columns * step; e += 32) out[e] = sent[warp][e];
}

// ---- longer columns: a team of threads each

struct Sums {
  float first = 0, second = 0;
  unsigned count = 0;
};

// The values of a column, `room` at a time, wait in shared memory for the team that works on it. Whole: all of them
// have room there, else they are read again for each pass.
template <unsigned Team, bool Whole>
class Column {
 public:
  __device__ Column(const float* values, float* residual, unsigned rows, float* staged, unsigned room, Sums* shared)
      : values_(values), residual_(residual), rows_(rows), staged_(staged), room_(room), shared_(shared) {
    if constexpr (Whole) stage(0, rows_);
  }

  __device__ unsigned rank() const { return threadIdx.x % Team; }
  __device__ void sync() const {
    if constexpr (Team == 32)
      __syncwarp();
    else
      __syncthreads();
  }
  __device__ float value(unsigned r) const {
    if constexpr (Whole)
      return staged_[r];
    else
      return values_[r] + residual_[r];
  }

  // add(Sums&, value) over all rows, in the order of the 64 lanes; the same on every thread.
  template <class Add>
  __device__ Sums sums(const Add& add) {
    Sums even, odd;  // lanes rank and rank + 32
    if constexpr (Whole) {
      add_staged(rows_, add, even, odd);
    } else {
      for (unsigned first = 0; first < rows_; first += room_) {
        const unsigned count = rows_ - first < room_ ? rows_ - first : room_;
        stage(first, count);
        add_staged(count, add, even, odd);
        sync();
      }
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
    const unsigned part = w.part_of(rank() % 32);
    for (unsigned first = rank() / 32 * w.side; first < w.count; first += Team / 32 * w.side) {
      const unsigned k = first + w.word_of(rank() % 32);
      // The places of this lane in word k are rows, as far as there are some.
      const unsigned end = k < w.count ? rows_ : 0, step = w.parts * w.count;
      unsigned word = 0, shift = part * w.bits;
      tutti::cuda::in_batches<reads_at_once>(
          part * w.count + k, step, end, [&](unsigned row) { return value(row); },
          [&](unsigned row, float v) {
            float back;
            word |= quantize(v, back) << shift;
            shift += w.parts * w.bits;
            residual_[row] = v - back;
          });
      for (unsigned by = w.side; by < 32; by *= 2) word |= __shfl_xor_sync(whole_warp, word, by);
      if (part == 0 && k < w.count) out[2 + k] = word;
    }
  }

 private:
  __device__ void stage(unsigned first, unsigned count) {
    const float *values = values_ + first, *residual = residual_ + first;
    tutti::cuda::in_batches<reads_at_once>(
        std::size_t{rank()}, std::size_t{Team}, std::size_t{count},
        [&](std::size_t i) { return values[i] + residual[i]; }, [&](std::size_t i, float v) { staged_[i] = v; });
    sync();
  }

  template <class Add>
  __device__ void add_staged(unsigned count, const Add& add, Sums& even, Sums& odd) const {
    if (rank() >= 32) return;
    struct Two {
      float even, odd;
    };
    unsigned r = rank();
    tutti::cuda::in_batches<4>(
        r, 64u, count > 32 ? count - 32 : 0,
        [&](unsigned i) {
          return Two{staged_[i], staged_[i + 32]};
        },
        [&](unsigned i, const Two& two) {
          add(even, two.even), add(odd, two.odd);
          r = i + 64;
        });
    if (r < count) add(even, staged_[r]);
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
  unsigned room_;
  Sums* shared_;
};

// `room`: values of a column that have room in shared memory, behind what the team tells each other.
template <unsigned Team, bool Whole, bool OneBit>
__global__ void __launch_bounds__(Team < encode_threads ? encode_threads : Team)
    encode_long(EncodeColumns job, Words words, unsigned room) {
  const unsigned team = threadIdx.x / Team;
  const std::size_t c = std::size_t{blockIdx.x} * (blockDim.x / Team) + team;
  if (c >= job.columns) return;
  auto* const shared = reinterpret_cast<Sums*>(tutti::cuda::asked_for);
  Column<Team, Whole> column(job.values + c * job.rows, job.residual + c * job.rows, words.rows,
                             reinterpret_cast<float*>(tutti::cuda::asked_for + 1) + team * room, room, shared);
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

constexpr std::size_t shared_bytes(std::size_t values) { return sizeof(uint4) + sizeof(float) * values; }

template <unsigned Team, bool Whole, bool OneBit>
void start_long(const EncodeColumns& job, const Words& words, std::size_t room, cudaStream_t stream) {
  constexpr unsigned threads = Team < encode_threads ? encode_threads : Team, teams = threads / Team;
  const auto blocks = static_cast<unsigned>((job.columns + teams - 1) / teams);
  tutti::cuda::launch_with_shared(encode_long<Team, Whole, OneBit>, dim3(blocks), dim3(threads),
                                  shared_bytes(teams * room), stream, job, words, room);
}

template <bool OneBit>
void start(const EncodeColumns& job, cudaStream_t stream) {
  const Words words(job.bits, job.rows);
  if (job.rows <= 4) return start_short<4, OneBit>(job, words, stream);
  if (job.rows <= 8) return start_short<8, OneBit>(job, words, stream);
  if (job.rows <= 16) return start_short<16, OneBit>(job, words, stream);
  if (job.rows <= short_rows) return start_short<32, OneBit>(job, words, stream);
  if (job.rows <= 2048) return start_long<32, true, OneBit>(job, words, job.rows, stream);
  if (shared_bytes(job.rows) <= tutti::cuda::most_shared_memory())
    return start_long<256, true, OneBit>(job, words, job.rows, stream);
  start_long<256, false, OneBit>(job, words, 8192, stream);  // little, so that several blocks go side by side
}

}  // namespace

void encode(const EncodeColumns& job, cudaStream_t stream) {
  if (job.rows == 0 || job.columns == 0) return;
  job.bits == 1 ? start<true>(job, stream) : start<false>(job, stream);
}

}  // namespace tutti::codec::cuda
