// SPDX-License-Identifier: Apache-2.0
// The memory of the values, gradients and workspaces of a program: how long each is needed, and what may share memory.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/memory.h"
#include "graph/program.h"
#include "tutti/communicator.h"
#include "tutti/error.h"

namespace tutti::graph {
namespace {

// Whether one may overwrite the other.
bool alike(const Operand& a, const Operand& b) {
  return a.elements == b.elements && a.element == b.element && a.per_sample == b.per_sample;
}

// Sums of sizes must not wrap around, because then little memory would seem to be needed.
void check_sum(const std::vector<Buffer>& buffers, std::size_t columns) {
  double all = 0;
  for (const Buffer& b : buffers)
    all += static_cast<double>(b.per_column) * static_cast<double>(columns) + static_cast<double>(b.fixed) + 16;
  if (all > static_cast<double>(1ULL << 60))
    throw Error(fmt::format("out of memory: {:.3g} bytes for the values of the network", all * sizeof(float)));
}

}  // namespace

// Largest buffer first, each at the lowest offset that no buffer alive at the same time uses.
std::size_t place(std::vector<Buffer>& buffers, std::size_t columns, bool reuse) {
  check_sum(buffers, columns);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].size(columns) > buffers[b].size(columns); });
  std::vector<std::size_t> placed;  // sorted by offset
  std::size_t total = 0;
  for (const auto index : order) {
    Buffer& buffer = buffers[index];
    const std::size_t size = buffer.size(columns);
    std::size_t at = 0;
    for (const auto other : placed) {
      const Buffer& o = buffers[other];
      const bool together = !reuse || (o.begin <= buffer.end && buffer.begin <= o.end);
      if (!together || o.offset + o.size(columns) <= at) continue;
      if (o.offset >= at + size) break;
      at = o.offset + o.size(columns);
    }
    buffer.offset = at;
    total = std::max(total, at + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](std::size_t a, std::size_t b) { return buffers[a].offset < buffers[b].offset; }),
                  index);
  }
  return total;
}

// How many times as many columns as its own share a rank has on the axis of `o`, at most.
std::size_t Program::times_own_columns(const Operand& o) const {
  using Columns = RankAxis::Columns;
  if (!o.per_sample || !divided() || code_.rank_axes[o.axis].columns == Columns::own) return 1;
  const Communicator& ranks = *options_.model_parallel->ranks;
  if (code_.rank_axes[o.axis].columns == Columns::first && ranks.rank() != 0) return 0;
  return static_cast<std::size_t>(ranks.size());
}

std::size_t Program::new_buffer(const Operand& o, std::size_t begin, std::size_t end) {
  Buffer b;
  (o.per_sample ? b.per_column : b.fixed) = o.floats() * times_own_columns(o);
  b.begin = begin, b.end = end;
  buffers_.push_back(b);
  return buffers_.size() - 1;
}

// Step i is the forward of instruction i, step 2n-1-i its backward; 2n is the end, where roots are still needed.
void Program::plan_lifetimes() {
  const std::size_t n = kernels_.size(), tensors = code_.tensors.size();
  value_buffer_.assign(tensors, none), gradient_buffer_.assign(tensors, none), work_buffer_.assign(tensors, none);
  std::vector<std::size_t> last_use(tensors, 0);
  std::vector<bool> active(n, false);
  for (const auto i : active_) active[i] = true;
  for (std::size_t i = 0; i < n; ++i) {
    const Kernel& kernel = *kernels_[i];
    const std::size_t use = end_of(i), back = 2 * n - 1 - begin_of(i);
    for (std::size_t k = 0; k < kernel.code.in.size(); ++k) {
      auto& last = last_use[kernel.code.in[k].tensor];
      last = std::max(last, active[i] && kernel.reads_input[k] ? back : use);
    }
    auto& own = last_use[kernel.code.out.tensor];
    own = std::max(own, active[i] && kernel.reads_output ? back : use);
  }
  for (const auto root : roots_) last_use[root] = 2 * n;
  for (std::size_t i = 0; i < n; ++i) {
    if (backward_only_[i]) continue;
    place_value(i, last_use);
    const Kernel& kernel = *kernels_[i];
    const std::size_t begin = begin_of(i), end = active[i] ? 2 * n - 1 - begin_of(i) : end_of(i);
    if (kernel.work_like >= 0)
      work_buffer_[kernel.code.out.tensor] =
          new_buffer(kernel.code.in[static_cast<std::size_t>(kernel.work_like)], begin, end);
    if (kernel.work_per_column + kernel.work_fixed > 0) {
      work_buffer_[kernel.code.out.tensor] = buffers_.size();
      buffers_.push_back(
          {kernel.work_per_column * times_own_columns(kernel.code.out), kernel.work_fixed, begin, end, 0});
    }
  }
  place_gradients();
}

