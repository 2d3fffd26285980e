// SPDX-License-Identifier: Apache-2.0
// Matrix products. A weight [out x in] lies column after column, which is row-major [in][out]: Y = X W needs no
// transpose.
#include <algorithm>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

// Sizes of Y[rows][out] = X[rows][inner] W[inner][out].
struct Sizes {
  std::size_t rows, inner, out;
};

// The left operand has no sample axis: one product over all samples. After fusion there is a bias (input 2), whose
// gradient belongs to the instruction behind.
class Times : public Kernel {
 public:
  Times(bool transposed, std::size_t inner, Instruction i)
      : Kernel(std::move(i)), transposed_(transposed), inner_(inner), out_(code.in[0].elements / inner) {
    reads_output = false;
    last_input_first = true;
    announces = true;
    if (!fused()) return;
    differentiable[2] = reads_input[2] = false;
    if (flag(code.node, "keepsMask", false)) work_per_column = Backend::mask_floats(out_);
  }

  void forward(Run& run) const override {
    const Sizes s = sizes(run);
    Gemm g{.transpose_b = transposed_, .m = s.rows, .n = s.out, .k = s.inner, .lda = s.inner, .ldb = 0, .ldc = s.out};
    g.ldb = transposed_ ? s.inner : s.out;
    g.b_version = run.version(code.in[0]);
    g.a_element = code.in[1].element, g.c_element = code.out.element;
    if (!fused()) return run.backend.gemm(g, in(run, 1), in(run, 0), out(run));
    run.backend.gemm_bias(g, activation(code.node), in(run, 1), in(run, 0), in(run, 2), out(run), mask(run));
  }

  void connect(std::span<const std::unique_ptr<Kernel>> kernels) override {
    if (!flag(code.node, "masksGradient", false)) return;
    const auto maker = [&](std::size_t tensor) {
      return std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k->code.out.tensor == tensor; })
          ->get();
    };
    relu_ = maker(code.in[1].tensor);
    relu_product_ = static_cast<const Times*>(maker(relu_->code.in[0].tensor));
  }

  // The gradient of the data comes first: once a chunk of the weight's gradient is announced, the weight may change.
  void backward(Run& run) const override {
    if (write[1] != Write::none) data_gradient(run);
    if (write[0] != Write::none) weight_gradient(run);
  }

 private:
  bool fused() const { return code.in.size() > 2; }
  // Without a gradient of its own nothing keeps this memory until then.
  float* mask(const Run& run) const {
    const bool keeps = work_per_column > 0 && (write[0] != Write::none || write[1] != Write::none);
    return keeps ? run.work[code.out.tensor] : nullptr;
  }
  Sizes sizes(const Run& run) const { return {run.count(code.in[1]) / inner_, inner_, out_}; }

  void data_gradient(Run& run) const {
    const Sizes s = sizes(run);
    Gemm g{.transpose_b = !transposed_, .m = s.rows, .n = s.inner, .k = s.out, .lda = s.out, .ldb = 0, .ldc = s.inner};
    g.ldb = transposed_ ? s.inner : s.out;
    g.accumulate = adds(run, 1);
    g.b_version = run.version(code.in[0]);
    g.a_element = code.out.element, g.c_element = code.in[1].element, g.same_b = true;
    if (!relu_) return run.backend.gemm(g, out_gradient(run), in(run, 0), in_gradient(run, 1));
    // The gradient of the bias in front of the ReLU as well, where nothing stands there.
    const bool sums = relu_->write[1] != Write::none && !relu_->adds(run, 1);
    run.backend.gemm_relu_gradient(g, out_gradient(run), in(run, 0), in(run, 1), relu_product_->mask(run),
                                   in_gradient(run, 1), sums ? run.gradient(relu_->code.in[1]) : nullptr);
  }

  // dW = X' dY, or dW = dY' X when stored the other way. On the host by runs of whole rows of the stored matrix, so
  // that each run is still in the cache when its user gets it; a device wants one large product.
  void weight_gradient(Run& run) const {
    const Sizes s = sizes(run);
    const float* left = transposed_ ? out_gradient(run) : in(run, 1);
    const float* right = transposed_ ? in(run, 1) : out_gradient(run);
    const std::size_t left_width = transposed_ ? s.out : s.inner, right_width = transposed_ ? s.inner : s.out;
    Gemm g{.transpose_a = true,
           .m = left_width,
           .n = right_width,
           .k = s.rows,
           .lda = left_width,
           .ldb = right_width,
           .ldc = right_width};
    g.accumulate = adds(run, 0);
    g.a_element = transposed_ ? code.out.element : code.in[1].element;
    g.b_element = transposed_ ? code.in[1].element : code.out.element;
    const auto& chunks = run.chunks[code.in[0].tensor];
    const bool announced = finishes && run.last_part && run.sink && !chunks.empty();
    if (chunks.empty() || !run.backend.is_host()) {
      run.backend.gemm(g, left, right, in_gradient(run, 0));
      if (!announced) return;
      together_.clear();
      for (const ChunkRange& p : chunks) together_.push_back(p.index);
      return run.sink->chunks_ready(together_);
    }
    if (chunks.size() > 1) g.b_version = run.backend.new_version();
    for (const ChunkRange& p : chunks) {
      g.m = p.count / right_width;
      run.backend.gemm(g, advanced(left, g.a_element, p.first / right_width), right, in_gradient(run, 0) + p.first);
      if (announced) run.sink->chunk_ready(p.index);
    }
  }

  bool transposed_;
  const Kernel* relu_ = nullptr;         // behind which the data come from, where this masks their gradient
  const Times* relu_product_ = nullptr;  // in front of it
  std::size_t inner_, out_;
  mutable std::vector<std::size_t> together_;  // chunks that are announced at once
};

