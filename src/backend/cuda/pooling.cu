// SPDX-License-Identifier: Apache-2.0
// Pooling and unpooling. Backward pooling goes cell by cell and asks the windows over it, so that no two threads add to
// one place. A thread takes one place of a plane, or of some channels where these lie last.
#include <type_traits>

#include "backend/cuda/divisor.h"
#include "backend/cuda/images.h"
#include "backend/cuda/lanes.h"

namespace tutti::cuda {
namespace {

__host__ __device__ inline std::size_t cells(const ImageWindow::Sizes& s) { return s[0] * s[1] * s[2]; }

// Places: [begin, end) on each axis.
template <class Number>
struct Range {
  Number begin, end;
};
template <class Number>
struct Box {
  Range<Number> axis[3];
  __device__ Number count() const {
    return (axis[0].end - axis[0].begin) * (axis[1].end - axis[1].begin) * (axis[2].end - axis[2].begin);
  }
  // use(x, y, z) for all of them.
  template <class Use>
  __device__ void each(const Use& use) const {
    for (Number z = axis[2].begin; z < axis[2].end; ++z)
      for (Number y = axis[1].begin; y < axis[1].end; ++y)
        for (Number x = axis[0].begin; x < axis[0].end; ++x) use(x, y, z);
  }
};

// `inner` values lie at each cell.
struct Sizes {
  Axis in[3], out[3], groups;  // groups: inner / lanes of a thread
  Divisor by_stride[3];
  unsigned kernel[3], stride[3], pad[3];
  unsigned divisor;  // of a mean; 0: the number of real cells under the window
  unsigned inner;
  unsigned count;  // of the places of a walk

  Sizes(const PoolingShape& s, const ImageWindow::Sizes& walked, unsigned lanes) {
    for (std::size_t a = 0; a < ImageWindow::max_rank; ++a) {
      in[a] = Axis(s.window.in[a]), out[a] = Axis(s.window.out[a]);
      kernel[a] = static_cast<unsigned>(s.window.kernel[a]), stride[a] = static_cast<unsigned>(s.window.stride[a]);
      by_stride[a] = Divisor(stride[a]);
      pad[a] = static_cast<unsigned>(s.window.pad[a]);
    }
    divisor = s.include_padding ? static_cast<unsigned>(cells(s.window.kernel)) : 0;
    const bool last = s.format == Format::blocked;
    inner = last ? static_cast<unsigned>(s.channels) : 1, groups = Axis(inner / lanes);
    const std::size_t all = s.columns * s.channels;
    in_32_bits(all * cells(s.window.in)), in_32_bits(all * cells(s.window.out));
    count = static_cast<unsigned>(all / lanes * cells(walked));
  }

  // The real cells under a window, and the windows over a cell.
  __device__ Box<unsigned> cells_under(unsigned x, unsigned y, unsigned z) const {
    return {{cells_along(0, x), cells_along(1, y), cells_along(2, z)}};
  }
  __device__ Box<unsigned> windows_over(unsigned x, unsigned y, unsigned z) const {
    return {{windows_along(0, x), windows_along(1, y), windows_along(2, z)}};
  }
  __device__ float divisor_of(const Box<unsigned>& under) const {
    return static_cast<float>(divisor > 0 ? divisor : under.count());
  }

