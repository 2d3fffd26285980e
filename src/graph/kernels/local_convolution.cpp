// SPDX-License-Identifier: Apache-2.0
// Convolution with weights of its own for each position of the window (sharing = false), along all axes or some, and
// its transpose. Windows are copied out as rows of a matrix, so that all is copies and products of the backend: one
// product for each kernel, over the samples and over the positions that share it. Weights lie as [kernel..., channels,
// positions without sharing..., maps], first index fastest.
#include <algorithm>

#include "graph/image_geometry.h"
#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

using Sizes = ImageWindow::Sizes;

class LocalConvolution : public Kernel {
 public:
  explicit LocalConvolution(Instruction i) : Kernel(std::move(i)) {
    const ImageGeometry g = convolution_geometry(code.node, code.in[1].shape, code.in[0].shape);
    transposed_ = g.transposed;
    window_ = g.window;
    own_ = g.own;
    channels_ = transposed_ ? g.maps : g.channels;
    maps_ = transposed_ ? g.channels : g.maps;
    cells_ = ImageWindow::product(window_.kernel) * channels_;
    kernels_ = g.kernels();
    shared_ = ImageWindow::product(window_.out) / kernels_;
    for (std::size_t a = 0; a < Sizes().size(); ++a) {
      const std::size_t covered = (window_.out[a] - 1) * window_.stride[a] + window_.kernel[a];
      padded_[a] = std::max(covered, window_.pad[a] + window_.in[a]);
      pads_ = pads_ || padded_[a] != window_.in[a];
    }
    const std::size_t positions = ImageWindow::product(window_.out);
    work_per_column = positions * (cells_ + maps_) + (pads_ ? ImageWindow::product(padded_) * channels_ : 0);
    work_fixed = 3 * alignment;
    reads_input[1] = transposed_;  // otherwise its windows stay in the workspace
    reads_output = false;
  }

  void forward(Run& run) const override {
    if (run.rows(code.out) == 0) return;
    if (transposed_) {
      products_from_small(run, in(run, 1));
      windows_from_products(run);
      image_from_windows(run, out(run), false);
    } else {
      windows_from_image(run, in(run, 1));
      products_from_windows(run);
      small_from_products(run, out(run), false);
    }
  }

  void backward(Run& run) const override {
    const float* dy = out_gradient(run);
    if (transposed_)
      windows_from_image(run, dy);
    else
      products_from_small(run, dy);
    if (write[0] != Write::none) {
      if (transposed_) products_from_small(run, in(run, 1));
      weight_gradient(run, in_gradient(run, 0), adds(run, 0));
    }
    if (write[1] == Write::none) return;
    if (transposed_) {
      products_from_windows(run);
      small_from_products(run, in_gradient(run, 1), adds(run, 1));
    } else {
      windows_from_products(run);
      image_from_windows(run, in_gradient(run, 1), adds(run, 1));
    }
  }

 private:
  static constexpr std::size_t alignment = 16;  // floats
  static std::size_t aligned(std::size_t n) { return (n + alignment - 1) / alignment * alignment; }
  std::size_t rows(const Run& run) const { return run.rows(code.out) * shared_; }  // of a product
  // Matrices [kernel][column, shared position][cell] and [kernel][column, shared position][map], and the image with its
  // padding.
  float* windows(const Run& run) const { return run.work[code.out.tensor]; }
  float* products(const Run& run) const { return windows(run) + aligned(kernels_ * rows(run) * cells_); }
  float* padded(const Run& run) const { return products(run) + aligned(kernels_ * rows(run) * maps_); }

  // Adds an axis; slot 0 is read, slot 3 written.
  static void add_axis(Layout& l, std::size_t size, std::size_t from, std::size_t to) {
    l.size[l.rank] = size, l.stride[0][l.rank] = from, l.stride[3][l.rank] = to;
    ++l.rank;
  }
  static Layout turned(Layout l) {
    std::swap(l.stride[0], l.stride[3]);
    return l;
  }
  // Positions and columns of a matrix whose rows have `width` elements, against those of an image with these steps.
  void add_rows(const Run& run, Layout& l, std::size_t width, const Sizes& step, std::size_t image) const {
    std::size_t own = rows(run) * width, common = width;
    for (std::size_t a = 0; a < window_.rank; ++a) {
      std::size_t& place = own_[a] ? own : common;
      add_axis(l, window_.out[a], step[a], place);
      place *= window_.out[a];
    }
    add_axis(l, run.rows(code.out), image, shared_ * width);
  }

  // The small image: one value for each window and map.
  Layout small_layout(const Run& run) const {
    Layout l;
    const std::size_t positions = ImageWindow::product(window_.out);
    add_axis(l, maps_, positions, 1);
    add_rows(run, l, maps_, {1, window_.out[0], window_.out[0] * window_.out[1]}, positions * maps_);
    return l;
  }
  void products_from_small(Run& run, const float* image) const {
    run.backend.copy(small_layout(run), image, products(run), false);
  }
  void small_from_products(Run& run, float* image, bool accumulate) const {
    run.backend.copy(turned(small_layout(run)), products(run), image, accumulate);
  }