// The right operand is a sparse input: only the lines of the weight that occur are touched.
class SparseTimes : public Kernel {
 public:
  SparseTimes(bool transposed, Instruction i) : Kernel(std::move(i)) {
    weight_.out = code.out.elements;
    weight_.index_stride = transposed ? 1 : weight_.out;
    weight_.out_stride = transposed ? code.in[1].elements : 1;
    reads_no_values();
    differentiable[1] = false;
    replayable = false;  // the list of columns is uploaded
  }
  void forward(Run& run) const override {
    run.backend.sparse_times(run.sparse[code.in[1].tensor], weight_, in(run, 0), out(run));
  }
  void backward(Run& run) const override {
    float* dw = in_gradient(run, 0);
    if (!adds(run, 0)) run.backend.fill(0, dw, code.in[0].elements);
    run.backend.sparse_times_gradient(run.sparse[code.in[1].tensor], weight_, out_gradient(run), dw);
  }

 private:
  SparseWeight weight_;
};

// The left operand has a value per sample: a small product for each.
class SampleTimes : public Kernel {
 public:
  SampleTimes(bool transposed, std::size_t inner, Instruction i)
      : Kernel(std::move(i)), transposed_(transposed), inner_(inner), out_(code.in[0].elements / inner) {
    reads_output = false;
  }
  void forward(Run& run) const override {
    for (std::size_t c = 0; c < run.rows(code.out); ++c) {
      Gemm g{.transpose_b = transposed_, .m = rows(), .n = out_, .k = inner_, .lda = inner_, .ldb = 0, .ldc = out_};
      g.ldb = transposed_ ? inner_ : out_;
      run.backend.gemm(g, in(run, 1) + at(1, c), in(run, 0) + at(0, c), out(run) + c * code.out.elements);
    }
  }
  void backward(Run& run) const override {
    for (std::size_t c = 0; c < run.rows(code.out); ++c) {
      if (write[0] != Write::none) left_gradient(run, c);
      if (write[1] != Write::none) right_gradient(run, c);
    }
  }

 private:
  std::size_t rows() const { return code.in[1].elements / inner_; }
  std::size_t at(std::size_t k, std::size_t column) const {
    return code.in[k].per_sample ? column * code.in[k].elements : 0;
  }
  bool sums(const Run& run, std::size_t k, std::size_t column) const {
    return adds(run, k) || (column > 0 && !code.in[k].per_sample);
  }
  void left_gradient(Run& run, std::size_t c) const {
    const float* dy = out_gradient(run) + c * code.out.elements;
    const float* x = in(run, 1) + at(1, c);
    Gemm g{.transpose_a = true, .m = inner_, .n = out_, .k = rows(), .lda = inner_, .ldb = out_, .ldc = out_};
    if (transposed_) g.m = g.lda = out_, g.n = g.ldb = g.ldc = inner_;
    g.accumulate = sums(run, 0, c);
    run.backend.gemm(g, transposed_ ? dy : x, transposed_ ? x : dy, in_gradient(run, 0) + at(0, c));
  }
  void right_gradient(Run& run, std::size_t c) const {
    Gemm g{.transpose_b = !transposed_, .m = rows(), .n = inner_, .k = out_, .lda = out_, .ldb = 0, .ldc = inner_};
    g.ldb = transposed_ ? inner_ : out_;
    g.accumulate = sums(run, 1, c);
    run.backend.gemm(g, out_gradient(run) + c * code.out.elements, in(run, 0) + at(0, c),
                     in_gradient(run, 1) + at(1, c));
  }
  bool transposed_;
  std::size_t inner_, out_;
};

// How many elements the product sums over: the first axis for TransposeTimes, those behind the output axes for Times.
std::size_t inner_size(bool transposed, const Instruction& i) {
  const Shape& weight = i.in[0].shape;
  if (transposed) return weight[0];
  std::size_t inner = 1;
  const auto out_rank = static_cast<std::size_t>(number(i.node, "outputRank", 1));
  for (std::size_t axis = out_rank; axis < weight.rank(); ++axis) inner *= weight[axis];
  return inner;
}

template <bool transposed>
std::unique_ptr<Kernel> make_times(Instruction i) {
  const std::size_t inner = inner_size(transposed, i);
  if (i.in[0].per_sample) return std::make_unique<SampleTimes>(transposed, inner, std::move(i));
  if (i.reads_sparse) return std::make_unique<SparseTimes>(transposed, std::move(i));
  return std::make_unique<Times>(transposed, inner, std::move(i));
}

}  // namespace

void list_products(Makers& makers) {
  makers.insert({{"Times", make_times<false>}, {"TransposeTimes", make_times<true>}});
}

}  // namespace tutti::graph