 private:
  __device__ Range<unsigned> cells_along(unsigned axis, unsigned window) const {
    const unsigned first = window * stride[axis], last = first + kernel[axis];
    const unsigned end = last > pad[axis] ? last - pad[axis] : 0, size = in[axis].size;
    return {first > pad[axis] ? first - pad[axis] : 0, end < size ? end : size};
  }
  __device__ Range<unsigned> windows_along(unsigned axis, unsigned cell) const {
    const Divisor& by = by_stride[axis];
    const unsigned at = cell + pad[axis], end = by.quotient(at) + 1, size = out[axis].size;
    return {at >= kernel[axis] ? by.quotient(at - kernel[axis]) + 1 : 0, end < size ? end : size};
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
// The number of a cell among those of its window, padding included.
__device__ inline unsigned number_in_window(const Sizes& s, const unsigned* window, unsigned x, unsigned y,
                                            unsigned z) {
  const unsigned i = x + s.pad[0] - window[0] * s.stride[0], j = y + s.pad[1] - window[1] * s.stride[1],
                 k = z + s.pad[2] - window[2] * s.stride[2];
  return (k * s.kernel[1] + j) * s.kernel[0] + i;
}

// use(first of V values of `walked`, where that is, first value of its plane of `other`) for what is this thread's.
template <unsigned V, class Use>
__device__ inline void each_spot(const Sizes& s, const Axis (&walked)[3], const Axis (&other)[3], const Use& use) {
  const unsigned plane_size = product(other);
  for (unsigned i = first_element32(); i < s.count; i += element_step32()) {
    const Spot spot(s, walked, i, V);
    use(std::size_t{i} * V, spot.at, std::size_t{spot.plane} * plane_size * s.inner + spot.channel);
  }
}

template <class Number, unsigned V>
struct alignas(sizeof(Number) * V < 16 ? sizeof(Number) * V : 16) Numbers {
  Number at[V];
};

// Of equal maxima the first one wins; what is not a number wins.
template <class T, class Number, unsigned V>
__global__ void pool_max(Sizes s, const T* x, T* y, Number* winners) {
  each_spot<V>(s, s.out, s.in, [&](std::size_t i, const unsigned(&window)[3], std::size_t plane) {
    const T* image = x + plane;
    const Box<unsigned> under = s.cells_under(window[0], window[1], window[2]);
    const unsigned first = index_of(s.in, under.axis[0].begin, under.axis[1].begin, under.axis[2].begin);
    Lanes<V> best = load<V>(image + first * s.inner);
    const unsigned first_number =
        number_in_window(s, window, under.axis[0].begin, under.axis[1].begin, under.axis[2].begin);
    Numbers<Number, V> winner;
    for (unsigned l = 0; l < V; ++l) winner.at[l] = static_cast<Number>(first_number);
    under.each([&](unsigned cx, unsigned cy, unsigned cz) {
      const Lanes<V> v = load<V>(image + index_of(s.in, cx, cy, cz) * s.inner);
      const auto number = static_cast<Number>(number_in_window(s, window, cx, cy, cz));
      for (unsigned l = 0; l < V; ++l)
        if (v.at[l] > best.at[l] || v.at[l] != v.at[l]) best.at[l] = v.at[l], winner.at[l] = number;
    });
    store(y + i, best);
    *reinterpret_cast<Numbers<Number, V>*>(winners + i) = winner;
  });
}

template <class T, class Number, unsigned V>
__global__ void pool_max_back(Sizes s, const T* dy, const Number* winners, T* dx, bool add) {
  each_spot<V>(s, s.in, s.out, [&](std::size_t i, const unsigned(&cell)[3], std::size_t plane) {
    Lanes<V> sum{};
    s.windows_over(cell[0], cell[1], cell[2]).each([&](unsigned wx, unsigned wy, unsigned wz) {
      const unsigned window[3] = {wx, wy, wz};
      const std::size_t e = plane + std::size_t{index_of(s.out, wx, wy, wz)} * s.inner;
      const auto number = static_cast<Number>(number_in_window(s, window, cell[0], cell[1], cell[2]));
      const auto winner = *reinterpret_cast<const Numbers<Number, V>*>(winners + e);
      const Lanes<V> d = load<V>(dy + e);
      for (unsigned l = 0; l < V; ++l)
        if (winner.at[l] == number) sum.at[l] += d.at[l];
    });
    put(dx + i, sum, add);
  });
}

template <class T, unsigned V>
__global__ void pool_average(Sizes s, const T* x, T* y) {
  each_spot<V>(s, s.out, s.in, [&](std::size_t i, const unsigned(&window)[3], std::size_t plane) {
    const Box<unsigned> under = s.cells_under(window[0], window[1], window[2]);
    Lanes<V> sum{};
    under.each([&](unsigned cx, unsigned cy, unsigned cz) {
      const Lanes<V> v = load<V>(x + plane + index_of(s.in, cx, cy, cz) * s.inner);
      for (unsigned l = 0; l < V; ++l) sum.at[l] += v.at[l];
    });
    for (unsigned l = 0; l < V; ++l) sum.at[l] /= s.divisor_of(under);
    store(y + i, sum);
  });
}

template <class T, unsigned V>
__global__ void pool_average_back(Sizes s, const T* dy, T* dx, bool add) {
  each_spot<V>(s, s.in, s.out, [&](std::size_t i, const unsigned(&cell)[3], std::size_t plane) {
    Lanes<V> sum{};
    s.windows_over(cell[0], cell[1], cell[2]).each([&](unsigned wx, unsigned wy, unsigned wz) {
      const float number = s.divisor_of(s.cells_under(wx, wy, wz));
      const Lanes<V> d = load<V>(dy + plane + std::size_t{index_of(s.out, wx, wy, wz)} * s.inner);
      for (unsigned l = 0; l < V; ++l) sum.at[l] += d.at[l] / number;
    });
    put(dx + i, sum, add);
  });
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
    flat(shape_.element, shape_.format == Format::blocked ? shape_.channels : 1, {a, b, work}, pool);
  }
  template <class... Wanted, class... Given>
  void run(void (*kernel)(Sizes, Wanted...), unsigned lanes, const ImageWindow::Sizes& walked,
           const Given&... given) const {
    const Sizes sizes(shape_, walked, lanes);
    if (sizes.count > 0) launch_for(kernel, sizes.count, stream_, sizes, given...);
  }

  const PoolingShape shape_;
  const bool max_, bytes_;
  const cudaStream_t stream_;
};

// ---- unpooling and the pooling of regions: rare, written plainly. Where windows share a maximum, the last value
// stands there and alone has a gradient.

using Place = ImageWindow::Sizes;

__device__ inline std::size_t offset(const Place& at, const ImageWindow::Sizes& sizes) {
  return (at[2] * sizes[1] + at[1]) * sizes[0] + at[0];
}
__device__ inline Place place_of(std::size_t index, const ImageWindow::Sizes& sizes) {
  return {index % sizes[0], index / sizes[0] % sizes[1], index / (sizes[0] * sizes[1])};
}

// Where the largest value under a window lies; the first one of equals.
__device__ std::size_t largest(const ImageWindow& w, const float* image, const Place& window) {
  Box<std::size_t> under;
  for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
    const std::size_t first = window[axis] * w.stride[axis], last = first + w.kernel[axis];
    const std::size_t end = last > w.pad[axis] ? last - w.pad[axis] : 0;
    under.axis[axis] = {first > w.pad[axis] ? first - w.pad[axis] : 0, end < w.in[axis] ? end : w.in[axis]};
  }
  std::size_t best = offset({under.axis[0].begin, under.axis[1].begin, under.axis[2].begin}, w.in);
  under.each([&](std::size_t x, std::size_t y, std::size_t z) {
    if (const std::size_t at = offset({x, y, z}, w.in); image[at] > image[best]) best = at;
  });
  return best;
}

// Whether a later window has its maximum at the same place.
__device__ bool covered(const ImageWindow& w, const float* image, std::size_t window, std::size_t at) {
  const Place cell = place_of(at, w.in);
  Box<std::size_t> over;
  for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
    const std::size_t from = cell[axis] + w.pad[axis], end = from / w.stride[axis] + 1;
    over.axis[axis] = {from >= w.kernel[axis] ? (from - w.kernel[axis]) / w.stride[axis] + 1 : 0,
                       end < w.out[axis] ? end : w.out[axis]};
  }
  bool found = false;
  over.each([&](std::size_t x, std::size_t y, std::size_t z) {
    const Place other{x, y, z};
    if (!found && offset(other, w.out) > window) found = largest(w, image, other) == at;
  });
  return found;
}

// use(e, place, whether the value e of the small images stands at that place of the large ones) for this thread's.
template <class Use>
__device__ void each_value(const ImageWindow& w, std::size_t planes, const float* image, const Use& use) {
  const std::size_t small = cells(w.out), large = cells(w.in), count = planes * small;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t plane = e / small * large, window = e % small;
    const std::size_t at = largest(w, image + plane, place_of(window, w.out));
    use(e, plane + at, !covered(w, image + plane, window, at));
  }
}

