// SPDX-License-Identifier: Apache-2.0
// Gradient flow and the two walks over the instructions; memory is planned in lifetimes.cpp.
#include "graph/program.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/timeline.h"
#include "tutti/communicator.h"

namespace tutti::graph {
namespace {

// Statistics of a share are not those of its parts, and neighbours of a sample may be in another part.
bool over_whole_share(const Instruction& i) {
  return (i.operation == "BatchNormalization" && flag(i.node, "training", false)) || i.operation == "ShiftSamples";
}

}  // namespace

Program::Program(const Graph& graph, const std::vector<Value>& values, std::vector<std::size_t> roots, Backend& backend,
                 const Options& options)
    : backend_(backend), options_(options) {
  const ResultTerms terms = find_terms(graph, values, roots);
  code_ = lower(graph, execution_order(graph, roots), values, roots,
                {.training = options.training,
                 .winograd = options.winograd,
                 .channel_block = options.image_layouts ? backend.images().channel_block() : 0,
                 .half_element = options.half_values ? backend.images().element() : Element::float32,
                 .fused_products = backend.fuses_products(),
                 .fused_recurrent_inputs = backend.fuses_recurrent_inputs(),
                 .model_parallel = options.model_parallel,
                 .shards = options.shards,
                 .label_smoothing = options.label_smoothing,
                 .terms = options.results ? &terms : nullptr});
  for (const auto root : roots) roots_.insert(code_.of_node.at(root).tensor);
  for (const auto& [node, divisor] : code_.divisor_of_node) roots_.insert(divisor.tensor);
  if (options.criterion) criterion_ = code_.of_node.at(*options.criterion);
  additive_ = terms.over_samples_only();
  for (const auto& i : code_.instructions) additive_ = additive_ && !over_whole_share(i);
  double_sums_.assign(code_.tensors.size(), false);
  make_kernels();
  std::set<std::size_t> dense;
  for (const auto& i : code_.instructions)
    for (std::size_t k = 0; k < i.in.size(); ++k)
      if (code_.tensors[i.in[k].tensor].kind == Tensor::Kind::input && !(i.reads_sparse && k == 1) &&
          !only_layout(i.operation, k))
        dense.insert(i.in[k].tensor);
  for (const auto root : roots_)
    if (code_.tensors[root].kind == Tensor::Kind::input) dense.insert(root);
  dense_inputs_.assign(dense.begin(), dense.end());
  for (const auto& kernel : kernels_) kernel->told_at = told_, told_ += (kernel->told_bytes + 15) / 16 * 16;
  completes_.resize(kernels_.size());
  flow_gradients();
  for (const auto& kernel : kernels_) kernel->connect(kernels_);
  find_ready();
  find_segments();
  plan_lifetimes();
}

Program::~Program() {
  if (block_) backend_.release(block_);
}

void Program::make_kernels() {
  auto loop = code_.loops.begin();
  for (std::size_t i = 0; i < code_.instructions.size(); ++i) {
    const bool enters = loop != code_.loops.end() && i == loop->first;
    if (enters)
      for (std::size_t k = loop->first; k < loop->last; ++k) add_deferred(k);
    const std::size_t first = kernels_.size();
    add_kernel(make_kernel(code_.instructions[i]), false);
    double_sums_[kernels_.back()->code.out.tensor] = kernels_.back()->sums_in_double;
    if (!enters) continue;
    for (; i + 1 < loop->last; ++i) add_kernel(make_kernel(code_.instructions[i + 1]), false);
    Loop over_kernels = *loop++;
    over_kernels.first = first, over_kernels.last = kernels_.size();
    for (std::size_t k = first; k < kernels_.size(); ++k) {
      loop_of_[k] = loops_.size();
      if (kernels_[k]->announces) kernels_[k]->differentiable[0] = false;  // the deferred one does that
    }
    loops_.emplace_back(over_kernels, kernels_);
  }
}

// The gradient of a weight inside of a loop is one product over all steps, in backward just behind the loop.
void Program::add_deferred(std::size_t instruction) {
  auto kernel = make_kernel(code_.instructions[instruction]);
  if (!kernel->announces) return;
  std::fill(kernel->differentiable.begin() + 1, kernel->differentiable.end(), false);
  add_kernel(std::move(kernel), true);
}

void Program::add_kernel(std::unique_ptr<Kernel> kernel, bool backward_only) {
  kernels_.push_back(std::move(kernel));
  loop_of_.push_back(none), backward_only_.push_back(backward_only);
}

// Calls f for the inputs that a gradient flows to, in the order in which backward writes.
template <class F>
void Program::each_flow(const Kernel& kernel, const F& f) const {
  const std::size_t n = kernel.code.in.size();
  for (std::size_t j = 0; j < n; ++j)
    if (const std::size_t k = kernel.last_input_first ? n - 1 - j : j;
        kernel.differentiable[k] && needs_gradient_[kernel.code.in[k].tensor])
      f(k);
}

void Program::flow_gradients() {
  needs_gradient_.assign(code_.tensors.size(), false);
  for (std::size_t t = 0; t < code_.tensors.size(); ++t) needs_gradient_[t] = code_.tensors[t].trained;
  if (!criterion_) return;
  for (bool changed = true; changed;) {  // once without loops
    changed = false;
    for (const auto& kernel : kernels_)
      for (std::size_t k = 0; k < kernel->code.in.size(); ++k)
        if (kernel->differentiable[k] && needs_gradient_[kernel->code.in[k].tensor] &&
            !needs_gradient_[kernel->code.out.tensor])
          needs_gradient_[kernel->code.out.tensor] = true, changed = !loops_.empty();
  }
  std::vector<bool> reached(code_.tensors.size(), false), written(code_.tensors.size(), false);
  reached[criterion_->tensor] = true;
  for (std::size_t i = kernels_.size(); i-- > 0;) {
    if (loop_of_[i] != none) {
      LoopRun& loop = loops_[loop_of_[i]];
      flow_through(loop, reached, written);
      active_.insert(active_.end(), loop.active.begin(), loop.active.end());
      i = loop.first();
      continue;
    }
    Kernel& kernel = *kernels_[i];
    if (!reached[kernel.code.out.tensor] || !needs_gradient_[kernel.code.out.tensor]) continue;
    active_.push_back(i);
    each_flow(kernel, [&](std::size_t k) {
      const std::size_t t = kernel.code.in[k].tensor;
      kernel.write[k] = written[t] ? Write::add : Write::set;
      reached[t] = written[t] = true;
    });
  }
}

// Steps run in the opposite direction; a delay passes gradients to the previous step only for sequences that continue.
// So these gradients start at zero and all writers add, like those that sum over steps.
void Program::flow_through(LoopRun& loop, std::vector<bool>& reached, std::vector<bool>& written) {
  std::vector<bool> takes_part(kernels_.size(), false), delayed(code_.tensors.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = loop.last(); i-- > loop.first();) {
      const Kernel& kernel = *kernels_[i];
      if (takes_part[i] || !reached[kernel.code.out.tensor] || !needs_gradient_[kernel.code.out.tensor]) continue;
      takes_part[i] = changed = true;
      each_flow(kernel, [&](std::size_t k) { reached[kernel.code.in[k].tensor] = true; });
      // Also an initial state: the step that takes it may be another than that of the gradient.
      if (is_delay(kernel.code.operation))
        for (const Operand& in : kernel.code.in) delayed[in.tensor] = true;
    }
  }
  for (std::size_t i = loop.last(); i-- > loop.first();) {
    Kernel& kernel = *kernels_[i];
    if (!takes_part[i]) continue;
    loop.active.push_back(i);
    each_flow(kernel, [&](std::size_t k) {
      const Operand& in = kernel.code.in[k];
      const bool sums = delayed[in.tensor] || !in.per_sample || in.axis != loop.axis();
      if (sums && !written[in.tensor]) loop.cleared.push_back(in);
      kernel.write[k] = sums || written[in.tensor] ? Write::add : Write::set;
      written[in.tensor] = true;
    });
  }
}

