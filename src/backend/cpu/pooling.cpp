// SPDX-License-Identifier: Apache-2.0
// Max pooling of blocked images by our own loops, all other pooling by oneDNN; and oneDNN's description of images.
#include <algorithm>

#include "backend/cpu/images.h"
#include "backend/cpu/onednn_versions.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// oneDNN's primitive takes ten times as long with AVX2 (docs/notes/avx2.md).
class BlockedMaxPooling : public PoolingPlan {
 public:
  BlockedMaxPooling(const PoolingShape& s, const ImageKernels& kernels)
      : kernels_(kernels),
        window_(s.window),
        planes_(s.columns * ((s.channels + kernels.block - 1) / kernels.block)),
        in_(ImageWindow::product(s.window.in) * kernels.block),
        out_(ImageWindow::product(s.window.out) * kernels.block) {}
  static bool fits(const PoolingShape& s) {
    return s.op == PoolingOp::max && s.format == Format::blocked && ImageWindow::product(s.window.kernel) < 255;
  }

  void forward(const float* x, float* y, float* work) override {
    auto* winner = reinterpret_cast<std::uint8_t*>(work);
    parallel(planes_, 1, in_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t p = begin; p < end; ++p)
        kernels_.max_pool(window_, x + p * in_, y + p * out_, winner + p * out_);
    });
  }
  void backward(const float* dy, const float* work, float* dx, bool accumulate) override {
    const auto* winner = reinterpret_cast<const std::uint8_t*>(work);
    parallel(planes_, 1, in_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t p = begin; p < end; ++p) {
        float* plane = dx + p * in_;
        if (!accumulate) std::fill_n(plane, in_, 0.0f);
        kernels_.max_pool_gradient(window_, dy + p * out_, winner + p * out_, plane);
      }
    });
  }

 private:
  const ImageKernels& kernels_;
  const ImageWindow window_;
  const std::size_t planes_, in_, out_;  // a plane: one block of channels of one image
};

class CpuPooling : public PoolingPlan {
 public:
  CpuPooling(const PoolingShape& s, OneDnn& dnnl, const Kernels& kernels, std::size_t block)
      : dnnl_(dnnl), kernels_(kernels), max_(s.op == PoolingOp::max) {
    const ImageWindow& w = s.window;
    const auto x = image_memory(s.columns, s.channels, w, w.in, s.format, block);
    const auto y = image_memory(s.columns, s.channels, w, w.out, s.format, block);
    const auto algorithm = max_                ? dnnl::algorithm::pooling_max
                           : s.include_padding ? dnnl::algorithm::pooling_avg_include_padding
                                               : dnnl::algorithm::pooling_avg_exclude_padding;
    const auto strides = spatial(w, w.stride), kernel = spatial(w, w.kernel), before = spatial(w, w.pad),
               behind = padding_behind(w);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::memory::dims dense(w.rank, 0);  // no dilation
    const auto forward = plan<PoolingForward>(dnnl.engine, attributes, dnnl::prop_kind::forward_training, algorithm, x,
                                              y, strides, kernel, dense, before, behind);
    const auto backward = plan_gradient<PoolingBackward>(dnnl.engine, attributes, forward, algorithm, x, y, strides,
                                                         kernel, dense, before, behind);
    std::vector<std::pair<int, dnnl::memory::desc>> there = {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}},
                                                    back = {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_SRC, x}};
    if (max_) {
      there.emplace_back(DNNL_ARG_WORKSPACE, forward.workspace_desc());
      back.emplace_back(DNNL_ARG_WORKSPACE, forward.workspace_desc());
    }
    there.emplace_back(DNNL_ARG_SCRATCHPAD, forward.scratchpad_desc());
    back.emplace_back(DNNL_ARG_SCRATCHPAD, backward.scratchpad_desc());
    image_ = x.get_size() / sizeof(float);
    scratchpad_ = std::max(floats_of(forward.scratchpad_desc()), floats_of(backward.scratchpad_desc()));
    dnnl.reserve(scratchpad_);
    forward_ = Prepared(PoolingForward(forward), dnnl.engine, there);
    backward_ = Prepared(PoolingBackward(backward), dnnl.engine, back);
  }

  void forward(const float* x, float* y, float* work) override {
    forward_.set(DNNL_ARG_SRC, x).set(DNNL_ARG_DST, y).set(DNNL_ARG_SCRATCHPAD, dnnl_.scratch.data());
    if (max_) forward_.set(DNNL_ARG_WORKSPACE, work);
    with_errors("pooling", [&] { forward_.run(dnnl_.stream); });
  }
  void backward(const float* dy, const float* work, float* dx, bool accumulate) override {
    // A sum goes through the memory behind the scratchpad.
    if (accumulate) dnnl_.reserve(scratchpad_ + image_);
    float* own = dnnl_.scratch.data() + scratchpad_;
    backward_.set(DNNL_ARG_DIFF_DST, dy).set(DNNL_ARG_DIFF_SRC, accumulate ? own : dx);
    backward_.set(DNNL_ARG_SCRATCHPAD, dnnl_.scratch.data());
    if (max_) backward_.set(DNNL_ARG_WORKSPACE, work);
    with_errors("computing the gradient of pooling", [&] { backward_.run(dnnl_.stream); });
    if (accumulate) kernels_.add(own, dx, image_);
  }

 private:
  OneDnn& dnnl_;
  const Kernels& kernels_;
  bool max_;
  Prepared forward_, backward_;
  std::size_t image_ = 0, scratchpad_ = 0;
};

}  // namespace

dnnl::memory::desc image_memory(std::size_t columns, std::size_t channels, const ImageWindow& w,
                                const ImageWindow::Sizes& sizes, Format format, std::size_t block,
                                dnnl::memory::data_type type) {
  using tag = dnnl::memory::format_tag;
  static constexpr tag plain[] = {tag::ncw, tag::nchw, tag::ncdhw};
  static constexpr tag by_8[] = {tag::nCw8c, tag::nChw8c, tag::nCdhw8c};
  static constexpr tag by_16[] = {tag::nCw16c, tag::nChw16c, tag::nCdhw16c};
  auto dims = spatial(w, sizes);
  dims.insert(dims.begin(), {dimension(columns), dimension(channels)});
  const tag* tags = format == Format::plain ? plain : block == 8 ? by_8 : by_16;
  return dnnl::memory::desc(dims, type, tags[w.rank - 1]);
}

std::unique_ptr<PoolingPlan> CpuImages::plan_pooling(const PoolingShape& shape) {
  if (BlockedMaxPooling::fits(shape)) return std::make_unique<BlockedMaxPooling>(shape, images_);
  return with_errors("planning a pooling",
                     [&] { return std::make_unique<CpuPooling>(shape, dnnl_, kernels_, channel_block()); });
}

}  // namespace tutti::cpu
