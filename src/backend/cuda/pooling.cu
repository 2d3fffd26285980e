// SPDX-License-Identifier: Apache-2.0
// Pooling. Backward goes cell by cell and asks the windows over it, so that no two threads add to one place. A thread
// takes one place of a plane, or of some channels where these lie last.
#include <type_traits>

#include "backend/cuda/divisor.h"
#include "backend/cuda/images.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/windows.h"

namespace tutti::cuda {
namespace {

// `inner` values lie at each cell.
struct Sizes {
  Axis in[3], out[3], groups;  // groups: inner / lanes of a thread
  Divisor by_stride[3];
  unsigned kernel[3], stride[3], pad[3];
  unsigned inner;
  unsigned count;  // of the places of a walk

  Sizes(const PoolingShape& s, const ImageWindow::Sizes& walked, unsigned lanes) {
    for (std::size_t a = 0; a < ImageWindow::max_rank; ++a) {
      in[a] = Axis(s.window.in[a]), out[a] = Axis(s.window.out[a]);
      kernel[a] = static_cast<unsigned>(s.window.kernel[a]), stride[a] = static_cast<unsigned>(s.window.stride[a]);
      by_stride[a] = Divisor(stride[a]);
      pad[a] = static_cast<unsigned>(s.window.pad[a]);
    }
    const bool last = s.format == Format::blocked;
    inner = last ? static_cast<unsigned>(s.channels) : 1, groups = Axis(inner / lanes);
    const std::size_t all = s.columns * s.channels;
    in_32_bits(all * cells(s.window.in)), in_32_bits(all * cells(s.window.out));
    count = static_cast<unsigned>(all / lanes * cells(walked));
  }
};

// The place that number `i` of a walk over planes of `size` means.
struct Spot {
  unsigned at[3], plane, channel;
  __device__ Spot(const Sizes& s, const Axis (&size)[3], unsigned i, unsigned lanes) : channel(0) {
    if (s.groups.size > 1) channel = s.groups.split(i) * lanes;
    at[0] = size[0].split(i), at[1] = size[1].split(i), at[2] = size[2].split(i);
    plane = i;
  }
};
__device__ inline unsigned index_of(const Axis (&size)[3], unsigned x, unsigned y, unsigned z) {
  return (z * size[1].size + y) * size[0].size + x;
}
__device__ inline unsigned product(const Axis (&size)[3]) { return size[0].size * size[1].size * size[2].size; }
struct Range {
  unsigned begin, end;
};
// The real cells under a window, and the windows over a cell, along an axis.
__device__ inline Range cells_under(const Sizes& s, unsigned axis, unsigned window) {
  const unsigned first = window * s.stride[axis], last = first + s.kernel[axis], pad = s.pad[axis];
  const unsigned end = last > pad ? last - pad : 0, size = s.in[axis].size;
  return {first > pad ? first - pad : 0, end < size ? end : size};
}
__device__ inline Range windows_over(const Sizes& s, unsigned axis, unsigned cell) {
  const Divisor& by = s.by_stride[axis];
  const unsigned at = cell + s.pad[axis], end = by.quotient(at) + 1, size = s.out[axis].size;
  return {at >= s.kernel[axis] ? by.quotient(at - s.kernel[axis]) + 1 : 0, end < size ? end : size};
}
// use(x, y, z) for all places of three ranges.
template <class Use>
__device__ inline void each_place(const Range (&r)[3], const Use& use) {
  for (unsigned z = r[2].begin; z < r[2].end; ++z)
    for (unsigned y = r[1].begin; y < r[1].end; ++y)
      for (unsigned x = r[0].begin; x < r[0].end; ++x) use(x, y, z);
}
__device__ inline unsigned number_of(const Range (&r)[3]) {
  return (r[0].end - r[0].begin) * (r[1].end - r[1].begin) * (r[2].end - r[2].begin);
}
// The number of a cell among those of its window, padding included.
__device__ inline unsigned number_in_window(const Sizes& s, const unsigned* window, unsigned x, unsigned y,
                                            unsigned z) {
  const unsigned i = x + s.pad[0] - window[0] * s.stride[0], j = y + s.pad[1] - window[1] * s.stride[1],
                 k = z + s.pad[2] - window[2] * s.stride[2];
  return (k * s.kernel[1] + j) * s.kernel[0] + i;
}

template <class Number, unsigned V>
struct alignas(sizeof(Number) * V < 16 ? sizeof(Number) * V : 16) Numbers {
  Number at[V];
};

template <class T, class Number, unsigned V>
__global__ void pool_max(Sizes s, const T* x, T* y, Number* winners) {
  const unsigned plane_size = product(s.in);
  for (unsigned i = first_element32(); i < s.count; i += element_step32()) {
    const Spot spot(s, s.out, i, V);
    const T* image = x + std::size_t{spot.plane} * plane_size * s.inner + spot.channel;
    const Range under[3] = {cells_under(s, 0, spot.at[0]), cells_under(s, 1, spot.at[1]),
                            cells_under(s, 2, spot.at[2])};
    const unsigned first = index_of(s.in, under[0].begin, under[1].begin, under[2].begin);
    Lanes<V> best = load<V>(image + first * s.inner);
    const unsigned first_number = number_in_window(s, spot.at, under[0].begin, under[1].begin, under[2].begin);
    Numbers<Number, V> winner;
    for (unsigned l = 0; l < V; ++l) winner.at[l] = static_cast<Number>(first_number);
    each_place(under, [&](unsigned cx, unsigned cy, unsigned cz) {
      const Lanes<V> v = load<V>(image + index_of(s.in, cx, cy, cz) * s.inner);
      const auto number = static_cast<Number>(number_in_window(s, spot.at, cx, cy, cz));
      for (unsigned l = 0; l < V; ++l)
        if (v.at[l] > best.at[l]) best.at[l] = v.at[l], winner.at[l] = number;
    });
    store(y + std::size_t{i} * V, best);
    *reinterpret_cast<Numbers<Number, V>*>(winners + std::size_t{i} * V) = winner;
  }
}

template <class T, class Number, unsigned V>
__global__ void pool_max_back(Sizes s, const T* dy, const Number* winners, T* dx, bool add) {
  const unsigned plane_size = product(s.out);
  for (unsigned i = first_element32(); i < s.count; i += element_step32()) {
    const Spot spot(s, s.in, i, V);
    const std::size_t plane = std::size_t{spot.plane} * plane_size * s.inner + spot.channel;
    const Range over[3] = {windows_over(s, 0, spot.at[0]), windows_over(s, 1, spot.at[1]),
                           windows_over(s, 2, spot.at[2])};
    Lanes<V> sum{};
    each_place(over, [&](unsigned wx, unsigned wy, unsigned wz) {
      const unsigned window[3] = {wx, wy, wz};
      const std::size_t e = plane + std::size_t{index_of(s.out, wx, wy, wz)} * s.inner;
      const auto number = static_cast<Number>(number_in_window(s, window, spot.at[0], spot.at[1], spot.at[2]));
      const auto winner = *reinterpret_cast<const Numbers<Number, V>*>(winners + e);
      const Lanes<V> d = load<V>(dy + e);
      for (unsigned l = 0; l < V; ++l)
        if (winner.at[l] == number) sum.at[l] += d.at[l];
    });
    put(dx + std::size_t{i} * V, sum, add);
  }
}

template <class T, unsigned V>
__global__ void pool_average(Sizes s, const T* x, T* y) {
  const unsigned plane_size = product(s.in);
  for (unsigned i = first_element32(); i < s.count; i += element_step32()) {
    const Spot spot(s, s.out, i, V);
    const T* image = x + std::size_t{spot.plane} * plane_size * s.inner + spot.channel;
    const Range under[3] = {cells_under(s, 0, spot.at[0]), cells_under(s, 1, spot.at[1]),
                            cells_under(s, 2, spot.at[2])};
    Lanes<V> sum{};
    each_place(under, [&](unsigned cx, unsigned cy, unsigned cz) {
      const Lanes<V> v = load<V>(image + index_of(s.in, cx, cy, cz) * s.inner);
      for (unsigned l = 0; l < V; ++l) sum.at[l] += v.at[l];
    });
    for (unsigned l = 0; l < V; ++l) sum.at[l] /= static_cast<float>(number_of(under));
    store(y + std::size_t{i} * V, sum);
  }
}

template <class T, unsigned V>
__global__ void pool_average_back(Sizes s, const T* dy, T* dx, bool add) {
  const unsigned plane_size = product(s.out);
  for (unsigned i = first_element32(); i < s.count; i += element_step32()) {
    const Spot spot(s, s.in, i, V);
    const T* plane = dy + std::size_t{spot.plane} * plane_size * s.inner + spot.channel;
    const Range over[3] = {windows_over(s, 0, spot.at[0]), windows_over(s, 1, spot.at[1]),
                           windows_over(s, 2, spot.at[2])};
    Lanes<V> sum{};
    each_place(over, [&](unsigned wx, unsigned wy, unsigned wz) {
      const Range under[3] = {cells_under(s, 0, wx), cells_under(s, 1, wy), cells_under(s, 2, wz)};
      const auto number = static_cast<float>(number_of(under));
      const Lanes<V> d = load<V>(plane + std::size_t{index_of(s.out, wx, wy, wz)} * s.inner);
      for (unsigned l = 0; l < V; ++l) sum.at[l] += d.at[l] / number;
    });
    put(dx + std::size_t{i} * V, sum, add);
  }
}

class CudaPooling : public PoolingPlan {
 public:
  CudaPooling(const PoolingShape& s, cudaStream_t stream)
      : shape_(s), max_(s.op == PoolingOp::max), bytes_(cells(s.window.kernel) < 255), stream_(stream) {}