std::size_t Program::begin_of(std::size_t kernel) const {
  return loop_of_[kernel] == none ? kernel : loops_[loop_of_[kernel]].first();
}
std::size_t Program::end_of(std::size_t kernel) const {
  return loop_of_[kernel] == none ? kernel : loops_[loop_of_[kernel]].last() - 1;
}

// Chunks of a weight must be whole rows of every product that it takes part in.
std::size_t Program::chunk_unit(std::size_t tensor) const {
  std::size_t unit = 1;
  for (const auto i : active_) {
    const Kernel& kernel = *kernels_[i];
    if (!kernel.announces || kernel.code.in[0].tensor != tensor || kernel.write[0] == Write::none) continue;
    const std::size_t inner = kernel.code.operation == "TransposeTimes" ? kernel.code.in[0].shape[0] : 0;
    std::size_t out = 1;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(number(kernel.code.node, "outputRank", 1)); ++axis)
      out *= kernel.code.in[0].shape[axis];
    unit = std::lcm(unit, inner ? inner : out);
  }
  return code_.tensors[tensor].elements % unit == 0 ? unit : 0;
}

// The rows of its weight (as a matrix of the first axis by all others) that a product with a sparse input uses.
std::optional<Program::Ready> Program::sparse_row_list(const Instruction& i) {
  if (!i.reads_sparse) return {};
  const Operand& weight = i.in[0];
  Ready ready{weight.tensor, 0, true, i.operation == "TransposeTimes", 1};
  if (ready.sparse_by_row) return ready;
  const std::size_t rows = std::max<std::size_t>(weight.shape[0], 1), out = weight.elements / i.in[1].elements;
  if (out % rows == 0)
    ready.lines = out / rows;
  else if (out == 1 && rows == weight.elements)  // a vector: its elements are rows
    ready.sparse_by_row = true;
  else
    return {};
  return ready;
}

