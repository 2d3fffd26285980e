// SPDX-License-Identifier: Apache-2.0
#include "graph/rank_columns.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "graph/network_impl.h"

namespace tutti {
namespace graph {
namespace {

constexpr int first_input_tag = 16000, numbers_tag = 31000;

}  // namespace

SparseView GatheredInput::gather(Communicator& ranks, int tag, const SparseView& mine,
                                 std::span<const std::size_t> first, std::span<const std::int64_t> values) {
  const auto me = static_cast<std::size_t>(ranks.rank());
  const auto message_size = [&](std::size_t q) {
    return first[q + 1] - first[q] + 2 * static_cast<std::size_t>(values[q]);
  };
  std::size_t total = 0;
  for (std::size_t q = 0; q < values.size(); ++q) total += message_size(q);
  if (message_.size() < total) message_.resize(total);
  blocks_.clear();
  float* at = message_.data();
  float* own = nullptr;
  for (std::size_t q = 0; q < values.size(); at += message_size(q), ++q) {
    if (q == me)
      own = at;
    else
      blocks_.push_back({static_cast<int>(q), false, at, message_size(q)});
  }
  float* to = own;
  for (std::size_t c = 0; c < mine.columns; ++c)
    *to++ = std::bit_cast<float>(static_cast<std::int32_t>(mine.begin[c + 1] - mine.begin[c]));
  const auto begin = mine.columns ? mine.begin[0] : 0, end = mine.columns ? mine.begin[mine.columns] : 0;
  for (auto k = begin; k < end; ++k) *to++ = std::bit_cast<float>(mine.indices[k]);
  std::copy(mine.values + begin, mine.values + end, to);
  for (std::size_t q = 0; q < values.size(); ++q)
    if (q != me) blocks_.push_back({static_cast<int>(q), true, own, message_size(me)});
  transfers_.start(ranks, tag, blocks_);
  transfers_.wait();
  values_.clear(), indices_.clear(), begin_.assign(1, 0);
  const float* from = message_.data();
  for (std::size_t q = 0; q < values.size(); ++q) {
    for (std::size_t c = first[q]; c < first[q + 1]; ++c)
      begin_.push_back(begin_.back() + std::bit_cast<std::int32_t>(*from++));
    for (std::int64_t k = 0; k < values[q]; ++k) indices_.push_back(std::bit_cast<std::int32_t>(*from++));
    values_.insert(values_.end(), from, from + values[q]);
    from += values[q];
  }
  return {first.back(), values_.data(), indices_.data(), begin_.data()};
}

}  // namespace graph

using graph::RankAxis;
using graph::Tensor;

void Network::Impl::attach_ranks(Executable& e) {
  const graph::Lowered& code = e.program.code();
  graph::Run& run = e.run;
  run.ranks = options.model_parallel.ranks;
  if (const auto& sum = options.model_parallel.sum_over_same_parts) run.sum_over_groups = &sum;
  const auto ranks = static_cast<std::size_t>(run.ranks->size());
  auto& [mine, all, values, inputs, numbers, blocks] = e.gathered;
  mine.clear();
  const auto own_axes =
      static_cast<std::size_t>(std::count_if(code.rank_axes.begin(), code.rank_axes.end(),
                                             [](const RankAxis& a) { return a.columns == RankAxis::Columns::own; }));
  for (std::size_t a = 0; a < own_axes; ++a)
    mine.push_back(run.columns[a] == none ? 0 : static_cast<std::int64_t>(run.columns[a]));
  for (const Tensor& t : code.tensors) {
    if (!t.gathered_from) continue;
    const SparseView& x = run.sparse[*t.gathered_from];
    mine.push_back(x.columns ? x.begin[x.columns] - x.begin[0] : 0);
  }
  all.resize(mine.size() * ranks);
  run.ranks->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  run.first_of_rank.resize(own_axes);
  for (std::size_t a = 0; a < own_axes; ++a)
    if (run.columns[a] != none) set_columns_of_ranks(e, a, std::span(all).subspan(a), mine.size());
  run.on_axis = [this, &e](std::size_t axis) { gather_columns(e, axis); };
  inputs.resize(code.tensors.size());
  values.resize(ranks);
  std::size_t at = own_axes;  // in `mine`
  for (std::size_t tensor = 0; tensor < code.tensors.size(); ++tensor) {
    const Tensor& t = code.tensors[tensor];
    if (!t.gathered_from) continue;
    const std::size_t own = *t.gathered_from;
    for (std::size_t q = 0; q < ranks; ++q) values[q] = all[q * mine.size() + at];
    ++at;
    run.sparse[tensor] = inputs[tensor].gather(*run.ranks, graph::first_input_tag + static_cast<int>(tensor),
                                               run.sparse[own], run.first_of_rank[code.tensors[own].axis], values);
    run.sparse[tensor].columns = run.columns[t.axis];  // none on ranks that have nothing to compute with them
    if (!std::ranges::binary_search(e.program.dense_inputs(), tensor)) continue;
    float* dense = e.dense[tensor].reserve(*backend, std::max<std::size_t>(run.columns[t.axis] * t.elements, 1));
    backend->densify(run.sparse[tensor], t.elements, dense);
    run.values[tensor] = dense;
  }
}

void Network::Impl::set_columns_of_ranks(Executable& e, std::size_t own, std::span<const std::int64_t> counts,
                                         std::size_t step) {
  graph::Run& run = e.run;
  auto& first = run.first_of_rank[own];
  first.assign(1, 0);
  for (std::size_t q = 0; q < static_cast<std::size_t>(run.ranks->size()); ++q)
    first.push_back(first.back() + static_cast<std::size_t>(counts[q * step]));
  const auto& axes = e.program.code().rank_axes;
  for (std::size_t a = run.first_of_rank.size(); a < axes.size(); ++a) {
    if (axes[a].own != own) continue;
    const bool here = axes[a].columns == RankAxis::Columns::all || run.ranks->rank() == 0;
    run.columns[a] = here ? first.back() : 0;
    number_samples_of_ranks(e, a);
  }
}

// Of an axis that a kernel has made. The columns of inputs are known before the pass.
void Network::Impl::gather_columns(Executable& e, std::size_t own) {
  const auto& axes = e.program.code().rank_axes;
  if (std::ranges::count(axes, own, &RankAxis::own) == 1) return;  // no layer on it is divided
  const auto mine = static_cast<std::int64_t>(e.run.columns[own]);
  auto& counts = e.gathered.values;
  e.run.ranks->all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(counts)));
  set_columns_of_ranks(e, own, counts, 1);
}

