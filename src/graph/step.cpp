// SPDX-License-Identifier: Apache-2.0
// The step: a share of a minibatch forward and backward, whole or in parts. Allocates nothing once shares of the
// planned size have been seen.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "base/timeline.h"
#include "graph/network_impl.h"

namespace tutti {
namespace {

using graph::Tensor;

const StreamData* stream_of(const std::vector<StreamInfo>& streams, const Batch& batch, const std::string& name) {
  for (std::size_t s = 0; s < streams.size() && s < batch.streams.size(); ++s)
    if (streams[s].name == name) return &batch.streams[s];
  return nullptr;
}

// Which columns of a stream belong to a part: with one dynamic axis parts count columns, otherwise sequences.
Columns columns_of(const StreamData& stream, std::size_t first, std::size_t last, bool by_sequence) {
  if (!by_sequence || stream.sequence_begin.empty()) return {first, last};
  return {static_cast<std::size_t>(stream.sequence_begin[first]),
          static_cast<std::size_t>(stream.sequence_begin[last])};
}

// Samples of the epoch before a sequence of the share. Without numbers it is the whole minibatch, of single samples.
std::int64_t position_of(const Batch& batch, std::size_t sequence) {
  return batch.sequence_positions.empty() ? batch.position + static_cast<std::int64_t>(sequence)
                                          : batch.sequence_positions[sequence];
}

// Of `all` samples, as far as they are known.
float share_of(const Batch& batch, std::int64_t all) {
  return all > 0 ? static_cast<float>(static_cast<double>(batch.samples) / static_cast<double>(all)) : 1;
}

bool counts_sequences(const graph::Lowered& code) { return code.axes.size() > 1 || code.sequential; }

// Passes announced chunks from the program to the receiver.
class Announcer : public GradientSink {
 public:
  Announcer(GradientSink& to, Backend& backend, std::function<void()> first)
      : to_(to), backend_(backend), first_(first) {}
  bool follows_device() const override { return to_.follows_device(); }
  // Multiplies chunks by a factor before they are announced.
  void unscale(Parameters& parameters, float by) { parameters_ = &parameters, by_ = by; }
  void chunk_ready(std::size_t chunk) override {
    prepare(std::span(&chunk, 1));
    to_.chunk_ready(chunk);
  }
  void chunks_ready(std::span<const std::size_t> chunks) override {
    prepare(chunks);
    to_.chunks_ready(chunks);
  }

 private:
  void prepare(std::span<const std::size_t> chunks) {
    if (first_) std::exchange(first_, nullptr)();
    if (parameters_) unscale(parameters_->chunks[chunks.front()], parameters_->chunks[chunks.back()]);
    if (!to_.follows_device()) backend_.synchronize();
  }
  // Chunks lie in the order in which they are announced.
  void unscale(const GradientChunk& first, const GradientChunk& last) {
    const std::size_t begin = parameters_->offset(first), end = parameters_->offset(last) + parameters_->count(last);
    backend_.scale(by_, parameters_->gradients.data() + begin, end - begin, nullptr);
  }