std::vector<std::size_t> Program::sparse_inputs(std::size_t parameter) const {
  std::vector<std::size_t> inputs;
  for (const auto i : active_)
    if (kernels_[i]->code.reads_sparse && kernels_[i]->code.in[0].tensor == parameter)
      inputs.push_back(kernels_[i]->code.in[1].tensor);
  return inputs;
}

// Parameters whose gradients come only from sparse products that use the same kind of rows. Their gradients are kept
// zero except for the used rows, so these products always add.
std::vector<std::optional<Program::Ready>> Program::find_sparse() {
  std::vector<std::optional<Ready>> sparse(code_.tensors.size());
  std::vector<bool> dense(code_.tensors.size(), false);
  for (const auto i : active_) {
    const Kernel& kernel = *kernels_[i];
    for (std::size_t k = 0; k < kernel.code.in.size(); ++k) {
      const std::size_t t = kernel.code.in[k].tensor;
      if (kernel.write[k] == Write::none || !code_.tensors[t].trained) continue;
      const auto lines = k == 0 ? sparse_row_list(kernel.code) : std::nullopt;
      const bool same =
          lines &&
          (!sparse[t] || (sparse[t]->sparse_by_row == lines->sparse_by_row && sparse[t]->lines == lines->lines));
      if (same)
        sparse[t] = lines;
      else
        dense[t] = true;
    }
  }
  for (std::size_t t = 0; t < dense.size(); ++t)
    if (dense[t]) sparse[t].reset();
  for (const auto i : active_)
    if (kernels_[i]->code.reads_sparse && kernels_[i]->write[0] != Write::none &&
        sparse[kernels_[i]->code.in[0].tensor])
      kernels_[i]->write[0] = Write::add;
  return sparse;
}