__global__ void unpool_each(ImageWindow w, std::size_t planes, const float* values, const float* image, float* y) {
  each_value(w, planes, image, [&](std::size_t e, std::size_t at, bool stands) {
    if (stands) y[at] = values[e];
  });
}

__global__ void unpool_each_back(ImageWindow w, std::size_t planes, const float* image, const float* dy, float* dvalues,
                                 bool add) {
  each_value(w, planes, image, [&](std::size_t e, std::size_t at, bool stands) {
    const float d = stands ? dy[at] : 0.0f;
    dvalues[e] = add ? dvalues[e] + d : d;
  });
}

// The cells of a region that bin `bin` of `bins` covers. `second` is the length of the region, with `scale` its last
// pixel.
__device__ Range<std::size_t> bin_of(double scale, float first, float second, std::size_t size, std::size_t bin,
                                     std::size_t bins) {
  const auto most = static_cast<float>(size);
  const auto whole = [&](float v) {
    return scale > 0 ? static_cast<float>(round(static_cast<double>(v) * scale)) : roundf(v * most);
  };
  const float start = whole(first), wide = fmaxf(1.0f, scale > 0 ? whole(second) - start + 1 : whole(second));
  const float step = wide / static_cast<float>(bins);
  const auto inside = [&](float v) { return static_cast<std::size_t>(v < 0.0f ? 0.0f : v > most ? most : v); };
  return {inside(floorf(start + static_cast<float>(bin) * step)),
          inside(ceilf(start + static_cast<float>(bin + 1) * step))};
}