  GradientSink& to_;
  Backend& backend_;
  std::function<void()> first_;
  Parameters* parameters_ = nullptr;
  float by_ = 1;
};

}  // namespace

void Network::Impl::divide_share(Executable& e, const Batch& batch) {
  const auto& code = e.program.code();
  const bool by_sequence = counts_sequences(code);
  std::size_t total = none;
  const Tensor* first = nullptr;
  for (const auto& t : code.tensors) {
    if (t.kind != Tensor::Kind::input || t.gathered_from) continue;
    const StreamData* stream = stream_of(streams, batch, t.name);
    if (!stream) throw Error(fmt::format("the network's input '{}' has no stream of that name in the reader", t.name));
    const bool listed = by_sequence && !stream->sequence_begin.empty();
    const std::size_t size = listed ? stream->sequence_begin.size() - 1 : stream->columns;
    if (total != none && size != total)
      throw Error(
          fmt::format("the streams of a minibatch do not fit: '{}' has {} {} where '{}' has {}; streams of different "
                      "length need a dynamicAxis of their own",
                      t.name, size, listed ? "sequences" : "samples", first->name, total));
    total = size, first = &t;
    const Tensor& other = *std::ranges::find_if(code.tensors, [&](const Tensor& o) {
      return o.kind == Tensor::Kind::input && !o.gathered_from && o.axis == t.axis;
    });
    const auto begin = stream_of(streams, batch, other.name)->sequence_begin;
    if (by_sequence || (!begin.empty() && !stream->sequence_begin.empty()))
      graph::require_same_sequences(t.name, stream->sequence_begin, other.name, begin);
  }
  if (total == none) total = 0;
  // Not the present capacity: it has grown with the longest sequence so far, which a resumed run may not have seen.
  const std::size_t capacity = e.part_columns;
  auto& parts = e.parts;
  parts.clear();
  const bool divided = e.program.divided();
  if (total == 0 && !divided) return;
  const bool whole = capacity == 0 || (divided && !options.model_parallel.in_parts) || !e.program.additive();
  if (whole || total == 0 || (!by_sequence && total <= capacity)) return parts.push_back({0, total});
  if (!by_sequence) {
    // Parts of about equal size, because a tiny last one would be inefficient.
    const std::size_t count = (total + capacity - 1) / capacity;
    for (std::size_t p = 0; p < count; ++p) parts.push_back({total * p / count, total * (p + 1) / count});
    return;
  }
  const auto widest = [&](const Part& part) {
    std::size_t width = 0;
    for (const auto& t : code.tensors)
      if (t.kind == Tensor::Kind::input && !t.gathered_from) {
        const Columns c = columns_of(*stream_of(streams, batch, t.name), part.first, part.last, true);
        width = std::max(width, c.last - c.first);
      }
    return width;
  };
  for (std::size_t s = 0; s < total; ++s) {
    if (!parts.empty() && widest({parts.back().first, s + 1}) <= capacity)
      parts.back().last = s + 1;
    else
      parts.push_back({s, s + 1});
  }
}

const std::vector<Part>& Network::Impl::parts(Executable& e, const Batch& batch) {
  divide_share(e, batch);
  if (e.program.divided() && options.model_parallel.in_parts) equalize_parts(e);
  return e.parts;
}

void Network::Impl::attach_input(Executable& e, std::size_t tensor, const Batch& batch, const Part& part) {
  const Tensor& t = e.program.code().tensors[tensor];
  const StreamData& stream = *stream_of(streams, batch, t.name);
  const Columns c = columns_of(stream, part.first, part.last, counts_sequences(e.program.code()));
  const std::size_t count = c.last - c.first;
  if (e.run.columns[t.axis] != none && e.run.columns[t.axis] != count)
    throw Error(
        fmt::format("the streams of a minibatch do not fit: '{}' has {} samples where others have {}; streams of "
                    "different length need a dynamicAxis of their own",
                    t.name, count, e.run.columns[t.axis]));
  const bool sequential = e.program.sequential();
  if (sequential) attach_sequences(e, tensor, stream, part);
  if (e.run.columns[t.axis] == none && !sequential) number_columns(e, t.axis, stream, batch, c);
  e.run.columns[t.axis] = count;
  if (stream.column_begin.empty()) {
    const float* values = at_backend(e, tensor, stream, c, e.was_sent(batch));
    if (sequential)
      values =
          e.packed.dense(*backend, e.run.sequences[t.axis], tensor, values, t.elements, e.program.planned_columns());
    e.run.values[tensor] = const_cast<float*>(values);  // inputs are never written
    return;
  }
  e.run.sparse[tensor] = {count, stream.values.data(), stream.indices.data(), stream.column_begin.data() + c.first};
  if (sequential) e.run.sparse[tensor] = e.packed.sparse(e.run.sequences[t.axis], tensor, e.run.sparse[tensor]);
  const auto& dense = e.program.dense_inputs();
  if (!std::binary_search(dense.begin(), dense.end(), tensor)) return;
  float* workspace = e.dense[tensor].reserve(*backend, std::max(count, e.program.planned_columns()) * t.elements);
  backend->densify(e.run.sparse[tensor], t.elements, workspace);
  e.run.values[tensor] = workspace;
}

// The positions in the epoch of the samples of this part, for random draws.
void Network::Impl::number_sequences(Executable& e, const Batch& batch, const Part& part) {
  e.run.position = batch.position;
  for (auto& s : e.run.samples) s.current = false;
  e.run.sequence_positions.clear();
  if (e.program.code().random_nodes == 0 || !e.program.sequential()) return;
  for (std::size_t s = part.first; s < part.last; ++s) e.run.sequence_positions.push_back(position_of(batch, s));
}

// The same column by column, for a stream whose columns are used in order.
void Network::Impl::number_columns(Executable& e, std::size_t axis, const StreamData& stream, const Batch& batch,
                                   const Columns& c) {
  if (e.program.code().random_nodes == 0) return;
  auto& numbers = e.run.samples[axis].columns;
  numbers.clear();
  if (stream.sequence_begin.empty()) {
    for (std::size_t i = c.first; i < c.last; ++i) numbers.push_back(position_of(batch, i));
    return;
  }
  const auto& begin = stream.sequence_begin;
  auto next = std::upper_bound(begin.begin(), begin.end(), static_cast<std::int64_t>(c.first));
  for (auto i = static_cast<std::int64_t>(c.first); i < static_cast<std::int64_t>(c.last); ++i) {
    while (*next <= i) ++next;
    const auto sequence = static_cast<std::size_t>(next - begin.begin() - 1);
    numbers.push_back(position_of(batch, sequence) + i - begin[sequence]);
  }
}

const float* Network::Impl::at_backend(Executable& e, std::size_t tensor, const StreamData& stream, const Columns& c,
                                       bool there) {
  const std::size_t elements = e.program.code().tensors[tensor].elements, count = c.last - c.first;
  const float* values = stream.dense.data() + c.first * elements;
  if (backend->is_host()) return values;
  float* workspace = e.dense[tensor].reserve(*backend, std::max(count, e.program.planned_columns()) * elements);
  if (!there) backend->upload(values, workspace, count * elements);
  return workspace;
}

void Network::Impl::send(Executable& e, const Batch& batch) {
  if (backend->is_host() || options.model_parallel.in_parts || parts(e, batch).size() != 1) return;
  const TimelineSpan copying(Work::copy);
  const auto& code = e.program.code();
  for (std::size_t t = 0; t < code.tensors.size(); ++t) {
    if (code.tensors[t].kind != Tensor::Kind::input || code.tensors[t].gathered_from) continue;
    const StreamData& stream = *stream_of(streams, batch, code.tensors[t].name);
    if (stream.column_begin.empty())
      at_backend(e, t, stream, columns_of(stream, e.parts[0].first, e.parts[0].last, counts_sequences(code)), false);
  }
  e.sent = {&batch, Executable::place_of(batch)};
}

// The sequences of an axis are those of its first stream; the others have the same ones (divide_share).
void Network::Impl::attach_sequences(Executable& e, std::size_t tensor, const StreamData& stream, const Part& part) {
  const std::size_t axis = e.program.code().tensors[tensor].axis;
  if (e.run.columns[axis] != none) return;
  graph::SequenceTable& table = e.run.sequences[axis];
  if (stream.sequence_begin.empty())
    table.assign_single(part.last - part.first);
  else
    table.assign(stream.sequence_begin.subspan(part.first, part.last - part.first + 1));
}

void Network::Impl::attach(Executable& e, const Batch& batch, const Part& part) {
  const TimelineSpan copying(Work::copy);
  const auto& tensors = e.program.code().tensors;
  std::fill(e.run.columns.begin(), e.run.columns.end(), none);
  number_sequences(e, batch, part);
  e.run.fragments = batch.fragments;
  if (!batch.fragments.empty() && counts_sequences(e.program.code()))
    e.run.fragments = batch.fragments.subspan(part.first, part.last - part.first);
  e.run.keeps_states = keeps_states;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].kind == Tensor::Kind::input && !tensors[t].gathered_from) attach_input(e, t, batch, part);
    if (tensors[t].kind != Tensor::Kind::parameter && tensors[t].kind != Tensor::Kind::statistic) continue;
    const std::size_t slice = slice_of[tensors[t].node];
    if (slice == none) {
      e.run.values[t] = stored[store_of[tensors[t].node]].values.data();
      continue;
    }
    const std::size_t offset = parameters.slices[slice].offset;
    e.run.values[t] = parameters.weights.data() + offset;
    e.run.gradients[t] = parameters.gradients.data() + offset;
  }
  if (e.program.divided()) {
    attach_ranks(e);
    if (&e == training.get()) touched.list_gathered(e.run.first_part, e.run.sparse, parameters, *backend);
  }
  const auto& first = e.run.first_of_rank;  // by axis of this rank; empty without divided layers
  std::size_t most = 1;
  for (std::size_t a = 0; a < e.run.columns.size(); ++a) {
    std::size_t& columns = e.run.columns[a];
    if (columns == none) columns = 0;
    if (first.empty() || a < first.size()) most = std::max(most, columns);
    // An equal share of the columns of all ranks. An axis that is made of this one has no more.
    if (a < first.size() && !first[a].empty())
      most = std::max(most, (first[a].back() + first[a].size() - 2) / (first[a].size() - 1));
  }
  if (most > e.program.planned_columns()) e.plan(most);
  e.run.share = share_of(batch, batch.global_samples);
  e.run.dropout_rate = mode.dropout_rate;
  e.run.dropout_seed = mode.dropout_seed;
  e.run.normalization_time_constant = mode.normalization_time_constant;
  e.run.blend_time_constant = mode.blend_time_constant;
}

