// SPDX-License-Identifier: Apache-2.0
// Quantising columns. A column is read once, if it fits into shared memory: its values wait there for its
// levels. Sums run in the 64 virtual lanes of the CPU codecs, two per lane of a warp, folded in halves.
#include "codec/cuda/quantizer.h"

namespace tutti::codec::cuda {
namespace {

constexpr unsigned encode_threads = 128, reads_at_once = 8;

// What a pass over a column sums up.
struct Sums {
  float first = 0, second = 0;
  unsigned count = 0;
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// ---- a column's levels, from passes over it: sums(add) gives what add(Sums&, value) has made of all values

struct Sides {
  float below, above;
  unsigned count_above;
};

template <class SumUp>
__device__ Sides side_means(unsigned rows, const SumUp& sums) {
  const Sums s = sums([](Sums& to, float x) {
    const bool one = x >= 0.0f;
    to.first += one ? 0.0f : x;
    to.second += one ? x : 0.0f;
    to.count += one;
  });
  return {s.count < rows ? s.first / static_cast<float>(rows - s.count) : 0.0f,
          s.count > 0 ? s.second / static_cast<float>(s.count) : 0.0f, s.count};
}

template <class SumUp>
__device__ Column<Kind::one_bit> describe(Column<Kind::one_bit>, Format format, unsigned rows, const SumUp& sums) {
  if (format.threshold == Threshold::zero) {
    const Sides m = side_means(rows, sums);
    return {around<Kind::one_bit>(m.below, m.above)};
  }
  const auto n = static_cast<float>(rows);
  const float mean = sums([](Sums& to, float x) { to.first += x; }).first / n;
  const Sums s = sums([mean](Sums& to, float x) {
    const float d = x - mean;
    to.first += d < 0.0f ? 0.0f - d : d;
  });
  const float deviation = s.first / n;
  return {around<Kind::one_bit>(mean - deviation, mean + deviation), mean};
}

template <class SumUp>
__device__ Column<Kind::original> describe(Column<Kind::original>, Format, unsigned rows, const SumUp& sums) {
  const Sums s = sums([](Sums& to, float x) { to.first += x * x; });
  const float reach = 4.0f * sqrtf(s.first / static_cast<float>(rows));
  return {{{-reach, reach}}};
}

// The two means of one side's parts: that of the side plus the mean distance from it. Takes from `loss`, the sum of
// squared distances from the mean of the side, so that it becomes that from the two means.
template <bool Above, class SumUp>
__device__ void means_of_side(float mean, unsigned members, float trouble, const SumUp& sums, float* out, float& loss) {
  const Sums s = sums([mean](Sums& to, float x) {
    const float d = x - mean;
    const bool inside = (x >= 0.0f) == Above, outer = inside && d >= 0.0f;
    to.first += inside && !outer ? d : 0.0f;
    to.second += outer ? d : 0.0f;
    to.count += outer;
  });
  const auto inner = static_cast<float>(members - s.count), outer = static_cast<float>(s.count);
  const float low = inner > 0.0f ? s.first / inner : 0.0f, high = outer > 0.0f ? s.second / outer : 0.0f;
  out[0] = mean + low + trouble;
  out[1] = mean + high + trouble;
  loss = loss - inner * (low * low);
  loss = loss - outer * (high * high);
}

template <class SumUp>
__device__ Column<Kind::quarters> means_of_parts(unsigned rows, const Sides& m, const SumUp& sums, float (&loss)[2]) {
  const float trouble = (m.below + m.above) * 0.0f;  // NaN where a sum is no finite number
  Column<Kind::quarters> c{{}, 0, m.below, m.above};
  means_of_side<false>(m.below, rows - m.count_above, trouble, sums, c.head.x, loss[0]);
  means_of_side<true>(m.above, m.count_above, trouble, sums, c.head.x + 2, loss[1]);
  return c;
}

template <class SumUp>
__device__ Column<Kind::quarters> describe(Column<Kind::quarters>, Format, unsigned rows, const SumUp& sums) {
  float unused[2] = {};
  return means_of_parts(rows, side_means(rows, sums), sums, unused);
}

// The ends of one side; NaN if any value of the column is not a finite number.
template <bool Above, class SumUp>
__device__ void ends_of_side(const SumUp& sums, float* out) {
  constexpr float infinity = __builtin_inff();
  // The smallest of the values, and of their opposites.
  const Sums s = sums(
      [](Sums& to, float x) {
        const bool inside = (x >= 0.0f) == Above;
        if (inside && x < to.first) to.first = x;
        if (inside && 0.0f - x < to.second) to.second = 0.0f - x;
        to.count += x * 0.0f != 0.0f;
      },
      Sums{infinity, infinity, 0}, [](float a, float b) { return b < a ? b : a; });
  const float low = s.first, high = 0.0f - s.second, bad = s.count > 0 ? __builtin_nanf("") : 0.0f;
  out[0] = low <= high ? low + bad : bad;
  out[1] = low <= high ? high + bad : bad;
}

// Whether steps of 4 bits between the ends of one side surely lose no more of its values than the two means.
__device__ inline bool ends_suffice(const float* ends, float loss_of_means, unsigned rows) {
  const float per_unit = Side(ends[0], ends[1], last_level(4)).per_unit();
  return per_unit == 0.0f || static_cast<float>(rows) * 0.25f <= loss_of_means * per_unit * per_unit;
}

// Of each side the ends or the means, whichever lose less between them.
template <class SumUp>
__device__ Column<Kind::even> describe(Column<Kind::even>, Format format, unsigned rows, const SumUp& sums) {
  Column<Kind::even> ends, means;
  ends_of_side<false>(sums, ends.head.x);
  ends_of_side<true>(sums, ends.head.x + 2);
  const Sides m = side_means(rows, sums);
  const Sums squares = sums([&m](Sums& to, float x) {
    const bool above = x >= 0.0f;
    const float d = x - (above ? m.above : m.below), square = d * d;
    to.first += above ? 0.0f : square;
    to.second += above ? square : 0.0f;
  });
  float loss[2] = {squares.first, squares.second};
  const Column<Kind::quarters> parts = means_of_parts(rows, m, sums, loss);
  if (ends_suffice(ends.head.x, loss[0], rows - m.count_above) && ends_suffice(ends.head.x + 2, loss[1], m.count_above))
    return ends;
  for (unsigned i = 0; i < 4; ++i) means.head.x[i] = parts.head.x[i];
  const Quantizer<Kind::even> wide(ends, format.bits), narrow(means, format.bits);
  const Sums gain = sums([&](Sums& to, float x) {
    const bool above = x >= 0.0f;
    float of_ends, of_means;
    wide(x, of_ends), narrow(x, of_means);
    const float unit = above ? wide.above_scale : wide.below_scale;
    const float e = (x - of_ends) * unit, n = (x - of_means) * unit, less = e * e - n * n;
    to.first += above ? 0.0f : less;
    to.second += above ? less : 0.0f;
  });
  for (unsigned i = 0; i < 4; ++i)
    if ((i < 2 ? gain.first : gain.second) > 0.0f) ends.head.x[i] = means.head.x[i];
  return ends;
}

// ---- columns of up to 32 rows: a lane each

constexpr unsigned short_rows = 32, short_words = 20;  // a column's share of shared memory

// Those of a column that one lane has. Combine joins lanes, of 64 of which the first `rows` hold something.
template <unsigned Size>
struct SumsOfLane {
  const float* v;
  unsigned rows;
  template <class Add, class Combine = Plus>
  __device__ Sums operator()(const Add& add, const Sums& start = {}, const Combine& combine = {}) const {
    Sums lane[Size];
    unsigned count = 0;
#pragma unroll
    for (unsigned i = 0; i < Size; ++i) {
      lane[i] = start;
      if (i < rows) add(lane[i], v[i]);
      count += lane[i].count;
    }
#pragma unroll
    for (unsigned half = Size / 2; half > 0; half /= 2)
#pragma unroll
      for (unsigned i = 0; i < Size / 2; ++i)
        if (i < half) {
          lane[i].first = combine(lane[i].first, lane[i + half].first);
          lane[i].second = combine(lane[i].second, lane[i + half].second);
        }
    return {lane[0].first, lane[0].second, count};
  }
};

// Turns the values of a column into residuals, and gives what travels.
template <Kind K>
__device__ void write_column(const Quantizer<K>& quantize, const Words& w, bool raw, const Head<K>& head, float* v,
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
  head.write(out);
  for (unsigned k = 0; k < w.count; ++k) {
    unsigned word = 0;
    for (unsigned r = k, shift = 0; r < w.rows; r += w.count, shift += w.bits) {
      word |= quantize(v[r], back) << shift;
      v[r] = v[r] - back;
    }
    out[Head<K>::floats + k] = word;
  }
}

template <unsigned Size, Kind K>
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
  const unsigned step = raw ? rows : Head<K>::floats + words.count;
  if (lane < columns) {
    float* v = tile + lane * stride;
    const auto column = describe(Column<K>{}, job.format, rows, SumsOfLane<Size>{v, rows});
    write_column<K>(Quantizer<K>(column, job.format.bits), words, raw, column.head, v, sent[warp] + lane * step);
  }
  __syncwarp();
#pragma unroll 1
  for (unsigned e = lane; e < count; e += 32) residual[e] = tile[place(e)];
  auto* out = reinterpret_cast<unsigned*>(job.out) + first * step;
#pragma unroll 1
  for (unsigned e = lane; e < columns * step; e += 32) out[e] = sent[warp][e];
}

// ---- columns that are sent as they are: a thread each

// All of a column NaN if one of its values is not a finite number.
__global__ void __launch_bounds__(encode_threads) encode_whole(EncodeColumns job) {
  const std::size_t c = std::size_t{blockIdx.x} * encode_threads + threadIdx.x;
  if (c >= job.columns) return;
  const float* values = job.values + c * job.rows;
  float *residual = job.residual + c * job.rows, trouble = 0;
  auto* out = reinterpret_cast<unsigned*>(job.out) + c * job.rows;
  for (unsigned r = 0; r < job.rows; ++r) trouble += (values[r] + residual[r]) * 0.0f;
  for (unsigned r = 0; r < job.rows; ++r) {
    const float v = values[r] + residual[r], back = v + trouble;
    residual[r] = v - back;
    out[r] = __float_as_uint(back);
  }
}

// ---- longer columns: a team of threads each

// The values of a column, `capacity` at a time, wait in shared memory for the team that works on it. Whole: all of them
// fit there, else they are read again for each pass.
template <unsigned Team, bool Whole>
class StagedColumn {
 public:
  __device__ StagedColumn(const float* values, float* residual, unsigned rows, float* staged, unsigned capacity,
                          Sums* shared)
      : values_(values), residual_(residual), rows_(rows), staged_(staged), capacity_(capacity), shared_(shared) {
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
  template <class Add, class Combine = Plus>
  __device__ Sums sums(const Add& add, const Sums& start = {}, const Combine& combine = {}) {
    Sums even = start, odd = start;  // lanes rank and rank + 32
    if constexpr (Whole) {
      add_staged(rows_, add, even, odd);
    } else {
      for (unsigned first = 0; first < rows_; first += capacity_) {
        const unsigned count = rows_ - first < capacity_ ? rows_ - first : capacity_;
        stage(first, count);
        add_staged(count, add, even, odd);
        sync();
      }
    }
    return fold(even, odd, combine);
  }

  template <Kind K>
  __device__ void write(const Quantizer<K>& quantize, const Words& w, const Head<K>& head, unsigned* out) const {
    if (rank() == 0) head.write(out);
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
      if (part == 0 && k < w.count) out[Head<K>::floats + k] = word;
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

  template <class Combine>
  __device__ Sums fold(const Sums& even, const Sums& odd, const Combine& combine) {
    Sums s{combine(even.first, odd.first), combine(even.second, odd.second), even.count + odd.count};
    if (rank() < 32)
      for (unsigned by = 16; by > 0; by /= 2) {
        s.first = combine(s.first, __shfl_xor_sync(whole_warp, s.first, by));
        s.second = combine(s.second, __shfl_xor_sync(whole_warp, s.second, by));
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
  unsigned capacity_;
  Sums* shared_;
};

// `capacity`: values of a column that fit into shared memory, behind what the team tells each other.
template <unsigned Team, bool Whole, Kind K>
__global__ void __launch_bounds__(Team < encode_threads ? encode_threads : Team)
    encode_long(EncodeColumns job, Words words, unsigned capacity) {
  const unsigned team = threadIdx.x / Team;
  const std::size_t c = std::size_t{blockIdx.x} * (blockDim.x / Team) + team;
  if (c >= job.columns) return;
  auto* const shared = reinterpret_cast<Sums*>(tutti::cuda::asked_for);
  StagedColumn<Team, Whole> staged(job.values + c * job.rows, job.residual + c * job.rows, words.rows,
                                   reinterpret_cast<float*>(tutti::cuda::asked_for + 1) + team * capacity, capacity,
                                   shared);
  const auto column =
      describe(Column<K>{}, job.format, words.rows, [&](const auto&... how) { return staged.sums(how...); });
  auto* out = reinterpret_cast<unsigned*>(job.out) + c * (Head<K>::floats + words.count);
  staged.template write<K>(Quantizer<K>(column, job.format.bits), words, column.head, out);
}

template <unsigned Size, Kind K>
void start_short(const EncodeColumns& job, const Words& words, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((job.columns + encode_threads - 1) / encode_threads);
  tutti::cuda::launch(encode_short<Size, K>, dim3(blocks), dim3(encode_threads), stream, job, words,
                      travels_raw(job.format, job.rows));
}

constexpr std::size_t shared_bytes(std::size_t values) { return sizeof(uint4) + sizeof(float) * values; }

template <unsigned Team, bool Whole, Kind K>
void start_long(const EncodeColumns& job, const Words& words, std::size_t capacity, cudaStream_t stream) {
  constexpr unsigned threads = Team < encode_threads ? encode_threads : Team, teams = threads / Team;
  const auto blocks = static_cast<unsigned>((job.columns + teams - 1) / teams);
  tutti::cuda::launch_with_shared(encode_long<Team, Whole, K>, dim3(blocks), dim3(threads),
                                  shared_bytes(teams * capacity), stream, job, words, capacity);
}

template <Kind K>
void start(const EncodeColumns& job, cudaStream_t stream) {
  const Words words(job.format.bits, job.rows);
  if (job.rows <= 4) return start_short<4, K>(job, words, stream);
  if (job.rows <= 8) return start_short<8, K>(job, words, stream);
  if (job.rows <= 16) return start_short<16, K>(job, words, stream);
  if (job.rows <= short_rows) return start_short<32, K>(job, words, stream);
  if (job.rows <= 2048) return start_long<32, true, K>(job, words, job.rows, stream);
  if (shared_bytes(job.rows) <= tutti::cuda::most_shared_memory())
    return start_long<256, true, K>(job, words, job.rows, stream);
  start_long<256, false, K>(job, words, 8192, stream);  // little, so that several blocks go side by side
}

}  // namespace

void encode(const EncodeColumns& job, cudaStream_t stream) {
  if (job.rows == 0 || job.columns == 0) return;
  if (job.format.adaptive && travels_raw(job.format, job.rows))
    return tutti::cuda::launch(encode_whole,
                               dim3(static_cast<unsigned>((job.columns + encode_threads - 1) / encode_threads)),
                               dim3(encode_threads), stream, job);
  switch (kind_of(job.format)) {
    case Kind::one_bit:
      return start<Kind::one_bit>(job, stream);
    case Kind::original:
      return start<Kind::original>(job, stream);
    case Kind::quarters:
      return start<Kind::quarters>(job, stream);
    case Kind::even:
      return start<Kind::even>(job, stream);
  }
}

}  // namespace tutti::codec::cuda
