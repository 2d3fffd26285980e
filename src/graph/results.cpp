// SPDX-License-Identifier: Apache-2.0
// The results of a step: criteria and evaluations, at once or deferred, and why a criterion is NaN.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "graph/network_impl.h"

namespace tutti {
namespace {

using graph::Tensor;

std::size_t default_axis(const graph::Lowered& code) {
  for (std::size_t a = 0; a < code.axes.size(); ++a)
    if (code.axes[a].empty()) return a;
  return 0;
}

}  // namespace

std::span<const float> Network::Impl::on_host(const float* values, std::size_t count,
                                              std::vector<float>& workspace) const {
  if (backend->is_host()) return {values, count};
  workspace.resize(count);
  backend->download(values, workspace.data(), count);
  return workspace;
}

double Network::Impl::total(Executable& e, std::size_t node, const graph::Operand& o, const double* sums) const {
  if (e.program.sums_in_double(o.tensor)) return sums[o.tensor];
  double sum = 0;
  for (const float value : on_host(e.run.value(o), e.run.count(o), e.host[node])) sum += value;
  return sum;
}

// Ratios count what they are divided by. Values with a sample axis count their own samples, all others those of the
// default axis.
void Network::Impl::metrics(Executable& e, std::span<const std::size_t> columns, const double* sums,
                            StepMetrics& t) const {
  const auto& code = e.program.code();
  const double samples = static_cast<double>(code.axes.empty() ? 0 : columns[default_axis(code)]);
  const auto count = [&](std::size_t node) {
    const graph::Operand& o = code.of_node.at(node);
    const auto divisor = code.divisor_of_node.find(node);
    if (divisor != code.divisor_of_node.end()) return total(e, node, divisor->second, sums);
    return o.per_sample ? static_cast<double>(columns[o.axis]) : samples;
  };
  if (criterion) {
    t.criterion += total(e, *criterion, code.of_node.at(*criterion), sums);
    t.criterion_count += count(*criterion);
  }
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    t.evaluations[i].sum += total(e, evaluations[i], code.of_node.at(evaluations[i]), sums);
    t.evaluations[i].count += count(evaluations[i]);
  }
}

// Only sums in double on a device can be read after the next step has begun.
bool Network::Impl::can_defer_metrics() const {
  if (backend->is_host() || divided() || !criterion || !training) return false;
  const auto kept = [&](std::size_t node) {
    const auto& program = training->program;
    return program.sums_in_double(program.code().of_node.at(node).tensor);
  };
  return kept(*criterion) && std::all_of(evaluations.begin(), evaluations.end(), kept);
}

void Network::Impl::keep_results(Executable& e) {
  const auto& code = e.program.code();
  deferred->keep(*backend, e.run.columns, e.run.sums.get(), code.tensors.size(), code.of_node.at(*criterion).tensor);
}

void Network::Impl::finish_earliest(StepMetrics& metrics) {
  const graph::DeferredResults::Step& step = deferred->earliest();
  backend->synchronize(step.event);
  for (std::size_t p = 0; p < step.used; ++p)
    this->metrics(*training, step.parts[p].columns, step.parts[p].sums.get(), metrics);
  measured_minibatch = step.minibatch;
  const std::int64_t position = step.position;
  deferred->drop_earliest();
  if (std::isnan(metrics.criterion))
    throw DeferredNumericError(
        position, measured_minibatch,
        fmt::format("The training criterion '{}' is not a number (NAN)", graph.nodes[*criterion].name));
}

bool Network::defer_metrics(bool on) {
  Impl& m = *impl_;
  assert(!m.deferred || m.deferred->empty());
  m.deferred.reset();
  if (!on || !m.can_defer_metrics()) return false;
  m.deferred.emplace();
  m.backend->let_weights_change();
  return true;
}

std::optional<StepMetrics> Network::next_deferred_metrics() {
  Impl& m = *impl_;
  if (!m.deferred || m.deferred->empty()) return {};
  StepMetrics metrics = m.no_metrics();
  m.finish_earliest(metrics);
  return metrics;
}

std::int64_t Network::measured_minibatch() const { return impl_->measured_minibatch; }

void Network::explain_nan(const Batch& batch) {
  Impl& m = *impl_;
  Executable& e = *m.training;
  m.backend->synchronize();
  e.sent = {};
  for (const Part& part : m.parts(e, batch)) {
    m.attach(e, batch, part);
    e.program.forward(e.run);
    m.backend->synchronize();
    StepMetrics metrics = m.no_metrics();
    m.metrics(e, metrics);
    if (std::isnan(metrics.criterion)) m.report_not_finite(e, batch, part, *m.criterion);
  }
}