  // The large image, with its padding where there is any.
  Sizes image_steps() const {
    const Sizes& size = pads_ ? padded_ : window_.in;
    return {1, size[0], size[0] * size[1]};
  }
  std::size_t image_plane() const { return ImageWindow::product(pads_ ? padded_ : window_.in); }
  Layout padding_layout(const Run& run) const {  // from the image to where it lies in the padded one
    Layout l;
    const Sizes to = image_steps();
    std::size_t from = 1;
    for (std::size_t a = 0; a < window_.rank; ++a) add_axis(l, window_.in[a], from, to[a]), from *= window_.in[a];
    add_axis(l, channels_, from, image_plane());
    add_axis(l, run.rows(code.out), from * channels_, image_plane() * channels_);
    return l;
  }
  std::size_t padding_offset() const {
    const Sizes step = image_steps();
    return window_.pad[0] + window_.pad[1] * step[1] + window_.pad[2] * step[2];
  }
  Layout window_layout(const Run& run, bool with_cells) const {
    Layout l;
    Sizes step = image_steps();
    std::size_t cell = 1;
    for (std::size_t a = 0; a < window_.rank; ++a) {
      if (with_cells) add_axis(l, window_.kernel[a], step[a], cell);
      cell *= window_.kernel[a];
    }
    add_axis(l, channels_, image_plane(), cell);
    for (std::size_t a = 0; a < step.size(); ++a) step[a] *= window_.stride[a];
    add_rows(run, l, cells_, step, image_plane() * channels_);
    return l;
  }
  void windows_from_image(Run& run, const float* image) const {
    if (pads_) {
      run.backend.fill(0, padded(run), run.rows(code.out) * image_plane() * channels_);
      run.backend.copy(padding_layout(run), image, padded(run) + padding_offset(), false);
      image = padded(run);
    }
    run.backend.copy(window_layout(run, true), image, windows(run), false);
  }
  // Windows overlap, so their cells are added one kind after the other.
  void image_from_windows(Run& run, float* image, bool accumulate) const {
    float* sum = pads_ ? padded(run) : image;
    if (pads_ || !accumulate) run.backend.fill(0, sum, run.rows(code.out) * image_plane() * channels_);
    const Layout l = turned(window_layout(run, false));
    const Sizes step = image_steps(), &kernel = window_.kernel;
    for (std::size_t k = 0; k < ImageWindow::product(kernel); ++k) {
      const std::size_t x = k % kernel[0], y = k / kernel[0] % kernel[1], z = k / kernel[0] / kernel[1];
      run.backend.copy(l, windows(run) + k, sum + x + y * step[1] + z * step[2], true);
    }
    if (pads_) run.backend.copy(turned(padding_layout(run)), sum + padding_offset(), image, accumulate);
  }

  // The products, kernel by kernel. A weight's row (a map) goes through all kernels.
  template <class Product>
  void for_each_kernel(Run& run, const Product& product) const {
    for (std::size_t u = 0; u < kernels_; ++u)
      product(windows(run) + u * rows(run) * cells_, products(run) + u * rows(run) * maps_, u * cells_);
  }
  void products_from_windows(Run& run) const {
    Gemm g{.transpose_b = true, .m = rows(run), .n = maps_, .k = cells_};
    g.lda = cells_, g.ldb = cells_ * kernels_, g.ldc = maps_;
    for_each_kernel(run, [&](const float* window, float* result, std::size_t w) {
      run.backend.gemm(g, window, in(run, 0) + w, result);
    });
  }
  void windows_from_products(Run& run) const {
    const Gemm g{.m = rows(run), .n = cells_, .k = maps_, .lda = maps_, .ldb = cells_ * kernels_, .ldc = cells_};
    for_each_kernel(run, [&](float* window, const float* result, std::size_t w) {
      run.backend.gemm(g, result, in(run, 0) + w, window);
    });
  }
  void weight_gradient(Run& run, float* dw, bool accumulate) const {
    Gemm g{.transpose_a = true, .m = maps_, .n = cells_, .k = rows(run)};
    g.lda = maps_, g.ldb = cells_, g.ldc = cells_ * kernels_, g.accumulate = accumulate;
    for_each_kernel(run, [&](const float* window, const float* result, std::size_t w) {
      run.backend.gemm(g, result, window, dw + w);
    });
  }

  bool transposed_ = false, pads_ = false;
  ImageWindow window_;
  std::array<bool, ImageWindow::max_rank> own_{};
  std::size_t channels_ = 1, maps_ = 1;   // of the large image and of the small one
  std::size_t cells_ = 1;                 // of a window, over all channels
  std::size_t kernels_ = 1, shared_ = 1;  // positions: with weights of their own, and those that share one
  Sizes padded_{1, 1, 1};
};

}  // namespace

void list_local_convolution(Makers& makers) { makers.insert({"LocalConvolution", make<LocalConvolution>}); }

}  // namespace tutti::graph