__global__ void pool_each_region(RegionPooling s, const float* image, const float* regions, float* y, float* work) {
  const std::size_t plane = s.width * s.height, bins = s.out_width * s.out_height;
  const std::size_t count = s.columns * s.regions * s.channels * bins;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t bin = e % bins, c = e / bins % s.channels, i = e / (bins * s.channels);
    const float* region = regions + i * 4;
    const auto across = bin_of(s.scale, region[0], region[2], s.width, bin % s.out_width, s.out_width);
    const auto down = bin_of(s.scale, region[1], region[3], s.height, bin / s.out_width, s.out_height);
    const float* x = image + (i / s.regions * s.channels + c) * plane;
    std::size_t best = plane;
    for (std::size_t h = down.begin; h < down.end; ++h)
      for (std::size_t w = across.begin; w < across.end; ++w)
        if (best == plane || x[h * s.width + w] > x[best]) best = h * s.width + w;
    y[e] = best == plane ? 0.0f : x[best];
    work[e] = best == plane ? -1.0f : static_cast<float>(best);
  }
}

// A thread for each channel: regions may overlap, and the order of their sums is fixed.
__global__ void pool_each_region_back(RegionPooling s, const float* dy, const float* work, float* dimage) {
  const std::size_t plane = s.width * s.height, bins = s.out_width * s.out_height;
  for (std::size_t i = first_element(); i < s.columns * s.channels; i += element_step()) {
    float* dx = dimage + i * plane;
    const std::size_t column = i / s.channels, c = i % s.channels;
    for (std::size_t r = 0; r < s.regions; ++r)
      for (std::size_t bin = 0; bin < bins; ++bin) {
        const std::size_t source = ((column * s.regions + r) * s.channels + c) * bins + bin;
        if (work[source] >= 0) dx[static_cast<std::size_t>(work[source])] += dy[source];
      }
  }
}

}  // namespace

std::unique_ptr<PoolingPlan> CudaImages::plan_pooling(const PoolingShape& shape) {
  return std::make_unique<CudaPooling>(shape, stream());
}

void CudaImages::unpool(const PoolingShape& s, const float* values, const float* image, float* y) {
  const std::size_t planes = s.columns * s.channels;
  if (planes == 0) return;
  check(cudaMemsetAsync(y, 0, planes * cells(s.window.in) * sizeof(float), stream()), "unpooling");
  launch_for(unpool_each, planes * cells(s.window.out), stream(), s.window, planes, values, image, y);
}

void CudaImages::unpool_gradient(const PoolingShape& s, const float* image, const float* dy, float* dvalues,
                                 bool accumulate) {
  const std::size_t planes = s.columns * s.channels;
  if (planes == 0) return;
  launch_for(unpool_each_back, planes * cells(s.window.out), stream(), s.window, planes, image, dy, dvalues,
             accumulate);
}

void CudaImages::pool_regions(const RegionPooling& s, const float* image, const float* regions, float* y, float* work) {
  const std::size_t count = s.columns * s.regions * s.channels * s.out_width * s.out_height;
  if (count > 0) launch_for(pool_each_region, count, stream(), s, image, regions, y, work);
}

void CudaImages::pool_regions_gradient(const RegionPooling& s, const float* dy, const float* work, float* dimage,
                                       bool accumulate) {
  const std::size_t planes = s.columns * s.channels;
  if (planes == 0) return;
  if (!accumulate)
    check(cudaMemsetAsync(dimage, 0, planes * s.width * s.height * sizeof(float), stream()), "pooling regions");
  launch_for(pool_each_region_back, planes, stream(), s, dy, work, dimage);
}

}  // namespace tutti::cuda