void Network::Impl::equalize_parts(Executable& e) {
  Communicator& ranks = *options.model_parallel.ranks;
  const std::int64_t mine = static_cast<std::int64_t>(e.parts.size());
  auto& counts = e.gathered.values;
  counts.resize(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(counts)));
  const std::size_t end = e.parts.back().last;
  e.parts.resize(static_cast<std::size_t>(*std::ranges::max_element(counts)), {end, end});
}

// For random draws: the numbers of the samples of all ranks.
void Network::Impl::number_samples_of_ranks(Executable& e, std::size_t axis) {
  if (e.program.code().random_nodes == 0) return;
  graph::Run& run = e.run;
  const std::size_t own = e.program.code().rank_axes[axis].own;
  const auto& first = run.first_of_rank[own];
  graph::Operand samples;
  samples.per_sample = true, samples.axis = own;
  run.number_samples(samples);
  auto& all = run.samples[axis].columns;
  const auto me = static_cast<std::size_t>(run.ranks->rank());
  if (all.capacity() < first.back()) all.reserve(2 * first.back());
  all.resize(first.back());
  std::copy(run.samples[own].columns.begin(), run.samples[own].columns.end(),
            all.begin() + static_cast<std::ptrdiff_t>(first[me]));
  auto& blocks = e.gathered.blocks;
  blocks.clear();
  // Two floats have the size of a number.
  const auto block = [&](std::size_t q) { return reinterpret_cast<float*>(all.data() + first[q]); };
  const auto size = [&](std::size_t q) { return 2 * (first[q + 1] - first[q]); };
  for (std::size_t q = 0; q + 1 < first.size(); ++q) {
    if (q == me) continue;
    blocks.push_back({static_cast<int>(q), true, block(me), size(me)});
    blocks.push_back({static_cast<int>(q), false, block(q), size(q)});
  }
  e.gathered.numbers.start(*run.ranks, graph::numbers_tag, blocks);
  e.gathered.numbers.wait();
}

ExchangeStats Network::exchange_stats_and_reset() {
  ExchangeStats sum;
  for (auto* e : {impl_->training.get(), impl_->evaluation.get(), impl_->output.get()})
    if (e) sum += std::exchange(e->run.exchanged, {});
  return sum;
}

}  // namespace tutti
