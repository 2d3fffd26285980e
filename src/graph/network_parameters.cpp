// SPDX-License-Identifier: Apache-2.0
// The parameters and the other state of a network: where they lie, and their initial values.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/initialize.h"
#include "graph/network_impl.h"

namespace tutti {
namespace {

// Behind its first axis there are only axes of length 1.
bool is_vector(const Shape& shape) { return shape.elements() == shape[0]; }

using graph::is_statistic;

// The first axis; of a convolution's kernel, whose first axes are short, those that make a column of a useful length
// for codecs, up to a whole filter.
std::size_t rows_of(const Shape& shape) {
  constexpr std::size_t useful = 64;
  std::size_t rows = std::max<std::size_t>(shape[0], 1);
  for (std::size_t axis = 1; axis + 1 < shape.rank() && rows < useful; ++axis) rows *= shape[axis];
  return rows;
}

// In rank order, so that every rank gets the same bits.
void sum_over(Communicator& ranks, std::span<double> sums) {
  std::vector<double> all(sums.size() * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(sums), std::as_writable_bytes(std::span(all)));
  std::fill(sums.begin(), sums.end(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % sums.size()] += all[i];
}

// Whole runs of `unit` floats and whole columns, about two megabytes each and nearly equal.
std::vector<GradientChunk> cut(std::size_t slice, const Slice& s, std::size_t unit) {
  constexpr std::size_t target = std::size_t{1} << 19;
  const std::size_t size = s.size();
  std::size_t columns = s.columns;
  if (unit != 0 && size > target) {
    const std::size_t least = std::lcm(unit, s.rows) / s.rows;  // columns
    const std::size_t wanted = (size + target - 1) / target;
    const std::size_t even = (s.columns + wanted - 1) / wanted;
    const std::size_t step = least < 16 && s.columns >= 16 * wanted ? least * 16 : least;
    columns = (even + step - 1) / step * step;
  }
  std::vector<GradientChunk> chunks;
  for (std::size_t first = 0; first < s.columns; first += columns)
    chunks.push_back({slice, first, std::min(columns, s.columns - first)});
  return chunks;
}

}  // namespace

void Network::Impl::lay_out_parameters() {
  const auto& program = training->program;
  std::size_t size = 0;
  // Parts of a parameter come last, so that what the ranks exchange is one range.
  std::vector<graph::Program::Ready> all = program.ready();
  std::stable_partition(all.begin(), all.end(), [&](const auto& r) { return !program.code().tensors[r.tensor].shard; });
  for (const auto& ready : all) {
    const std::size_t index = program.code().tensors[ready.tensor].node;
    const graph::Node& node = graph.nodes[index];
    Slice s;
    s.name = node.name, s.shard = shard_of(index), s.shape = part_of(index), s.offset = size;
    s.rows = ready.sparse ? std::max<std::size_t>(s.shape[0], 1) : rows_of(s.shape),
    s.columns = s.shape.elements() / s.rows;
    s.learning_rate_multiplier = graph::number(node, "learningRateMultiplier", 1);
    s.regularization_multiplier = graph::number(node, "regularizationMultiplier", 1);
    if (leaves_unregularized(index)) s.regularization_multiplier = 0;
    s.vector = is_vector(s.shard ? s.shard->whole : s.shape);
    s.sparse_gradient = ready.sparse, s.sparse_by_row = ready.sparse_by_row;
    slice_of[index] = parameters.slices.size();
    const auto chunks = cut(parameters.slices.size(), s, ready.unit);
    parameters.chunks.insert(parameters.chunks.end(), chunks.begin(), chunks.end());
    size += (s.size() + 15) / 16 * 16;
    parameters.slices.push_back(std::move(s));
  }
  try {
    parameters.weights = FloatBuffer(size, backend->shared_memory());
    parameters.gradients = FloatBuffer(size, backend->shared_memory());
  } catch (const Error& e) {
    throw_with_largest_parameter(e.what());
  }
  if (divided())
    parameters.sum_over_shards = [ranks = options.model_parallel.ranks](std::span<double> sums) {
      sum_over(*ranks, sums);
    };
  training->run.chunks.resize(program.code().tensors.size());
  for (std::size_t p = 0; p < parameters.chunks.size(); ++p) {
    const GradientChunk& chunk = parameters.chunks[p];
    const std::size_t rows = parameters.slices[chunk.slice].rows;
    training->run.chunks[all[chunk.slice].tensor].push_back({p, chunk.first_column * rows, chunk.columns * rows});
  }
  find_sparse_sources();
}

// The parameters exceed the memory: reported at the largest one.
void Network::Impl::throw_with_largest_parameter(const std::string& what) const {
  const auto largest = std::max_element(parameters.slices.begin(), parameters.slices.end(),
                                        [](const Slice& a, const Slice& b) { return a.size() < b.size(); });
  const auto& node = *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [&](const graph::Node& n) { return n.name == largest->name; });
  throw ConfigError(node.where,
                    fmt::format("{}; the largest parameter is '{}', {}", what, node.name, to_string(largest->shape)),
                    "make it smaller, or train on a machine with more memory");
}

void Network::Impl::find_sparse_sources() {
  const auto& program = training->program;
  std::vector<graph::SparseRows::Source> sources;
  for (std::size_t s = 0; s < parameters.slices.size(); ++s) {
    if (!parameters.slices[s].sparse_gradient) continue;
    const auto& ready = *std::find_if(program.ready().begin(), program.ready().end(), [&](const auto& r) {
      return slice_of[program.code().tensors[r.tensor].node] == s;
    });
    for (const auto input : program.sparse_inputs(ready.tensor)) {
      const graph::Tensor& t = program.code().tensors[input];
      sources.push_back({s, t.name, ready.lines, t.gathered_from ? input : graph::SparseRows::none});
    }
  }
  touched.bind(std::move(sources), parameters);
}

// Whether a parameter is scale or bias of a batch normalisation without regularization.
bool Network::Impl::leaves_unregularized(std::size_t parameter) const {
  return std::any_of(order.begin(), order.end(), [&](std::size_t index) {
    const graph::Node& node = graph.nodes[index];
    return node.operation == "BatchNormalization" && (node.inputs[1] == parameter || node.inputs[2] == parameter) &&
           (!options.regularize_normalization || graph::flag(node, "disableRegularization", false));
  });
}

void Network::Impl::lay_out_state() {
  for (const auto index : order) {
    const graph::Node& node = graph.nodes[index];
    const bool counts = node.operation == "BatchNormalization";
    if (!(is_statistic(node) || is_parameter(node) || counts) || slice_of[index] != none) continue;
    const Shape shape = counts ? Shape{{2}} : part_of(index);
    store_of[index] = stored.size();
    // Counts are used on the host only; shared memory would be transferred in every step.
    const FloatMemory& memory = counts ? host_memory() : backend->shared_memory();
    stored.push_back(
        {index, FloatBuffer(shape.elements(), memory), node.name, shape, counts ? std::nullopt : shard_of(index)});
  }
}

std::vector<Network::State> Network::state() {
  std::vector<State> all;
  synchronize();
  const auto is_one = [&](std::size_t node) {
    return impl_->training && impl_->training->program.code().ones.contains(node);
  };
  for (auto& s : impl_->stored) all.push_back({s.name, s.shape, s.values.span(), s.shard, is_one(s.node)});
  return all;
}

std::optional<ParameterShard> Network::Impl::shard_of(std::size_t node) const {
  const auto found = shards.find(node);
  return found == shards.end() ? std::nullopt : std::optional(found->second);
}

// The shape that this rank has of a parameter.
Shape Network::Impl::part_of(std::size_t node) const {
  const auto shard = shard_of(node);
  const Communicator* ranks = options.model_parallel.ranks;
  return shard ? shard->part(ranks->rank(), ranks->size()) : values[node].shape;
}

// Random values are those of the whole parameter, whatever its placement.
void Network::Impl::initialize(std::size_t node, std::span<float> part) const {
  const auto shard = shard_of(node);
  if (!shard) return graph::initialize(graph.nodes[node], values[node].shape, part);
  std::vector<float> whole(shard->whole.elements());
  graph::initialize(graph.nodes[node], shard->whole, whole);
  take_own_part(node, whole, part);
}

void Network::Impl::take_own_part(std::size_t node, std::span<const float> whole, std::span<float> part) const {
  const Communicator* ranks = options.model_parallel.ranks;
  if (const auto shard = shard_of(node))
    take_part(*shard, ranks->rank(), ranks->size(), whole, part);
  else
    std::ranges::copy(whole, part.begin());
}

void Network::initialize_parameters() {
  Impl& m = *impl_;
  synchronize();
  for (auto& s : m.stored) std::fill(s.values.span().begin(), s.values.span().end(), 0.0f);
  for (const auto index : m.order) {
    if (!is_parameter(m.graph.nodes[index])) continue;
    std::span<float> values;
    if (m.slice_of[index] != Impl::none) {
      const Slice& s = m.parameters.slices[m.slice_of[index]];
      values = m.parameters.weights.span().subspan(s.offset, s.size());
    } else {
      values = m.stored[m.store_of[index]].values.span();
    }
    m.initialize(index, values);
  }
  for (auto& s : m.stored) {
    const graph::Node& node = m.graph.nodes[s.node];
    if (!node.start || is_parameter(node)) continue;
    const Shape whole = s.shard ? s.shard->whole : s.shape;
    std::vector<float> values(whole.elements());
    graph::start_from(node, whole, values);
    m.take_own_part(s.node, values, s.values.span());
  }
}

}  // namespace tutti