// A share without samples: other ranks wait for this rank's contribution to their statistics, which is zero.
void Network::Impl::join_ranks(Executable& e, const Batch& batch) {
  if (!mode.sum_over_ranks) return;
  attach(e, batch, {});
  e.run.sum_over_ranks = &mode.sum_over_ranks;
  e.program.join_forward(e.run);
  join_backward(e);
}

// The other ranks continue with their backward pass; this one has no part in it.
void Network::Impl::join_backward(Executable& e) {
  if (!e.run.sum_over_ranks) return;
  std::fill(e.run.columns.begin(), e.run.columns.end(), 0);
  e.program.join_backward(e.run);
  e.run.sum_over_ranks = nullptr;
}

void Network::Impl::clear_dense_gradients() {
  for (const Slice& s : parameters.slices)
    if (!s.sparse_gradient) backend->fill(0, parameters.gradients.data() + s.offset, s.size());
}

StepMetrics Network::forward_backward(const Batch& batch, GradientSink& chunks, std::int64_t update_samples) {
  Impl& m = *impl_;
  assert(m.training && "plan_training comes first");
  Executable& e = *m.training;
  StepMetrics metrics = m.no_metrics(batch.samples);
  // Unless metrics are deferred, the criterion is read before the first chunk is announced; by then a device is busy
  // with the backward pass.
  std::optional<std::pair<Part, std::uint64_t>> untold;  // and the event recorded after its forward pass
  const auto tell = [&] {
    if (!untold) return;
    const auto [part, event] = *std::exchange(untold, {});
    m.backend->synchronize(event);
    m.metrics(e, metrics);
    if (!m.on_any_rank(e, std::isnan(metrics.criterion))) return;
    m.join_backward(e);
    m.report_not_finite(e, batch, part, *m.criterion);
  };
  Announcer announcer(chunks, *m.backend, std::ref(tell));
  e.run.sink = &announcer;
  e.run.gradient_scale = m.gradient_scale;
  e.run.share_of_update = share_of(batch, update_samples > 0 ? update_samples : batch.global_samples);
  if (m.divides_gradients && m.gradient_scale != 1) announcer.unscale(m.parameters, 1 / m.gradient_scale);
  const auto& parts = m.parts(e, batch);
  if (!e.was_sent(batch)) e.sent = {};
  m.touched.list(m.streams, batch, m.parameters, *m.backend);
  if (m.deferred) m.deferred->begin_step(batch);
  if (parts.empty()) {
    m.clear_dense_gradients();
    m.join_ranks(e, batch);
    if (!chunks.follows_device()) m.backend->synchronize();
    e.program.announce_all(e.run);
  }
  // Layers that every rank computes for its own samples have no gradient here.
  if (m.divided() && batch.samples == 0) m.clear_dense_gradients();
  e.run.weights_version = m.backend->new_version();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    e.run.first_part = p == 0;
    e.run.last_part = p + 1 == parts.size();
    m.attach(e, batch, parts[p]);
    e.sent = {};
    e.run.sum_over_ranks = m.mode.sum_over_ranks ? &m.mode.sum_over_ranks : nullptr;
    e.replay.begin(e.run);
    e.program.forward(e.run, &e.replay);
    if (m.deferred)
      m.keep_results(e);
    else
      untold.emplace(parts[p], m.backend->record_event());
    // Ranks that compute layers together agree on NaN at one point of the step.
    if (m.backend->is_host() || e.run.sum_over_ranks || m.divided()) tell();
    e.program.backward(e.run, &e.replay);
    tell();
    e.run.sum_over_ranks = nullptr;
  }
  if (!chunks.follows_device()) m.backend->synchronize();
  if (m.deferred && m.deferred->full()) m.finish_earliest(metrics);
  return metrics;
}

