// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/arrange.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "backend/cuda/divisor.h"
#include "backend/cuda/lanes.h"

namespace tutti::cuda {
namespace {

// One side of an arrangement: sizes, and how far apart channels and pixels lie.
struct Side {
  Axis size[3], channels;
  unsigned channel_step, pixel_step;
  unsigned pixels() const { return size[0].size * size[1].size * size[2].size; }
  Side(const ImageWindow::Sizes& s, std::size_t n, bool last)
      : size{Axis(s[0]), Axis(s[1]), Axis(s[2])},
        channels(n),
        channel_step(last ? 1 : pixels()),
        pixel_step(last ? channels.size : 1) {}
};
struct Pair {
  Side image, operand;
  unsigned pad[3], image_plane, operand_plane;  // floats of a column
  explicit Pair(const Arrangement& a)
      : image(a.image, a.channels, a.format == Format::blocked),
        operand(a.frame, a.stored, a.last),
        pad{static_cast<unsigned>(a.pad[0]), static_cast<unsigned>(a.pad[1]), static_cast<unsigned>(a.pad[2])},
        image_plane(image.pixels() * image.channels.size),
        operand_plane(operand.pixels() * operand.channels.size) {}
};

// Element `e` of a side, in the order of its memory: column, place, channel.
struct Element3 {
  unsigned at[3], channel, column;
  __device__ Element3(const Side& s, unsigned e) {
    const bool last = s.channel_step == 1 && s.channels.size > 1;
    if (last) channel = s.channels.split(e);
    at[0] = s.size[0].split(e), at[1] = s.size[1].split(e), at[2] = s.size[2].split(e);
    if (!last) channel = s.channels.split(e);
    column = e;
  }
};
__device__ inline unsigned offset_in(const Side& s, unsigned x, unsigned y, unsigned z, unsigned channel) {
  return ((z * s.size[1].size + y) * s.size[0].size + x) * s.pixel_step + channel * s.channel_step;
}

// V channels of a pixel of the image. Where they do not lie side by side, some may be missing.
template <unsigned V, bool SideBySide, class Image>
__device__ inline Lanes<V> channels_of(const Side& s, const Image* first, unsigned channel) {
  if constexpr (SideBySide) return load<V>(first);
  Lanes<V> v{};
  for (unsigned l = 0; l < V; ++l)
    if (channel + l < s.channels.size) v.at[l] = value_of(first[l * s.channel_step]);
  return v;
}

template <class Image, class T, unsigned V, bool SideBySide>
__global__ void arrange_each(Pair p, unsigned count, const Image* image, T* operand) {
  for (unsigned e = first_element32() * V; e < count; e += element_step32() * V) {
    const Element3 to(p.operand, e);
    // Before the image these differences wrap around and are too large, too.
    const unsigned x = to.at[0] - p.pad[0], y = to.at[1] - p.pad[1], z = to.at[2] - p.pad[2];
    const Side& from = p.image;
    const bool inside =
        x < from.size[0].size && y < from.size[1].size && z < from.size[2].size && to.channel < from.channels.size;
    Lanes<V> v{};
    if (inside)
      v = channels_of<V, SideBySide>(
          from, image + std::size_t{to.column} * p.image_plane + offset_in(from, x, y, z, to.channel), to.channel);
    store(operand + e, v);
  }
}

template <class Image, class T, unsigned V>
__global__ void spread_each(Pair p, unsigned count, const T* operand, Behind behind, Image* image) {
  for (unsigned e = first_element32() * V; e < count; e += element_step32() * V) {
    const Element3 to(p.image, e);
    const unsigned x = to.at[0] + p.pad[0], y = to.at[1] + p.pad[1], z = to.at[2] + p.pad[2];
    Lanes<V> v{};
    const Side& from = p.operand;
    if (x < from.size[0].size && y < from.size[1].size && z < from.size[2].size)
      v = load<V>(operand + std::size_t{to.column} * p.operand_plane + offset_in(from, x, y, z, to.channel));
    for (unsigned l = 0; l < V; ++l) {
      if (behind.bias) v.at[l] += behind.bias[to.channel + l];
      if (behind.relu && v.at[l] < 0.0f) v.at[l] = 0.0f;
    }
    put(image + e, v, behind.add);
  }
}

struct Weights {
  unsigned spatial, in, stored, count;
  bool last;
  explicit Weights(const WeightArrangement& a)
      : spatial(static_cast<unsigned>(a.spatial)),
        in(static_cast<unsigned>(a.in)),
        stored(static_cast<unsigned>(a.stored)),
        count(in_32_bits(a.count())),
        last(a.last) {}
  // Where element e of the operand stands among the weights; behind all of them where there is nothing.
  __device__ std::size_t source(unsigned e) const {
    const unsigned first = last ? stored : spatial, second = last ? spatial : stored;
    const unsigned i = e % first, j = e / first % second, out = e / (first * second);
    const unsigned channel = last ? i : j, place = last ? j : i;
    if (channel >= in) return ~std::size_t{0};
    return (std::size_t{out} * in + channel) * spatial + place;
  }
};

// The side with the operand is read and written in lines; weights are small and stay in the cache.
template <class T>
__global__ void arrange_weights(Weights w, const float* from, T* operand) {
  for (unsigned e = first_element32(); e < w.count; e += element_step32()) {
    const std::size_t source = w.source(e);
    round_to(operand[e], source == ~std::size_t{0} ? 0.0f : from[source]);
  }
}
template <class T>
__global__ void spread_weights(Weights w, const T* operand, float* to, bool add) {
  for (unsigned e = first_element32(); e < w.count; e += element_step32()) {
    const std::size_t target = w.source(e);
    if (target == ~std::size_t{0}) continue;
    const float v = value_of(operand[e]);
    to[target] = add ? to[target] + v : v;
  }
}

template <class T, unsigned V>
__global__ void add_bias_each(unsigned count, unsigned channels, unsigned pixels, bool last, const float* bias,
                              bool relu, T* y) {
  for (unsigned e = first_element32() * V; e < count; e += element_step32() * V) {
    Lanes<V> v = load<V>(y + e);
    const unsigned c = !bias ? 0 : last ? e % channels : e / pixels % channels;
    for (unsigned l = 0; l < V; ++l) {
      if (bias) v.at[l] += bias[last ? c + l : c];
      if (relu && v.at[l] < 0.0f) v.at[l] = 0.0f;
    }
    store(y + e, v);
  }
}

constexpr unsigned most_rows = 65535;  // of a grid

template <class T, unsigned V>
__global__ void round_each(std::size_t rows, std::size_t width, const float* x, std::size_t step, T* to,
                           std::size_t to_step) {
  for (std::size_t r = blockIdx.y; r < rows; r += gridDim.y)
    for (std::size_t i = first_element() * V; i < width; i += element_step() * V)
      store(to + r * to_step + i, load<V>(x + r * step + i));
}

// use(numbers of both types, lanes) with constants: several channels at a time where they lie side by side on both
// sides, 16 bytes of the wider type.
template <class Use>
void each_direction(const Arrangement& a, const void* image, const void* operand, const Use& use) {
  with_types(a.image_element, a.element, [&](auto of_image, auto of_operand) {
    using Wide = std::conditional_t<sizeof(of_image) < sizeof(of_operand), decltype(of_operand), decltype(of_image)>;
    if (a.last && a.format == Format::blocked && a.stored == a.channels &&
        in_whole_lanes<Wide>(a.channels, {image, operand}))
      use(of_image, of_operand, std::integral_constant<unsigned, whole_lanes<Wide>>{});
    else
      use(of_image, of_operand, std::integral_constant<unsigned, 1>{});
  });
}

}  // namespace

void arrange(const Arrangement& a, const float* image, void* operand, cudaStream_t stream) {
  const unsigned count = in_32_bits(a.count());
  if (count == 0) return;
  each_direction(a, image, operand, [&](auto of_image, auto of_operand, auto lanes) {
    using Image = decltype(of_image);
    using T = decltype(of_operand);
    // A plain image whose channels are to lie last: a thread makes 16 bytes of them, not a number.
    constexpr unsigned together = whole_lanes<T>;
    const bool gathers = a.last && a.format == Format::plain && in_whole_lanes<T>(a.stored, {operand});
    launch_for(gathers ? arrange_each<Image, T, together, false> : arrange_each<Image, T, lanes, (lanes > 1)>,
               count / (gathers ? together : lanes), stream, Pair(a), count, as<Image>(image),
               static_cast<T*>(operand));
  });
}

void spread(const Arrangement& a, const void* operand, const Behind& behind, float* image, cudaStream_t stream) {
  const unsigned count = in_32_bits(a.image_count());
  if (count == 0) return;
  each_direction(a, image, operand, [&](auto of_image, auto of_operand, auto lanes) {
    using Image = decltype(of_image);
    using T = decltype(of_operand);
    launch_for(spread_each<Image, T, lanes>, count / lanes, stream, Pair(a), count, static_cast<const T*>(operand),
               behind, as<Image>(image));
  });
}

void arrange(const WeightArrangement& a, const float* w, void* operand, cudaStream_t stream) {
  with_type(a.element, [&](auto element) {
    using T = decltype(element);
    launch_for(arrange_weights<T>, a.count(), stream, Weights(a), w, static_cast<T*>(operand));
  });
}

void spread(const WeightArrangement& a, const void* operand, bool add, float* w, cudaStream_t stream) {
  with_type(a.element, [&](auto element) {
    using T = decltype(element);
    launch_for(spread_weights<T>, a.count(), stream, Weights(a), static_cast<const T*>(operand), w, add);
  });
}

void round_rows(std::size_t rows, std::size_t width, const float* x, std::size_t step, Element element, void* to,
                std::size_t to_step, cudaStream_t stream) {
  // What lies without gaps is one row.
  if (step == width && to_step == width) width *= std::exchange(rows, 1);
  const bool fours = in_whole_lanes<float>(width, {x}) && (rows == 1 || (step % 4 == 0 && to_step % 4 == 0));
  with_type(element, [&](auto number) {
    using T = decltype(number);
    launch(fours ? round_each<T, 4> : round_each<T, 1>,
           dim3(blocks_for(fours ? width / 4 : width), static_cast<unsigned>(std::min<std::size_t>(rows, most_rows))),
           threads_per_block, stream, rows, width, x, step, static_cast<T*>(to), to_step);
  });
}

void add_bias(const ImageExtent& e, const float* bias, bool relu, float* y, cudaStream_t stream) {
  const unsigned count = in_32_bits(e.columns * e.channels * e.pixels);
  const bool last = e.format == Format::blocked;
  flat(e.element, last ? e.channels : e.pixels, {y}, [&](auto number, auto lanes) {
    using T = decltype(number);
    launch_for(add_bias_each<T, lanes>, count / lanes, stream, count, e.channels, e.pixels, last, bias, relu, as<T>(y));
  });
}

}  // namespace tutti::cuda