void Program::place_value(std::size_t i, std::vector<std::size_t>& last_use) {
  const Kernel& kernel = *kernels_[i];
  const std::size_t out = kernel.code.out.tensor;
  // A loop returns to what it has read, so nothing inside one is overwritten.
  if (options_.reuse_memory && kernel.in_place >= 0 && loop_of_[i] == none) {
    const Operand& in = kernel.code.in[static_cast<std::size_t>(kernel.in_place)];
    if (alike(in, kernel.code.out) && value_buffer_[in.tensor] != none && last_use[in.tensor] == i) {
      value_buffer_[out] = value_buffer_[in.tensor];
      auto& end = buffers_[value_buffer_[out]].end;
      end = std::max(end, last_use[out]);
      return;
    }
  }
  value_buffer_[out] = new_buffer(kernel.code.out, begin_of(i), last_use[out]);
}

void Program::place_gradients() {
  if (!criterion_) return;
  const std::size_t n = kernels_.size();
  std::vector<std::size_t> writers(code_.tensors.size(), 0), made(code_.tensors.size(), none);
  for (const auto i : active_) {
    made[kernels_[i]->code.out.tensor] = begin_of(i);
    for (std::size_t k = 0; k < kernels_[i]->code.in.size(); ++k)
      if (kernels_[i]->write[k] != Write::none) ++writers[kernels_[i]->code.in[k].tensor];
  }
  const auto end_of_gradient = [&](std::size_t t) { return made[t] == none ? 2 * n : 2 * n - 1 - made[t]; };
  // The criterion's own gradient, ones, is written before the first backward step.
  if (!code_.tensors[criterion_->tensor].trained)
    gradient_buffer_[criterion_->tensor] =
        new_buffer(*criterion_, n == 0 ? 0 : n - 1, end_of_gradient(criterion_->tensor));
  std::size_t entered = none;
  for (const auto i : active_) {
    const Kernel& kernel = *kernels_[i];
    const std::size_t begin = 2 * n - 1 - end_of(i);
    if (loop_of_[i] != none && loop_of_[i] != entered) {
      entered = loop_of_[i];
      for (const auto& o : loops_[entered].cleared)
        if (!code_.tensors[o.tensor].trained)
          gradient_buffer_[o.tensor] = new_buffer(o, begin, end_of_gradient(o.tensor));
    }
    for (std::size_t k = 0; k < kernel.code.in.size(); ++k) {
      const Operand& in = kernel.code.in[k];
      if (kernel.write[k] != Write::set || code_.tensors[in.tensor].trained) continue;
      const std::size_t out_buffer = gradient_buffer_[kernel.code.out.tensor];
      if (options_.reuse_memory && kernel.in_place_gradient == static_cast<int>(k) && alike(in, kernel.code.out) &&
          writers[in.tensor] == 1) {
        gradient_buffer_[in.tensor] = out_buffer;
        auto& end = buffers_[out_buffer].end;
        end = std::max(end, end_of_gradient(in.tensor));
      } else {
        gradient_buffer_[in.tensor] = new_buffer(in, begin, end_of_gradient(in.tensor));
      }
    }
  }
}

void Program::plan(std::size_t columns) {
  columns = std::max<std::size_t>(columns, 1);
  if (planned_ && columns <= columns_) return;
  if (block_) backend_.release(block_);
  block_ = nullptr;
  memory_ = place(buffers_, columns, options_.reuse_memory);
  if (memory_is_only_planned() && backend_.is_host())
    count_planned_memory(memory_ * sizeof(float));
  else
    block_ = backend_.allocate(memory_);
  planned_ = true;
  columns_ = columns;
  for (const auto& kernel : kernels_) kernel->plan(backend_, columns);
}

void Program::prepare(Run& run) const {
  const std::size_t tensors = code_.tensors.size();
  run.values.resize(tensors), run.gradients.resize(tensors), run.work.resize(tensors);
  if (!run.sums) run.sums = backend_.make_sums(tensors);
  run.sparse.resize(tensors), run.chunks.resize(tensors), run.columns.resize(code_.axes.size());
  run.sequences.resize(code_.axes.size()), run.states.resize(tensors), run.lists.resize(tensors),
      run.workspaces.resize(tensors);
  run.samples.resize(code_.axes.size() + 1);
  run.packed = code_.sequential, run.planned_columns = columns_;
  run.told.resize(told_);
  if (told_ > 0) run.told_there.reserve(backend_, told_ / sizeof(float));
  if (!block_) return;
  for (std::size_t t = 0; t < tensors; ++t) {
    if (value_buffer_[t] != none) run.values[t] = block_ + buffers_[value_buffer_[t]].offset;
    if (gradient_buffer_[t] != none) run.gradients[t] = block_ + buffers_[gradient_buffer_[t]].offset;
    if (work_buffer_[t] != none) run.work[t] = block_ + buffers_[work_buffer_[t]].offset;
  }
}

}  // namespace tutti::graph
