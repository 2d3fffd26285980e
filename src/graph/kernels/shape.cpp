// SPDX-License-Identifier: Apache-2.0
// Operations that only move values: slices, stacks, transposed axes. Their gradients move values back.
#include <algorithm>
#include <cstddef>

#include "graph/kernels/makers.h"
#include "graph/shapes.h"

namespace tutti::graph {
namespace {

// A block of a larger tensor: strides of the whole, sizes of the block, sample axis last.
struct Window {
  Layout layout;           // operand 0 and result have the strides that were asked for
  std::size_t offset = 0;  // of the block in the whole
};

void fill_strides(Layout& l, std::size_t slot, const Shape& shape, std::size_t rank, std::size_t sample) {
  std::size_t step = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    l.stride[slot][axis] = step;
    step *= shape[axis];
  }
  l.stride[slot][rank] = sample;
}

// Copies between `part` and the block of `whole` that starts at `first` along `axis`. On other axes, a part with one
// element is repeated.
Window window(const Run& run, const Operand& whole, const Operand& part, std::size_t axis, std::size_t first,
              bool into_whole) {
  Window w;
  const std::size_t rank = std::max({whole.shape.rank(), part.shape.rank(), axis + 1});
  w.layout.rank = rank + 1;
  for (std::size_t k = 0; k < rank; ++k) w.layout.size[k] = (k == axis ? part : whole).shape[k];
  w.layout.size[rank] = std::max(run.rows(whole), run.rows(part));
  const std::size_t whole_sample = whole.per_sample ? whole.elements : 0,
                    part_sample = part.per_sample ? part.elements : 0;
  fill_strides(w.layout, into_whole ? 3 : 0, whole.shape, rank, whole_sample);
  fill_strides(w.layout, into_whole ? 0 : 3, part.shape, rank, part_sample);
  for (std::size_t k = 0; k < rank; ++k)
    if (part.shape[k] != w.layout.size[k]) w.layout.stride[into_whole ? 0 : 3][k] = 0;
  w.offset = first * w.layout.stride[into_whole ? 3 : 0][axis];
  w.layout.element = whole.element;
  return w;
}

float* block_of(const Window& w, float* whole) {
  return const_cast<float*>(advanced(whole, w.layout.element, w.offset));
}

class Slice : public Kernel {
 public:
  explicit Slice(Instruction i) : Kernel(std::move(i)) {
    const Shape& shape = code.in[0].shape;
    axis_ = axis_index(code.node, "axis", 1, shape.rank());
    first_ = slice_range(code.node, shape[axis_]).first;
    reads_no_values();
  }
  void forward(Run& run) const override {
    const Window w = window(run, code.in[0], code.out, axis_, first_, false);
    run.backend.copy(w.layout, in(run, 0) + w.offset, out(run), false);
  }
  void backward(Run& run) const override {
    if (!adds(run, 0)) run.backend.fill(0, in_gradient(run, 0), run.count(code.in[0]));
    const Window w = window(run, code.in[0], code.out, axis_, first_, true);
    run.backend.copy(w.layout, out_gradient(run), in_gradient(run, 0) + w.offset, true);
  }

 private:
  std::size_t axis_ = 0, first_ = 0;
};

class RowStack : public Kernel {
 public:
  explicit RowStack(Instruction i) : Kernel(std::move(i)) {
    const double axis = number(code.node, "axis", 1);
    axis_ = axis > 0 ? static_cast<std::size_t>(axis) - 1 : axis_index(code.node, "axis", 1, code.out.shape.rank());
    reads_no_values();
  }
  void forward(Run& run) const override {
    std::size_t first = 0;
    for (std::size_t k = 0; k < code.in.size(); first += code.in[k++].shape[axis_]) {
      const Window w = window(run, code.out, code.in[k], axis_, first, true);
      run.backend.copy(w.layout, in(run, k), block_of(w, out(run)), false);
    }
  }
  void backward(Run& run) const override {
    std::size_t first = 0;
    for (std::size_t k = 0; k < code.in.size(); first += code.in[k++].shape[axis_]) {
      if (write[k] == Write::none) continue;
      const bool broadcast = is_broadcast(code.in[k]);
      if (broadcast && !adds(run, k)) run.backend.fill(0, in_gradient(run, k), run.count(code.in[k]));
      const Window w = window(run, code.out, code.in[k], axis_, first, false);
      run.backend.copy(w.layout, block_of(w, out_gradient(run)), in_gradient(run, k), broadcast || adds(run, k));
    }
  }

 private:
  // A part without samples in a stack with samples, or with axes of one element: its gradient is a sum.
  bool is_broadcast(const Operand& part) const {
    if (code.out.per_sample && !part.per_sample) return true;
    for (std::size_t k = 0; k < code.out.shape.rank(); ++k)
      if (k != axis_ && part.shape[k] != code.out.shape[k]) return true;
    return false;
  }
  std::size_t axis_ = 0;
};

class Transpose : public Kernel {
 public:
  explicit Transpose(Instruction i) : Kernel(std::move(i)) {
    const std::size_t rank = code.out.shape.rank();
    axes_[0] = axis_index(code.node, "axis1", 1, rank);
    axes_[1] = axis_index(code.node, "axis2", 2, rank);
    reads_no_values();
  }
  void forward(Run& run) const override {
    run.backend.copy(layout(run, code.in[0], code.out), in(run, 0), out(run), false);
  }
  void backward(Run& run) const override {
    run.backend.copy(layout(run, code.out, code.in[0]), out_gradient(run), in_gradient(run, 0), adds(run, 0));
  }

 private:
  Layout layout(const Run& run, const Operand& from, const Operand& to) const {
    Layout l;
    const std::size_t rank = code.out.shape.rank();
    l.rank = rank + 1;
    fill_strides(l, 0, from.shape, rank, from.per_sample ? from.elements : 0);
    fill_strides(l, 3, to.shape, rank, to.per_sample ? to.elements : 0);
    std::swap(l.stride[0][axes_[0]], l.stride[0][axes_[1]]);
    for (std::size_t k = 0; k < rank; ++k) l.size[k] = to.shape[k];
    l.size[rank] = run.rows(to);
    return l;
  }
  std::size_t axes_[2] = {0, 1};
};

}  // namespace

void list_shape(Makers& makers) {
  makers.insert({{"Slice", make<Slice>}, {"RowStack", make<RowStack>}, {"TransposeDimensions", make<Transpose>}});
}

}  // namespace tutti::graph
