// SPDX-License-Identifier: Apache-2.0
// onednn.h -- shared by the oneDNN primitives of this folder: engine, stream, errors, and the scratch memory of a
// running primitive (one buffer for all, because only one runs at a time).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <dnnl.hpp>
#include <vector>

#include "base/memory.h"
#include "tutti/error.h"
#include "tutti/image_ops.h"
#include "tutti/parameters.h"

namespace tutti::cpu {

struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  FloatBuffer scratch;

  void reserve(std::size_t floats) {
    if (scratch.size() < floats) scratch = FloatBuffer(floats);
  }
};

// Runs f; converts an exception of oneDNN into an Error with the current action.
template <class F>
auto with_errors(const char* doing, const F& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    throw Error(fmt::format("oneDNN failed while {}: {} (status {})", doing, e.what(), static_cast<int>(e.status)));
  }
}

// Floats of a tensor, rounded up to whole cache lines.
inline std::size_t floats_of(const dnnl::memory::desc& md) { return (md.get_size() + 63) / 64 * 16; }

// A primitive with its memory objects. Only data pointers change between calls; nothing is allocated.
class Prepared {
 public:
  Prepared() = default;
  Prepared(dnnl::primitive primitive, const dnnl::engine& engine,
           const std::vector<std::pair<int, dnnl::memory::desc>>& arguments)
      : primitive_(std::move(primitive)) {
    for (const auto& [index, md] : arguments) {
      memory_.emplace_back(md, engine, nullptr);
      arguments_.push_back({index, memory_.back().get()});
    }
  }
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  Prepared& set(int index, const float* data) {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (arguments_[i].arg == index) memory_[i].set_data_handle(const_cast<float*>(data));
    return *this;
  }
  void run(dnnl::stream& stream) {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data()),
        "executing a primitive");
    stream.wait();
  }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memory_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

inline dnnl::memory::dim dimension(std::size_t n) { return static_cast<dnnl::memory::dim>(n); }
// Slowest axis first, as in oneDNN.
inline dnnl::memory::dims spatial(const ImageWindow& w, const ImageWindow::Sizes& sizes) {
  dnnl::memory::dims dims;
  for (std::size_t axis = w.rank; axis-- > 0;) dims.push_back(dimension(sizes[axis]));
  return dims;
}
inline dnnl::memory::dims padding_behind(const ImageWindow& w) {
  dnnl::memory::dims dims;
  for (std::size_t axis = w.rank; axis-- > 0;) {
    const auto covered = static_cast<long>((w.out[axis] - 1) * w.stride[axis] + w.kernel[axis]);
    dims.push_back(std::max(0L, covered - static_cast<long>(w.in[axis] + w.pad[axis])));
  }
  return dims;
}
dnnl::memory::desc image_memory(std::size_t columns, std::size_t channels, const ImageWindow& w,
                                const ImageWindow::Sizes& sizes, Format format, std::size_t block,
                                dnnl::memory::data_type type = dnnl::memory::data_type::f32);

}  // namespace tutti::cpu