void Program::find_ready() {
  std::vector<std::size_t> last(code_.tensors.size(), none);
  const auto sparse = find_sparse();
  for (const auto i : active_)
    for (std::size_t k = 0; k < kernels_[i]->code.in.size(); ++k) {
      const std::size_t t = kernels_[i]->code.in[k].tensor;
      if (kernels_[i]->write[k] == Write::none || !code_.tensors[t].trained) continue;
      last[t] = i;
    }
  const auto add = [&](std::size_t t) { ready_.push_back(sparse[t] ? *sparse[t] : Ready{t, chunk_unit(t)}); };
  for (const auto i : active_) {
    const Kernel& kernel = *kernels_[i];
    for (std::size_t k = 0; k < kernel.code.in.size(); ++k) {
      const std::size_t t = kernel.code.in[k].tensor;
      auto& complete = completes_[i];
      if (last[t] != i || std::find(complete.begin(), complete.end(), t) != complete.end()) continue;
      complete.push_back(t);
      add(t);
    }
    // The weight of a product is announced from inside, unless it is the data as well.
    Kernel& product = *kernels_[i];
    product.finishes = product.announces && product.write[0] != Write::none && last[product.code.in[0].tensor] == i &&
                       product.code.in[0].tensor != product.code.in[1].tensor;
  }
  // Trained but cut off from the criterion: announced at the end, with zeros.
  if (criterion_)
    for (std::size_t t = 0; t < code_.tensors.size(); ++t)
      if (code_.tensors[t].trained && last[t] == none) add(t);
}

void Program::forward(Run& run, SegmentReplay* replay) const {
  const TimelineSpan computing(Work::forward);
  for (std::size_t n = 0; n < forward_segments_.size(); ++n) {
    const Segment& s = forward_segments_[n];
    if (!s.repeats) {
      for (std::size_t i = s.first; i < s.last; ++i) {
        tell(run, i, end_of(i) + 1);
        i = forward_one(run, i);
      }
      continue;
    }
    tell(run, s.first, s.last);
    const auto work = [&] {
      for (std::size_t i = s.first; i < s.last; ++i) i = forward_one(run, i);
    };
    if (replay && repeats(run, s))
      replay->run(n, run, work);
    else
      work();
  }
}

void Program::join_forward(Run& run) const {
  for (const auto& kernel : kernels_)
    if (kernel->synchronized) kernel->forward(run);
}

void Program::join_backward(Run& run) const {
  for (const auto i : active_)
    if (kernels_[i]->synchronized) kernels_[i]->backward(run);
}

// Runs a kernel, or the loop that begins with it; returns the last one that has run.
std::size_t Program::forward_one(Run& run, std::size_t i) const {
  if (loop_of_[i] != none) {
    const LoopRun& loop = loops_[loop_of_[i]];
    if (!run.ranks || run.columns[loop.axis()] > 0) loop.forward(run, kernels_);
    return loop.last() - 1;
  }
  const Kernel& kernel = *kernels_[i];
  if (!backward_only_[i] && runs(run, kernel)) kernel.forward(run);
  if (run.ranks && kernel.makes_axis) run.on_axis(kernel.code.out.axis);
  return i;
}

// A rank without samples of its own still takes part in layers that all ranks compute together.
bool Program::runs(const Run& run, const Kernel& kernel) const {
  return !run.ranks || kernel.crosses_ranks || kernel.makes_axis || !kernel.code.out.per_sample ||
         run.rows(kernel.code.out) > 0 || kernel.sum_over_ranks(run);
}

