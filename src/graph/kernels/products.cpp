// SPDX-License-Identifier: Apache-2.0
// Matrix products. A weight [out x in] lies column after column, which is row-major [in][out]: Y = X W needs no
// transpose.
#include <algorithm>

#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

// Y[rows][out] = X[rows][inner] W[inner][out] and its gradients; the weight may be stored the other way.
struct Product {
  bool transposed;
  std::size_t inner, out;

  std::size_t stored_row() const { return transposed ? inner : out; }
  Gemm forward(std::size_t rows) const {
    return {.transpose_b = transposed, .m = rows, .n = out, .k = inner, .lda = inner, .ldb = stored_row(), .ldc = out};
  }
  Gemm data_gradient(std::size_t rows) const {
    return {.transpose_b = !transposed, .m = rows, .n = inner, .k = out, .lda = out, .ldb = stored_row(), .ldc = inner};
  }
  // dW = X' dY, or dW = dY' X when stored the other way.
  Gemm weight_gradient(std::size_t rows) const {
    const std::size_t m = transposed ? out : inner, n = stored_row();
    return {.transpose_a = true, .m = m, .n = n, .k = rows, .lda = m, .ldb = n, .ldc = n};
  }
};

// The left operand has no sample axis: one product over all samples. After fusion there is a bias (input 2), whose
// gradient belongs to the instruction behind.
class Times : public Kernel {
 public:
  Times(const Product& product, Instruction i) : Kernel(std::move(i)), product_(product) {
    reads_output = false;
    last_input_first = true;
    announces = true;
    if (!fused()) return;
    differentiable[2] = reads_input[2] = false;
    if (flag(code.node, "keepsMask", false)) work_per_column = Backend::mask_floats(product_.out);
  }

  void forward(Run& run) const override {
    Gemm g = product_.forward(rows(run));
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
  std::size_t rows(const Run& run) const { return run.count(code.in[1]) / product_.inner; }

  void data_gradient(Run& run) const {
    Gemm g = product_.data_gradient(rows(run));
    g.accumulate = adds(run, 1);
    g.b_version = run.version(code.in[0]);
    g.a_element = code.out.element, g.c_element = code.in[1].element, g.same_b = true;
    if (!relu_) return run.backend.gemm(g, out_gradient(run), in(run, 0), in_gradient(run, 1));
    // The gradient of the bias in front of the ReLU as well, where nothing stands there.
    const bool sums = relu_->write[1] != Write::none && !relu_->adds(run, 1);
    run.backend.gemm_relu_gradient(g, out_gradient(run), in(run, 0), in(run, 1), relu_product_->mask(run),
                                   in_gradient(run, 1), sums ? run.gradient(relu_->code.in[1]) : nullptr);
  }

  // On the host by runs of whole rows of the stored matrix, so that each run is still in the cache when its user gets
  // it; a device wants one large product.
  void weight_gradient(Run& run) const {
    const bool transposed = product_.transposed;
    const float* left = transposed ? out_gradient(run) : in(run, 1);
    const float* right = transposed ? in(run, 1) : out_gradient(run);
    Gemm g = product_.weight_gradient(rows(run));
    g.accumulate = adds(run, 0);
    g.a_element = transposed ? code.out.element : code.in[1].element;
    g.b_element = transposed ? code.in[1].element : code.out.element;
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
      g.m = p.count / g.n;
      run.backend.gemm(g, advanced(left, g.a_element, p.first / g.n), right, in_gradient(run, 0) + p.first);
      if (announced) run.sink->chunk_ready(p.index);
    }
  }

  const Product product_;
  const Kernel* relu_ = nullptr;               // behind which the data come from, where this masks their gradient
  const Times* relu_product_ = nullptr;        // in front of it
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
  SampleTimes(const Product& product, Instruction i) : Kernel(std::move(i)), product_(product) { reads_output = false; }
  void forward(Run& run) const override {
    const Gemm g = product_.forward(rows());
    for (std::size_t c = 0; c < run.rows(code.out); ++c)
      run.backend.gemm(g, in(run, 1) + at(1, c), in(run, 0) + at(0, c), out(run) + c * code.out.elements);
  }
  void backward(Run& run) const override {
    for (std::size_t c = 0; c < run.rows(code.out); ++c) {
      if (write[0] != Write::none) left_gradient(run, c);
      if (write[1] != Write::none) right_gradient(run, c);
    }
  }

 private:
  std::size_t rows() const { return code.in[1].elements / product_.inner; }
  std::size_t at(std::size_t k, std::size_t column) const {
    return code.in[k].per_sample ? column * code.in[k].elements : 0;
  }
  bool sums(const Run& run, std::size_t k, std::size_t column) const {
    return adds(run, k) || (column > 0 && !code.in[k].per_sample);
  }
  void left_gradient(Run& run, std::size_t c) const {
    const float* dy = out_gradient(run) + c * code.out.elements;
    const float* x = in(run, 1) + at(1, c);
    Gemm g = product_.weight_gradient(rows());
    g.accumulate = sums(run, 0, c);
    run.backend.gemm(g, product_.transposed ? dy : x, product_.transposed ? x : dy, in_gradient(run, 0) + at(0, c));
  }
  void right_gradient(Run& run, std::size_t c) const {
    Gemm g = product_.data_gradient(rows());
    g.accumulate = sums(run, 1, c);
    run.backend.gemm(g, out_gradient(run) + c * code.out.elements, in(run, 0) + at(0, c),
                     in_gradient(run, 1) + at(1, c));
  }
  const Product product_;
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
  if (i.reads_sparse && !i.in[0].per_sample) return std::make_unique<SparseTimes>(transposed, std::move(i));
  const std::size_t inner = inner_size(transposed, i);
  const Product product{transposed, inner, i.in[0].elements / inner};
  if (i.in[0].per_sample) return std::make_unique<SampleTimes>(product, std::move(i));
  return std::make_unique<Times>(product, std::move(i));
}

}  // namespace

void list_products(Makers& makers) {
  makers.insert({{"Times", make_times<false>}, {"TransposeTimes", make_times<true>}});
}

}  // namespace tutti::graph