// The criterion is NaN: runs again and checks every value for the first cause. Collective where layers are divided.
void Network::Impl::report_not_finite(Executable& e, const Batch& batch, const Part& part, std::size_t root) {
  backend->synchronize();
  NotFinite cause = find_not_finite(e, batch, part, root);
  if (divided()) cause = first_of_ranks(std::move(cause));
  throw NumericError(cause.node, fmt::format("The training criterion '{}' is not a number (NAN): {}",
                                             graph.nodes[root].name, cause.what));
}

Network::Impl::NotFinite Network::Impl::find_not_finite(Executable& e, const Batch& batch, const Part& part,
                                                        std::size_t root) {
  std::vector<float> workspace;
  const auto finite = [](std::span<const float> v) {
    return std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x); });
  };
  std::optional<NotFinite> found;
  const auto note = [&](std::int64_t order, const std::string& node, const char* what) {
    if (!found) found = NotFinite{order, node, fmt::format(fmt::runtime(what), node)};
  };
  for (const auto& s : parameters.slices)
    if (!finite({parameters.weights.data() + s.offset, s.size()}))
      note(0, s.name, "the parameter '{}' already holds values that are not finite");
  attach(e, batch, part);
  const auto& tensors = e.program.code().tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].kind != Tensor::Kind::input || !e.run.values[t]) continue;
    if (!finite(on_host(e.run.values[t], e.run.columns[tensors[t].axis] * tensors[t].elements, workspace)))
      note(1, tensors[t].name, "the data of input '{}' hold values that are not finite");
  }
  if (found && !divided()) return *found;
  const std::optional<std::size_t> kernel = e.program.first_not_finite(e.run);
  const std::string node = kernel ? e.program.node_of(*kernel) : "";
  const std::int64_t order = kernel ? 2 + static_cast<std::int64_t>(*kernel) : NotFinite::last;
  // This step has updated the running statistics with NaN, so they are the cause where they are used first.
  const auto reads = [&](const graph::Node& n, std::size_t input) {
    return n.name == node && std::find(n.inputs.begin(), n.inputs.end(), input) != n.inputs.end();
  };
  for (const auto& s : stored) {
    const bool used =
        std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& n) { return reads(n, s.node); });
    if ((!kernel || used) && !finite(s.values.span()))
      note(order, graph.nodes[s.node].name, "'{}' holds values that are not finite");
  }
  if (kernel) note(order, node, "'{}' is the first node with values that are not finite");
  note(order, graph.nodes[root].name, "the sum over the samples overflows");
  return *found;
}

// What the ranks that compute together have found first.
Network::Impl::NotFinite Network::Impl::first_of_ranks(NotFinite mine) {
  Communicator& ranks = *options.model_parallel.ranks;
  std::vector<std::int64_t> orders(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(&mine.order, 1)), std::as_writable_bytes(std::span(orders)));
  const auto first = std::min_element(orders.begin(), orders.end());
  const auto rank = static_cast<int>(first - orders.begin());
  if (std::count(orders.begin(), orders.end(), *first) < ranks.size())
    mine.what += fmt::format(", on rank {}", ranks.world_rank(rank));
  for (std::string* text : {&mine.node, &mine.what}) {
    std::size_t size = text->size();
    ranks.broadcast(rank, std::as_writable_bytes(std::span(&size, 1)));
    text->resize(size);
    ranks.broadcast(rank, std::as_writable_bytes(std::span(*text)));
  }
  return mine;
}

bool Network::Impl::on_any_rank(Executable& e, bool mine) const {
  if (!divided()) return mine;
  const std::int64_t flag = mine ? 1 : 0;
  Communicator& ranks = *options.model_parallel.ranks;
  auto& all = e.gathered.all;  // large enough since the columns of all ranks were gathered
  all.resize(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(&flag, 1)), std::as_writable_bytes(std::span(all)));
  return std::count(all.begin(), all.end(), 1) > 0;
}

const float* Network::Impl::in_stream_order(Executable& e, std::size_t root, const graph::Operand& o) {
  const graph::SequenceTable& table = e.run.sequences[o.axis];
  const std::size_t count = table.columns() * o.elements;
  if (table.in_stream_order()) return e.run.value(o);
  e.unpacked.resize(std::max(e.unpacked.size(), root + 1));
  float* workspace = e.unpacked[root].reserve(*backend, count);
  backend->fill(0, workspace, count);
  backend->scatter_columns(table.source(), o.elements, e.run.value(o), workspace);
  return workspace;
}

}  // namespace tutti
