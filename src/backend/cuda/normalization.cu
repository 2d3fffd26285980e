// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, and the gradient of bias and ReLU.
#include <type_traits>
#include <vector>

#include "backend/cuda/channels.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/images.h"
#include "backend/cuda/math.h"

namespace tutti::cuda {
namespace {

// ---- batch normalisation

// `work` of a batch normalisation, by channel.
struct Kept {
  float *mean, *inverse, *batch_mean, *share;  // share: of the minibatch in what normalises
  Kept(float* work, std::size_t n) : mean(work), inverse(work + n), batch_mean(work + 2 * n), share(work + 3 * n) {}
};

template <class T, unsigned V>
struct Moments {
  static constexpr unsigned at_once = V == 1 ? 4 : 2;  // so that enough bytes are on their way
  const T* x;
  __device__ Lanes<V> read(std::size_t e) const { return load<V>(x + e); }
  __device__ void add(TwoSums (&s)[V], std::size_t, const Lanes<V>& values) const {
    for (unsigned l = 0; l < V; ++l) {
      const auto v = static_cast<double>(values.at[l]);
      s[l].first += v, s[l].second += v * v;
    }
  }
};

template <class T, bool Last, unsigned V>
__global__ void moments(Parts p, const T* x, TwoSums* sums) {
  sum_part<Last, V>(p, sums, [=](std::size_t) { return Moments<T, V>{x}; });
}

__device__ inline float mixed(double weight, float running, double fresh) {
  return static_cast<float>(weight * static_cast<double>(running) + (1 - weight) * fresh);
}

// The sums of every channel, and of how many values they are.
struct ChannelSums {
  const TwoSums* of;
  std::size_t channels, parts;  // several to a channel, one after the other
  double count;
};

// A warp for each channel.
__global__ void fold_parts(ChannelSums sums, TwoSums* folded) {
  const std::size_t c = channel_of_warp();
  if (c >= sums.channels) return;
  const TwoSums s = sum_of_parts(sums.of, c, sums.parts);
  if (threadIdx.x % 32 == 0) folded[c] = s;
}

// A warp for each channel.
__global__ void finish_statistics(BatchNormalization op, NormalizationParameters of, ChannelSums sums, Kept kept) {
  const std::size_t c = channel_of_warp();
  if (c >= sums.channels) return;
  double mean = 0, variance = 0;
  if (op.weights) {
    const TwoSums s = sum_of_parts(sums.of, c, sums.parts);
    const double count = sums.count;
    mean = s.first / count;
    variance = s.second / count - mean * mean;
    variance = variance < 0 ? 0 : variance;
  }
  if (threadIdx.x % 32 != 0) return;
  const double blend = op.weights ? op.weights->running : 1;
  kept.mean[c] = mixed(blend, of.mean[c], mean);
  kept.batch_mean[c] = static_cast<float>(mean);
  kept.inverse[c] =
      static_cast<float>(1 / sqrt(blend * static_cast<double>(of.variance[c]) + (1 - blend) * variance + op.epsilon));
  kept.share[c] = static_cast<float>(1 - blend);
  if (!op.weights) return;
  of.mean[c] = mixed(1 - op.weights->update, of.mean[c], mean);
  of.variance[c] = mixed(1 - op.weights->update, of.variance[c], variance);
}

// What becomes of the values of one channel.
struct Line {
  float center, factor, shift;
  __device__ Line(const NormalizationParameters& of, const Kept& kept, std::size_t c)
      : center(kept.mean[c]), factor(kept.inverse[c] * of.scale[c]), shift(of.bias[c]) {}
  Line() = default;
  __device__ float operator()(float x) const { return (x - center) * factor + shift; }
};

// body(e, line) for the elements e, e + 1, ... that are this thread's, V at a time; line(l) is the line of element e +
// l, as line_of(channel) makes it. In plain images the V values of a thread are of one channel.
template <bool Last, unsigned V, class LineOf, class Body>
__device__ inline void along_lines(const Parts& p, unsigned count, const LineOf& line_of, const Body& body) {
  if constexpr (Last) {
    const RowsOfThread<V> mine(p);
    if (mine.end == 0) return;
    decltype(line_of(0)) lines[V];
    for (unsigned l = 0; l < V; ++l) lines[l] = line_of(mine.channel + l);
    mine.each(p, [&](std::size_t e) { body(e, [&](unsigned l) { return lines[l]; }); });
  } else {
    const auto channels = static_cast<unsigned>(p.channels), pixels = static_cast<unsigned>(p.pixels);
    for (unsigned e = first_element32() * V; e < count; e += element_step32() * V) {
      const auto line = line_of(e / pixels % channels);
      body(e, [&](unsigned) { return line; });
    }
  }
}

template <class T, bool Last, unsigned V>
__global__ void apply(Parts p, unsigned count, bool relu, NormalizationParameters of, Kept kept, const T* x,
                      const T* added, T* y) {
  along_lines<Last, V>(
      p, count, [&](std::size_t c) { return Line(of, kept, c); },
      [&](std::size_t e, const auto& line) {
        Lanes<V> v = load<V>(x + e);
        Lanes<V> more{};
        if (added) more = load<V>(added + e);
        for (unsigned l = 0; l < V; ++l) {
          float r = line(l)(v.at[l]);
          if (added) r += more.at[l];
          v.at[l] = relu && r < 0.0f ? 0.0f : r;
        }
        store(y + e, v);
      });
}

template <unsigned V>
__device__ inline void mask(Lanes<V>& d, const Lanes<V>& result) {
  for (unsigned l = 0; l < V; ++l) d.at[l] = result.at[l] > 0.0f ? d.at[l] : 0.0f;
}

// What becomes of a gradient on its way back through ReLU.
enum class Relu {
  none,
  of_result,  // the result says where it passes; the masked gradient goes where it is wanted
  again       // the result is made again where it says so: that takes less memory traffic
};

// By the very formula and rounding of the forward pass.
template <class T>
__device__ inline float through_relu(const Line& line, float x, float d) {
  T result;
  round_to(result, line(x));
  return value_of(result) > 0.0f ? d : 0.0f;
}

template <class T, unsigned V, Relu How>
struct GradientSums {
  static constexpr unsigned at_once = How == Relu::again ? 2 : 1;  // only there nothing is stored in between
  const T *x, *y, *dy;
  T *masked, *added;
  Line lines[V];
  struct Values {
    Lanes<V> d, x, y;
  };
  __device__ Values read(std::size_t e) const {
    Values v{load<V>(dy + e), load<V>(x + e), {}};
    if constexpr (How == Relu::of_result) v.y = load<V>(y + e);
    return v;
  }
  __device__ void add(TwoSums (&s)[V], std::size_t e, Values v) const {
    if constexpr (How == Relu::of_result) mask(v.d, v.y);
    if constexpr (How == Relu::again)
      for (unsigned l = 0; l < V; ++l) v.d.at[l] = through_relu<T>(lines[l], v.x.at[l], v.d.at[l]);
    else if (How == Relu::of_result || masked != dy)
      store(masked + e, v.d);
    if (added) put(added + e, v.d, true);
    for (unsigned l = 0; l < V; ++l) {
      s[l].first += static_cast<double>(v.d.at[l]);
      s[l].second += static_cast<double>(v.d.at[l] * (v.x.at[l] - lines[l].center));
    }
  }
};

template <class T, bool Last, unsigned V, Relu How>
__global__ void gradient_sums(Parts p, const T* x, const T* y, const T* dy, T* masked, T* added,
                              NormalizationParameters parameters, Kept kept, TwoSums* sums) {
  sum_part<Last, V>(p, sums, [=](std::size_t c) {
    GradientSums<T, V, How> of{x, y, dy, masked, added, {}};
    for (unsigned l = 0; l < V; ++l) of.lines[l] = Line(parameters, kept, c + l);
    return of;
  });
}

struct Slopes {
  float *scale, *slope, *shift;
};

// Scale and bias take the sums of this rank's columns, the way on those of the columns that normalise.
__global__ void settle_gradient(ChannelSums mine, ChannelSums all, Kept kept, const float* scale,
                                NormalizationGradients to, Slopes slopes) {
  const std::size_t c = channel_of_warp();
  if (c >= mine.channels) return;
  const TwoSums m = sum_of_parts(mine.of, c, mine.parts), s = sum_of_parts(all.of, c, all.parts);
  if (threadIdx.x % 32 != 0) return;
  const auto inverse = static_cast<double>(kept.inverse[c]);
  const double factor = inverse * static_cast<double>(scale[c]);
  const double share = factor * static_cast<double>(kept.share[c]) / all.count;
  slopes.scale[c] = static_cast<float>(factor);
  slopes.slope[c] = static_cast<float>(share * inverse * inverse * s.second);
  slopes.shift[c] = static_cast<float>(share * s.first);
  const auto dscale = static_cast<float>(inverse * m.second), dbias = static_cast<float>(m.first);
  if (to.scale) to.scale[c] = to.add_scale ? to.scale[c] + dscale : dscale;
  if (to.bias) to.bias[c] = to.add_bias ? to.bias[c] + dbias : dbias;
}

struct BackLine {
  float scale, slope, shift, center;
  __device__ BackLine(const Slopes& of, const float* center_of, std::size_t c)
      : scale(of.scale[c]), slope(of.slope[c]), shift(of.shift[c]), center(center_of[c]) {}
  BackLine() = default;
  __device__ float operator()(float x, float d) const { return (d * scale - shift) - (x - center) * slope; }
};

// The same through ReLU first, where its result is made again.
template <class T, bool Again>
struct WayBack {
  BackLine back;
  Line forth;
  __device__ WayBack(const Slopes& of, const NormalizationParameters& parameters, const Kept& kept, std::size_t c)
      : back(of, kept.batch_mean, c) {
    if constexpr (Again) forth = Line(parameters, kept, c);
  }
  WayBack() = default;
  __device__ float operator()(float x, float d) const {
    if constexpr (Again) d = through_relu<T>(forth, x, d);
    return back(x, d);
  }
};

template <class T, bool Last, unsigned V, bool Again>
__global__ void apply_gradient(Parts p, unsigned count, Slopes slopes, NormalizationParameters of, Kept kept,
                               const T* x, const T* dy, T* dx, bool add) {
  along_lines<Last, V>(
      p, count, [&](std::size_t c) { return WayBack<T, Again>(slopes, of, kept, c); },
      [&](std::size_t e, const auto& line) {
        const Lanes<V> values = load<V>(x + e);
        Lanes<V> g = load<V>(dy + e);
        for (unsigned l = 0; l < V; ++l) g.at[l] = line(l)(values.at[l], g.at[l]);
        put(dx + e, g, add);
      });
}

// ---- bias and ReLU

template <class T, unsigned V>
struct MaskedSums {
  static constexpr unsigned at_once = 1;
  const T* y;
  T* dy;
  struct Values {
    Lanes<V> d, y;
  };
  __device__ Values read(std::size_t e) const {
    Values v{load<V>(dy + e), {}};
    if (y) v.y = load<V>(y + e);
    return v;
  }
  __device__ void add(TwoSums (&s)[V], std::size_t e, Values v) const {
    if (y) {
      mask(v.d, v.y);
      store(dy + e, v.d);
    }
    for (unsigned l = 0; l < V; ++l) s[l].first += static_cast<double>(v.d.at[l]);
  }
};

template <class T, bool Last, unsigned V>
__global__ void masked_sums(Parts p, const T* y, T* dy, TwoSums* sums) {
  sum_part<Last, V>(p, sums, [=](std::size_t) { return MaskedSums<T, V>{y, dy}; });
}

__global__ void settle_bias(Parts p, const TwoSums* sums, float* dbias, bool add) {
  const std::size_t c = channel_of_warp();
  if (c >= p.channels) return;
  const auto sum = static_cast<float>(sum_of_parts(sums, c, p.parts).first);
  if (threadIdx.x % 32 == 0) dbias[c] = (add ? dbias[c] : 0.0f) + sum;
}

// The sums of all ranks, in the place of `folded`.
ChannelSums sum_over_ranks(SumOverRanks& ranks, const ChannelSums& mine, TwoSums* folded, cudaStream_t stream) {
  launch(fold_parts, warps_for(mine.channels), threads_per_block, stream, mine, folded);
  std::vector<double> host(2 * mine.channels);
  const std::size_t bytes = host.size() * sizeof(double);
  check(cudaMemcpyAsync(host.data(), folded, bytes, cudaMemcpyDeviceToHost, stream), "fetching sums of channels");
  check(cudaStreamSynchronize(stream), "waiting for sums of channels");
  const double count = ranks.sum(host, mine.count);
  check(cudaMemcpyAsync(folded, host.data(), bytes, cudaMemcpyHostToDevice, stream), "sending sums of channels");
  check(cudaStreamSynchronize(stream), "waiting for sums of channels");
  return {folded, mine.channels, 1, count};
}

std::size_t count_of(const ImageExtent& e) { return e.columns * e.channels * e.pixels; }

// Of one pixel the channels lie last in each format, and that is how threads read whole lines of memory.
ImageExtent seen(ImageExtent e) {
  if (e.pixels == 1) e.format = Format::blocked;
  return e;
}

// How an image is walked: use(a number of its type, channels last?, lanes of a thread) with constants. Sums of plain
// images go value by value.
template <class Use>
void walked(const ImageExtent& e, std::initializer_list<const void*> all, const Use& use) {
  if (e.format == Format::blocked)
    return flat(e.element, e.channels, all, [&](auto number, auto lanes) { use(number, std::true_type{}, lanes); });
  in_whole_lanes<float>(e.pixels, all) ? use(float{}, std::false_type{}, std::integral_constant<unsigned, 4>{})
                                       : use(float{}, std::false_type{}, std::integral_constant<unsigned, 1>{});
}

}  // namespace

void CudaImages::normalize(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                           const float* added, float* y, float* work) {
  const ImageExtent extent = seen(op.extent);
  if (extent.columns == 0 && !op.ranks) return;
  const unsigned count = in_32_bits(count_of(extent));
  const Kept kept(work, extent.channels);
  walked(extent, {x, added, y}, [&](auto number, auto last, auto lanes) {
    using T = decltype(number);
    constexpr unsigned summed = last ? lanes : 1;
    const Parts p(extent, summed);
    const std::size_t n = p.channels * p.parts;
    auto* workspace = sums_.reserve<TwoSums>(n + p.channels);
    ChannelSums sums{workspace, p.channels, p.parts, static_cast<double>(p.columns * p.pixels)};
    if (count == 0) check(cudaMemsetAsync(workspace, 0, n * sizeof(TwoSums), stream()), "clearing sums of channels");
    if (op.weights && count > 0)
      launch(moments<T, last, summed>, p.blocks(), threads_per_block, stream(), p, as<T>(x), workspace);
    if (op.ranks) sums = sum_over_ranks(*op.ranks, sums, workspace + n, stream());
    if (sums.count == 0) return;
    launch(finish_statistics, warps_for(p.channels), threads_per_block, stream(), op, of, sums, kept);
    if (count > 0)
      launch(apply<T, last, lanes>, last ? p.blocks() : blocks_for(count / lanes), threads_per_block, stream(), p,
             count, op.relu, of, kept, as<T>(x), as<T>(added), as<T>(y));
  });
}

void CudaImages::normalize_gradient(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                                    const float* y, float* dy, const float* work, const NormalizationGradients& to) {
  const ImageExtent extent = seen(op.extent);
  if (extent.columns == 0 && !op.ranks) return;
  const unsigned count = in_32_bits(count_of(extent));
  const Kept kept(const_cast<float*>(work), extent.channels);
  // The gradient before ReLU goes where it is wanted anyway, or over dy.
  float* masked = to.added && !to.add_added ? to.added : dy;
  float* added = to.add_added ? to.added : nullptr;
  walked(extent, {x, y, dy, to.x, to.added}, [&](auto number, auto last, auto lanes) {
    using T = decltype(number);
    constexpr unsigned summed = last ? lanes : 1;
    const Parts p(extent, summed);
    // Sums, those over all ranks, then three floats for each channel.
    const std::size_t n = p.channels * p.parts;
    auto* workspace = sums_.reserve<TwoSums>(n + 3 * p.channels);
    auto* floats = reinterpret_cast<float*>(workspace + n + p.channels);
    const Slopes slopes{floats, floats + p.channels, floats + 2 * p.channels};
    const bool again = op.relu && !op.add;
    if (count == 0) check(cudaMemsetAsync(workspace, 0, n * sizeof(TwoSums), stream()), "clearing sums of channels");
    if (count > 0)
      launch(again     ? gradient_sums<T, last, summed, Relu::again>
             : op.relu ? gradient_sums<T, last, summed, Relu::of_result>
                       : gradient_sums<T, last, summed, Relu::none>,
             p.blocks(), threads_per_block, stream(), p, as<T>(x), as<T>(y), as<T>(dy), as<T>(masked), as<T>(added), of,
             kept, workspace);
    const ChannelSums mine{workspace, p.channels, p.parts, static_cast<double>(p.columns * p.pixels)};
    const ChannelSums all = op.ranks ? sum_over_ranks(*op.ranks, mine, workspace + n, stream()) : mine;
    launch(settle_gradient, warps_for(p.channels), threads_per_block, stream(), mine, all, kept, of.scale, to, slopes);
    if (to.x && count > 0)
      launch(again ? apply_gradient<T, last, lanes, true> : apply_gradient<T, last, lanes, false>,
             last ? p.blocks() : blocks_for(count / lanes), threads_per_block, stream(), p, count, slopes, of, kept,
             as<T>(x), as<T>(masked), as<T>(to.x), to.add_x);
  });
}

void CudaImages::bias_relu_gradient(const ImageExtent& extent, const float* y, float* dy, float* dbias,
                                    bool accumulate) {
  if (extent.columns == 0) {
    if (dbias && !accumulate) check(cudaMemsetAsync(dbias, 0, extent.channels * sizeof(float), stream()), "clearing");
    return;
  }
  walked(extent, {y, dy}, [&](auto number, auto last, auto lanes) {
    using T = decltype(number);
    constexpr unsigned summed = last ? lanes : 1;
    const Parts p(extent, summed);
    auto* sums = sums_.reserve<TwoSums>(p.channels * p.parts);
    launch(masked_sums<T, last, summed>, p.blocks(), threads_per_block, stream(), p, as<T>(y), as<T>(dy), sums);
    if (dbias) launch(settle_bias, warps_for(p.channels), threads_per_block, stream(), p, sums, dbias, accumulate);
  });
}

}  // namespace tutti::cuda