void Network::scale_gradients(double scale, bool divide) {
  impl_->gradient_scale = static_cast<float>(scale);
  impl_->divides_gradients = divide;
}

// The sum of the absolute values: in double it cannot overflow for finite floats.
bool Network::unscale_gradients(const Batch* next) {
  Impl& m = *impl_;
  if (!m.gradient_sum) m.gradient_sum = m.backend->make_sums(1);
  m.backend->scale(1 / m.gradient_scale, m.parameters.gradients.data(), m.parameters.size(), m.gradient_sum.get());
  if (next) m.send(*m.training, *next);
  m.backend->synchronize();
  return std::isfinite(m.gradient_sum[0]);
}

void Network::clear_gradients() {
  impl_->backend->fill(0, impl_->parameters.gradients.data(), impl_->parameters.size());
}

StepMetrics Network::evaluate(const Batch& batch, const Batch* next) {
  Impl& m = *impl_;
  Executable& e = m.evaluating();
  StepMetrics metrics = m.no_metrics(batch.samples);
  e.run.weights_version = m.backend->new_version();
  if (!e.was_sent(batch)) e.sent = {};
  const std::size_t parts = m.parts(e, batch).size();
  for (std::size_t p = 0; p < parts; ++p) {
    m.attach(e, batch, e.parts[p]);
    e.sent = {};
    e.program.forward(e.run);
    if (next && p + 1 == parts) m.send(e, *next);
    m.backend->synchronize();
    m.metrics(e, metrics);
  }
  return metrics;
}