std::optional<std::size_t> Program::first_not_finite(Run& run) const {
  std::optional<std::size_t> first;
  std::vector<float> host;
  DeviceBuffer workspace;
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    tell(run, i, end_of(i) + 1);
    const std::size_t last = forward_one(run, i);
    if (backward_only_[i]) continue;
    for (; i <= last && !first; ++i) {
      const Operand& out = kernels_[i]->code.out;
      host.resize(run.count(out));
      const float* values = run.value(out);
      if (out.element != Element::float32) {
        // The order of the values does not matter here.
        const ImageExtent from{1, 1, host.size(), out.format, out.element}, to{1, 1, host.size()};
        run.backend.images().reorder(from, to, values, workspace.reserve(run.backend, host.size()), false);
        values = workspace.data();
      }
      run.backend.download(values, host.data(), host.size());
      if (!std::all_of(host.begin(), host.end(), [](float v) { return std::isfinite(v); })) first = i;
    }
    i = last;
  }
  return first;
}

// Sequences that were removed by a slice or gather leave a result without columns, and no gradient flows back from it.
void Program::backward_one(Run& run, const Kernel& kernel) const {
  if (!kernel.code.out.per_sample || run.rows(kernel.code.out) > 0 || kernel.crosses_ranks ||
      kernel.sum_over_ranks(run))
    return kernel.backward(run);
  no_gradient(run, kernel);
  if (kernel.finishes) announce(run, kernel.code.in[0].tensor);
}

void Program::no_gradient(Run& run, const Kernel& kernel) const {
  for (std::size_t k = 0; k < kernel.code.in.size(); ++k) {
    const Operand& in = kernel.code.in[k];
    const bool keeps = !run.first_part && !run.chunks[in.tensor].empty();
    const auto& shard = code_.tensors[in.tensor].shard;
    const bool elsewhere = shard && shard->single && run.ranks->rank() != 0;
    if (kernel.write[k] == Write::set && !keeps && !elsewhere)
      run.backend.fill(0, run.gradient(in), run.rows(in) * in.floats());
  }
}

// Once all parts of a share have added to a parameter's gradient.
void Program::announce(const Run& run, std::size_t tensor) {
  if (!run.last_part || !run.sink) return;
  for (const auto& chunk : run.chunks[tensor]) run.sink->chunk_ready(chunk.index);
}

void Program::backward_segment(Run& run, const Segment& s) const {
  std::size_t done = none;  // the loop that has run; no segment cuts one
  for (std::size_t n = s.first; n < s.last; ++n) {
    const std::size_t i = active_[n];
    if (loop_of_[i] == none) {
      backward_one(run, *kernels_[i]);
    } else if (loop_of_[i] != done) {
      done = loop_of_[i];
      if (!run.ranks || run.columns[loops_[done].axis()] > 0) loops_[done].backward(run, kernels_);
    }
    for (const auto tensor : completes_[i])
      if (!(kernels_[i]->finishes && kernels_[i]->code.in[0].tensor == tensor)) announce(run, tensor);
  }
}

void Program::backward(Run& run, SegmentReplay* replay) const {
  const TimelineSpan computing(Work::backward);
  if (!code_.tensors[criterion_->tensor].trained)
    run.backend.fill(run.gradient_scale, run.gradient(*criterion_), run.count(*criterion_));
  for (std::size_t n = 0; n < backward_segments_.size(); ++n) {
    const Segment& s = backward_segments_[n];
    const auto work = [&] { backward_segment(run, s); };
    if (replay && repeats(run, s))
      replay->run(forward_segments_.size() + n, run, work);
    else
      work();
  }
  std::size_t flowing = 0;
  for (const auto& tensors : completes_) flowing += tensors.size();
  for (std::size_t r = flowing; r < ready_.size(); ++r) {
    if (run.chunks[ready_[r].tensor].empty()) continue;  // on another rank
    run.backend.fill(0, run.gradients[ready_[r].tensor], code_.tensors[ready_[r].tensor].elements);
    announce(run, ready_[r].tensor);
  }
}

void Program::announce_all(const Run& run) const {
  for (const auto& parameter : ready_)
    for (const auto& chunk : run.chunks[parameter.tensor]) run.sink->chunk_ready(chunk.index);
}

}  // namespace tutti::graph