  void forward(const float* x, float* y, float* work) override {
    each_kind(
        [&](auto number, auto lanes) {
          using T = decltype(number);
          run(pool_average<T, lanes>, lanes, shape_.window.out, as<T>(x), as<T>(y));
        },
        [&](auto number, auto lanes, auto winner) {
          using T = decltype(number);
          using Number = decltype(winner);
          run(pool_max<T, Number, lanes>, lanes, shape_.window.out, as<T>(x), as<T>(y),
              reinterpret_cast<Number*>(work));
        },
        x, y, work);
  }
  void backward(const float* dy, const float* work, float* dx, bool accumulate) override {
    each_kind(
        [&](auto number, auto lanes) {
          using T = decltype(number);
          run(pool_average_back<T, lanes>, lanes, shape_.window.in, as<T>(dy), as<T>(dx), accumulate);
        },
        [&](auto number, auto lanes, auto winner) {
          using T = decltype(number);
          using Number = decltype(winner);
          run(pool_max_back<T, Number, lanes>, lanes, shape_.window.in, as<T>(dy),
              reinterpret_cast<const Number*>(work), as<T>(dx), accumulate);
        },
        dy, dx, work);
  }

 private:
  // average(a number of the type, lanes), or max(the same, a number that counts the cells of a window).
  template <class Average, class Max>
  void each_kind(const Average& average, const Max& max, const float* a, const float* b, const float* work) const {
    const auto pool = [&](auto number, auto lanes) {
      if (!max_)
        average(number, lanes);
      else if (bytes_)
        max(number, lanes, static_cast<unsigned char>(0));
      else
        max(number, lanes, 0u);
    };
    with_type(shape_.element, [&](auto number) {
      using T = decltype(number);
      if (shape_.format == Format::blocked && in_whole_lanes<T>(shape_.channels, a, b, work))
        pool(number, std::integral_constant<unsigned, whole_lanes<T>>{});
      else
        pool(number, std::integral_constant<unsigned, 1>{});
    });
  }
  template <class... Wanted, class... Given>
  void run(void (*kernel)(Sizes, Wanted...), unsigned lanes, const ImageWindow::Sizes& walked,
           const Given&... given) const {
    const Sizes sizes(shape_, walked, lanes);
    if (sizes.count > 0) launch(kernel, blocks_for(sizes.count), threads_per_block, stream_, sizes, given...);
  }

  const PoolingShape shape_;
  const bool max_, bytes_;
  const cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<PoolingPlan> CudaImages::plan_pooling(const PoolingShape& shape) {
  return std::make_unique<CudaPooling>(shape, stream());
}

}  // namespace tutti::cuda