// Those of the inputs on this axis.
std::span<const std::int64_t> Network::Impl::sequences_of(const Executable& e, const Batch& batch, std::size_t axis) {
  for (const Tensor& t : e.program.code().tensors)
    if (t.kind == Tensor::Kind::input && !t.gathered_from && t.axis == axis)
      if (const auto begin = stream_of(streams, batch, t.name)->sequence_begin; !begin.empty()) return begin;
  return {};
}

std::vector<Network::Output> Network::forward(const Batch& batch) {
  Impl& m = *impl_;
  assert(m.output && "plan_evaluation with nodes comes first");
  Executable& e = *m.output;
  // All values must be in memory at once, so the share is not split: the plan grows to the largest share seen.
  const auto& parts = m.parts(e, batch);
  std::vector<Output> outputs;
  e.run.weights_version = m.backend->new_version();
  // A program of parameters only has no columns to divide, and values all the same.
  const bool computes = !parts.empty() || std::ranges::none_of(e.program.code().tensors, [](const Tensor& t) {
    return t.kind == Tensor::Kind::input;
  });
  if (computes) {
    m.attach(e, batch, parts.empty() ? Part{} : Part{parts.front().first, parts.back().last});
    e.program.forward(e.run);
  }
  for (const auto root : e.roots) {
    const graph::Operand& o = e.program.code().of_node.at(root);
    const bool nothing = !computes || (o.per_sample && parts.empty());
    const std::size_t columns = nothing ? 0 : o.per_sample ? e.run.columns[o.axis] : 1;
    const bool packed = o.per_sample && !parts.empty() && e.program.sequential();
    outputs.push_back(
        {m.graph.nodes[root].name, m.values[root].shape, columns, o.per_sample,
         m.on_host(packed ? m.in_stream_order(e, root, o) : e.run.value(o), columns * o.elements, e.host[root]),
         packed         ? e.run.sequences[o.axis].stream_begin()
         : o.per_sample ? m.sequences_of(e, batch, o.axis)
                        : std::span<const std::int64_t>()});
  }
  return outputs;
}

void Network::forget_states() {
  for (auto* e : {impl_->training.get(), impl_->evaluation.get(), impl_->output.get(), impl_->statistics.get()})
    if (e)
      for (auto& state : e->run.states) state.forget_all();
}

void Network::keep_states(bool on) { impl_->keeps_states = on; }

}  // namespace tutti
