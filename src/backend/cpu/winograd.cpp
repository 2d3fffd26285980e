// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/winograd.h"

#include <algorithm>

#include "backend/cpu/parallel.h"
#include "base/instruction_set.h"

namespace tutti::cpu {
namespace {

// Panels of results at a time. Pixels of as many tiles as fit into these floats, transformed; more tiles than that if
// weights would be transformed too often. Tiles of the gradient of weights, whose group of 64 x 64 channels is in
// cache.
constexpr std::size_t panels_at_once = 2, pixel_floats = 300000, least_tiles = 72, gradient_tiles = 48,
                      group_blocks = 8, group_panels = 4;
// Prefetched is the next image if it is small, or else the next row of tiles.
constexpr std::size_t small_image = 32768;

constexpr std::size_t parts(std::size_t n, std::size_t each) { return (n + each - 1) / each; }
constexpr std::size_t up(std::size_t n, std::size_t unit) { return parts(n, unit) * unit; }
// Positions a cache line apart from a power of two, which would share the sets of the first-level cache.
constexpr std::size_t apart(std::size_t floats) { return floats + 16; }

template <class F>
void on_threads(OneDnn& dnnl, std::size_t workspace, std::size_t count, std::size_t unit, std::size_t work,
                const F& f) {
  dnnl.reserve(workspace * static_cast<std::size_t>(omp_get_max_threads()));
  float* const all = dnnl.scratch.data();
  parallel(count, unit, work, [&](std::size_t begin, std::size_t end) {
    f(begin, end, all + workspace * static_cast<std::size_t>(omp_get_thread_num()));
  });
}

}  // namespace

bool winograd_pays(const ConvolutionShape& s) {
  const ImageWindow& w = s.window;
  return s.winograd && w.rank == 2 && s.in == Format::blocked && s.out == Format::blocked && w.kernel[0] == 3 &&
         w.kernel[1] == 3 && w.stride[0] == 1 && w.stride[1] == 1 && s.in_channels / s.groups >= 32 &&
         s.out_channels / s.groups >= 32;
}

bool WinogradConvolution::pays(const ConvolutionShape& s) {
  const auto whole_blocks = [&](std::size_t channels) { return s.groups == 1 || channels / s.groups % block == 0; };
  return winograd_pays(s) && whole_blocks(s.in_channels) && whole_blocks(s.out_channels);
}

WinogradConvolution::WinogradConvolution(const ConvolutionShape& s, OneDnn& dnnl, const WinogradKernels& kernels)
    : shape_(s),
      dnnl_(dnnl),
      kernels_(kernels),
      x_{s.window.in[0], s.window.in[1], s.in_channels / s.groups, s.groups},
      y_{s.window.out[0], s.window.out[1], s.out_channels / s.groups, s.groups},
      pad_x_(static_cast<long>(s.window.pad[0])),
      pad_y_(static_cast<long>(s.window.pad[1])),
      weights_(x_.channels * y_.channels * 9),
      bias_(std::max(x_.panels(), y_.panels()) * columns) {}

void WinogradConvolution::forward(const float* x, const float* w, const float* bias, float* y, bool accumulate, bool) {
  const Pass p{x_, y_, pad_x_, pad_y_, {x_.channels * 9, 9, y_.channels, x_.channels, false}, shape_.relu, accumulate};
  for (std::size_t g = 0; g < shape_.groups; ++g) {
    if (shape_.bias) std::copy_n(bias + g * y_.channels, y_.channels, bias_.data());
    convolve(p, x + g * x_.group(), w + g * weights_, y + g * y_.group());
  }
}

void WinogradConvolution::backward_data(const float* dy, const float* w, float* dx, bool accumulate, bool) {
  const Pass p{y_, x_, 2 - pad_x_, 2 - pad_y_, {9, x_.channels * 9, x_.channels, y_.channels, true}, false, accumulate};
  if (shape_.bias) std::fill_n(bias_.data(), y_.channels, 0.0f);
  for (std::size_t g = 0; g < shape_.groups; ++g)
    convolve(p, dy + g * y_.group(), w + g * weights_, dx + g * x_.group());
}

WinogradKernels::Place WinogradConvolution::place(const Image& image, const Image& tiled, std::size_t tile, long pad_x,
                                                  long pad_y) {
  const std::size_t across = tiled.tiles_across(), in_image = tile % tiled.tiles();
  return {image.width,
          image.height,
          static_cast<long>(in_image % across * 4) - pad_x,
          static_cast<long>(in_image / across * 4) - pad_y,
          image.blocks(),
          image.floats() <= small_image ? image.floats() : 4 * image.width * block};
}

std::size_t WinogradConvolution::most_tiles(const Pass& p) {
  return up(std::max(least_tiles, pixel_floats / (positions * p.from.blocks() * block)), rows);
}

std::size_t WinogradConvolution::workspace(const Pass& p, std::size_t tiles) {
  const std::size_t depth = p.from.blocks() * block;
  return positions *
         (apart(depth * tiles) + panels_at_once * apart(depth * columns) + apart(panels_at_once * tiles * columns));
}

// Tiles are divided among the threads, or, if there are more of them, the results' channels.
void WinogradConvolution::convolve(const Pass& p, const float* x, const float* w, float* y) {
  const std::size_t tiles = shape_.columns * p.to.tiles(), panels = p.to.panels(),
                    work = p.from.channels * p.to.channels;
  const std::size_t space = workspace(p, std::min(most_tiles(p), up(tiles, rows)));
  if (tiles >= p.to.channels)
    on_threads(dnnl_, space, tiles, rows, work, [&](std::size_t begin, std::size_t end, float* own) {
      convolve_part(p, {begin, end - begin, 0, panels}, x, w, y, own);
    });
  else
    on_threads(dnnl_, space, panels, 1, work * tiles / panels, [&](std::size_t begin, std::size_t end, float* own) {
      convolve_part(p, {0, tiles, begin, end - begin}, x, w, y, own);
    });
}

void WinogradConvolution::convolve_part(const Pass& p, const Part& part, const float* x, const float* w, float* y,
                                        float* work) const {
  // Equal blocks, so that none has few tiles.
  const std::size_t blocks = parts(part.tiles, most_tiles(p)), each = up(parts(part.tiles, blocks), rows);
  for (std::size_t first = part.tile, end = part.tile + part.tiles; first < end; first += each) {
    const std::size_t tiles = std::min(each, end - first);
    for (std::size_t t = 0; t < tiles; ++t)
      kernels_.spread_pixels(
          place(p.from, p.to, first + t, p.pad_x, p.pad_y), x + (first + t) / p.to.tiles() * p.from.floats(),
          {apart(p.from.blocks() * tiles * block), tiles * block, 2 * tiles * block}, work + t * block);
    multiply(p, {first, tiles, part.panel, part.panels}, w, y, work);
  }
}

void WinogradConvolution::multiply(const Pass& p, const Part& part, const float* w, float* y, float* work) const {
  const std::size_t blocks = p.from.blocks(), tiles = part.tiles, v_step = apart(blocks * tiles * block),
                    u_step = apart(blocks * block * columns), m_step = apart(panels_at_once * tiles * columns);
  float* const u = work + positions * v_step;
  float* const m = u + positions * panels_at_once * u_step;
  for (std::size_t first = part.panel, end = part.panel + part.panels; first < end; first += panels_at_once) {
    const std::size_t panels = std::min(panels_at_once, end - first);
    for (std::size_t k = 0; k < panels; ++k) {
      WinogradKernels::Weights some = p.weights;
      some.columns -= (first + k) * columns;
      kernels_.spread_weights(some, w + (first + k) * columns * some.across, blocks * block, u_step,
                              u + k * positions * u_step);
    }
    for (std::size_t i = 0; i < positions; ++i)
      for (std::size_t k = 0; k < panels; ++k)
        kernels_.multiply(work + i * v_step, tiles * block, tiles, blocks, u + (k * positions + i) * u_step,
                          m + i * m_step + k * tiles * columns);
    for (std::size_t t = 0; t < tiles; ++t)
      for (std::size_t k = 0; k < panels; ++k) {
        const std::size_t at = 2 * (first + k), tile = part.tile + t;
        WinogradKernels::Place to = place(p.to, p.to, tile, 0, 0);
        to.blocks = std::min<std::size_t>(2, to.blocks - at);
        kernels_.gather_pixels(to, {m_step, bias_.data() + at * block, p.relu, p.add}, m + (k * tiles + t) * columns,
                               y + tile / p.to.tiles() * p.to.floats() + at * block * p.to.width * p.to.height);
      }
  }
}

// A group and its tiles stay in the second-level cache; smaller ones if there are more threads than groups.
WinogradConvolution::Group WinogradConvolution::group() const {
  Group g{std::min<std::size_t>(group_blocks, x_.blocks()), std::min<std::size_t>(group_panels, y_.panels())};
  const auto groups = [&] {
    return ((x_.blocks() + g.blocks - 1) / g.blocks) * ((y_.panels() + g.panels - 1) / g.panels);
  };
  while (groups() < static_cast<std::size_t>(omp_get_max_threads()) && g.blocks * g.panels > 1)
    if (g.panels > 1)
      g.panels /= 2;
    else
      g.blocks /= 2;
  return g;
}

void WinogradConvolution::backward_weights(const float* x, const float* dy, float* dw, bool accumulate) {
  const Group g = group();
  const std::size_t across = parts(y_.panels(), g.panels), down = parts(x_.blocks(), g.blocks), count = across * down;
  const std::size_t space =
      positions * (apart(g.blocks * block * gradient_tiles) + apart(g.panels * columns * gradient_tiles) +
                   apart(g.blocks * block * g.panels * columns));
  on_threads(dnnl_, space, count * shape_.groups, 1, shape_.columns * x_.floats(),
             [&](std::size_t begin, std::size_t end, float* own) {
               for (std::size_t i = begin; i < end; ++i)
                 weights_part(i / across % down * g.blocks, i % across * g.panels, g, x + i / count * x_.group(),
                              dy + i / count * y_.group(), dw + i / count * weights_, accumulate, own);
             });
}

void WinogradConvolution::weights_part(std::size_t first_block, std::size_t first_panel, const Group& group,
                                       const float* x, const float* dy, float* dw, bool add, float* work) const {
  const std::size_t blocks = std::min(group.blocks, x_.blocks() - first_block),
                    panels = std::min(group.panels, y_.panels() - first_panel),
                    out_blocks = std::min(2 * panels, y_.blocks() - 2 * first_panel);
  const std::size_t v_step = apart(blocks * block * gradient_tiles), w_step = apart(panels * columns * gradient_tiles),
                    u_step = apart(blocks * block * panels * columns);
  float* const v = work;
  float* const w = v + positions * v_step;
  float* const u = w + positions * w_step;
  const std::size_t all = shape_.columns * y_.tiles();
  for (std::size_t first = 0; first < all; first += gradient_tiles) {
    const std::size_t tiles = std::min(gradient_tiles, all - first);
    for (std::size_t t = 0; t < tiles; ++t) {
      const std::size_t image = (first + t) / y_.tiles();
      WinogradKernels::Place from = place(x_, y_, first + t, pad_x_, pad_y_), to = place(y_, y_, first + t, 0, 0);
      from.blocks = blocks, to.blocks = out_blocks;
      kernels_.spread_pixels(from, x + image * x_.floats() + first_block * block * x_.width * x_.height,
                             {v_step, tiles * block, 2 * tiles * block}, v + t * block);
      kernels_.spread_gradient(to, dy + image * y_.floats() + first_panel * columns * y_.width * y_.height,
                               {w_step, block, tiles * columns}, w + t * columns);
    }
    for (std::size_t i = 0; i < positions; ++i)
      for (std::size_t p = 0; p < panels; ++p)
        for (std::size_t k = 0; k < blocks; ++k)
          kernels_.multiply_gradient(v + i * v_step + k * tiles * block, w + i * w_step + p * tiles * columns, tiles,
                                     u + i * u_step + (p * blocks + k) * block * columns, first > 0);
  }
  for (std::size_t p = 0; p < panels; ++p) {
    const std::size_t row = first_block * block, column = (first_panel + p) * columns;
    kernels_.gather_weights(
        {x_.channels * 9, 9, y_.channels - column, std::min(blocks * block, x_.channels - row), false},
        u + p * blocks * block * columns, u_step, dw + column * x_.channels * 9 + row * 9, add);
  }
}

const WinogradKernels* own_winograd() { return widest_set() == InstructionSet::avx2 ? winograd_kernels() : nullptr; }

}  // namespace tutti::cpu
