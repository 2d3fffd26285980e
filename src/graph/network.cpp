// SPDX-License-Identifier: Apache-2.0
// From a graph to an executable: roots, shapes, parameters, streams.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "graph/initialize.h"
#include "graph/network_impl.h"

namespace tutti {
namespace {

using graph::is_statistic;
bool is_parameter(const graph::Node& node) { return node.operation == "LearnableParameter"; }

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

Network::Impl::Impl(graph::Graph g, const NetworkOptions& o) : graph(std::move(g)), options(o) {
  choose_roots();
  infer();
  for (const auto index : order)
    if (is_parameter(graph.nodes[index])) graph::check_initializer(graph.nodes[index]);
  backend = make_backend(options.device, options.compute_type);
  slice_of.assign(graph.nodes.size(), none), store_of.assign(graph.nodes.size(), none);
  if (criterion) {
    training = make(criterion_roots(), program_options(criterion));
    if (auto* capture = dynamic_cast<GraphCapture*>(backend.get()); capture && options.repeat_steps)
      training->replay.use(*capture);
    lay_out_parameters();
  }
  lay_out_state();
}

std::size_t Network::Impl::find(const std::string& name) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == name) return i;
    names.push_back(graph.nodes[i].name);
  }
  const std::string near = nearest(name, names);
  throw ConfigError({}, fmt::format("the network has no node '{}'", name),
                    near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

void Network::Impl::choose_roots() {
  if (!options.criterion.empty())
    criterion = find(options.criterion);
  else if (!graph.criteria.empty())
    criterion = graph.criteria.front();
  if (options.evaluations.empty())
    evaluations = graph.evaluations;
  else
    for (const auto& name : options.evaluations) evaluations.push_back(find(name));
}

std::vector<std::size_t> Network::Impl::criterion_roots() const {
  std::vector<std::size_t> roots = evaluations;
  if (criterion) roots.insert(roots.begin(), *criterion);
  return roots;
}

void Network::Impl::infer() {
  std::vector<std::size_t> roots = criterion_roots();
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    roots.insert(roots.end(), set->begin(), set->end());
  if (roots.empty())  // as where a script loads a model and adds nodes that only an action names
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) roots.push_back(i);
  for (const auto* set : {&graph.features, &graph.labels}) roots.insert(roots.end(), set->begin(), set->end());
  order = graph::evaluation_order(graph, roots);
  values = graph::infer_graph(graph, order);
  adopt_other_nodes();
}

// Nodes besides the roots that depend only on nodes in use, so that an action may name them without a tag.
void Network::Impl::adopt_other_nodes() {
  std::set<std::size_t> used(order.begin(), order.end());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& inputs = graph.nodes[i].inputs;
    if (used.contains(i) || inputs.empty()) continue;
    if (!std::all_of(inputs.begin(), inputs.end(), [&](std::size_t in) { return used.contains(in); })) continue;
    auto longer = order;
    longer.push_back(i);
    try {
      graph::Graph copy = graph;
      auto found = graph::infer_graph(copy, longer);
      values = std::move(found), order = std::move(longer);
      used.insert(i);
    } catch (const ConfigError&) {
      // The node is not used; whoever uses it gets the error.
    }
  }
}

std::unique_ptr<Executable> Network::Impl::make(const std::vector<std::size_t>& roots,
                                                const graph::Program::Options& o) {
  auto e = std::make_unique<Executable>(graph, values, roots, *backend, o);
  e->program.prepare(e->run);
  e->dense.resize(e->program.code().tensors.size());
  e->host.resize(graph.nodes.size());
  return e;
}

graph::Program::Options Network::Impl::program_options(std::optional<std::size_t> trained) const {
  return {.criterion = trained,
          .training = trained.has_value(),
          .reuse_memory = options.reuse_memory,
          .winograd = options.winograd,
          .image_layouts = options.image_layouts,
          .half_values = options.half_values};
}

void Network::Impl::lay_out_parameters() {
  const auto& program = training->program;
  std::size_t size = 0;
  for (const auto& ready : program.ready()) {
    const std::size_t index = program.code().tensors[ready.tensor].node;
    const graph::Node& node = graph.nodes[index];
    Slice s;
    s.name = node.name, s.shape = values[index].shape, s.offset = size;
    s.rows = std::max<std::size_t>(s.shape[0], 1), s.columns = s.shape.elements() / s.rows;
    s.learning_rate_multiplier = graph::number(node, "learningRateMultiplier", 1);
    s.regularization_multiplier = graph::number(node, "regularizationMultiplier", 1);
    if (!options.regularize_normalization && normalizes(index)) s.regularization_multiplier = 0;
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
  training->run.chunks.resize(program.code().tensors.size());
  for (std::size_t p = 0; p < parameters.chunks.size(); ++p) {
    const GradientChunk& chunk = parameters.chunks[p];
    const std::size_t rows = parameters.slices[chunk.slice].rows;
    training->run.chunks[program.ready()[chunk.slice].tensor].push_back(
        {p, chunk.first_column * rows, chunk.columns * rows});
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
    const auto& ready = program.ready()[s];
    for (const auto input : program.sparse_inputs(ready.tensor))
      sources.push_back({s, program.code().tensors[input].name, ready.lines});
  }
  touched.bind(std::move(sources), parameters);
}

// Whether a parameter is scale or bias of a batch normalisation.
bool Network::Impl::normalizes(std::size_t parameter) const {
  return std::any_of(order.begin(), order.end(), [&](std::size_t index) {
    const graph::Node& node = graph.nodes[index];
    return node.operation == "BatchNormalization" && (node.inputs[1] == parameter || node.inputs[2] == parameter);
  });
}

void Network::Impl::lay_out_state() {
  for (const auto index : order) {
    const graph::Node& node = graph.nodes[index];
    const bool counts = node.operation == "BatchNormalization";
    if (!(is_statistic(node) || is_parameter(node) || counts) || slice_of[index] != none) continue;
    const Shape shape = counts ? Shape{{2}} : values[index].shape;
    store_of[index] = stored.size();
    // Counts are used on the host only; shared memory would be transferred in every step.
    const FloatMemory& memory = counts ? host_memory() : backend->shared_memory();
    stored.push_back({index, FloatBuffer(shape.elements(), memory), node.name, shape});
  }
}

std::vector<Network::Input> Network::Impl::inputs_of(const std::vector<std::size_t>& roots) const {
  std::vector<Network::Input> inputs;
  for (const auto index : graph::execution_order(graph, roots))
    if (graph.nodes[index].operation == "InputValue")
      inputs.push_back(
          {graph.nodes[index].name, values[index].shape, graph::flag(graph.nodes[index], "sparse", false)});
  return inputs;
}

Network::Network(graph::Graph graph, const NetworkOptions& options)
    : impl_(std::make_unique<Impl>(std::move(graph), options)) {}
Network::~Network() = default;

const graph::Graph& Network::graph() const { return impl_->graph; }
Parameters& Network::parameters() {
  synchronize();
  return impl_->parameters;
}
void Network::synchronize() { impl_->backend->synchronize(); }
void Network::make_current() { impl_->backend->make_current(); }

std::vector<Network::State> Network::state() {
  std::vector<State> all;
  synchronize();
  for (auto& s : impl_->stored) all.push_back({s.name, s.shape, s.values.span()});
  return all;
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
    graph::initialize(m.graph.nodes[index], m.values[index].shape, values);
  }
  for (auto& s : m.stored)
    if (const graph::Node& node = m.graph.nodes[s.node]; node.start && !is_parameter(node))
      graph::start_from(node, Shape{{s.values.size()}}, s.values.span());
}

std::vector<Network::Input> Network::inputs_for_training() const { return impl_->inputs_of(impl_->criterion_roots()); }

std::vector<Network::Input> Network::inputs_for(const std::vector<std::string>& nodes) const {
  std::vector<std::size_t> roots;
  for (const auto& name : nodes) roots.push_back(impl_->find(name));
  return impl_->inputs_of(roots);
}

void Network::bind(const std::vector<StreamInfo>& streams) {
  Impl& m = *impl_;
  for (const auto index : m.order) {
    const graph::Node& node = m.graph.nodes[index];
    if (node.operation != "InputValue") continue;
    const auto stream =
        std::find_if(streams.begin(), streams.end(), [&](const auto& s) { return s.name == node.name; });
    if (stream == streams.end()) continue;
    const std::size_t elements = m.values[index].shape.elements();
    if (stream->dim != elements)
      throw Error(
          fmt::format("the reader's stream '{}' has dimension {}, but the network's input '{}' is {} ({} elements)",
                      stream->name, stream->dim, node.name, to_string(m.values[index].shape), elements));
    if (graph::flag(node, "sparse", false) && !stream->sparse)
      throw Error(
          fmt::format("the network's input '{}' is declared sparse, but the reader delivers it dense; read it with "
                      "format = \"sparse\" or declare it with Input",
                      node.name));
  }
  const auto need = [&](const std::vector<std::size_t>& roots) {
    for (const auto& input : m.inputs_of(roots))
      if (std::none_of(streams.begin(), streams.end(), [&](const auto& s) { return s.name == input.name; })) {
        std::vector<std::string> names;
        for (const auto& s : streams) names.push_back(s.name);
        throw Error(fmt::format("the network's input '{}' has no stream of that name in the reader (it has: {})",
                                input.name, fmt::join(names, ", ")));
      }
  };
  for (const auto* e : {m.evaluation.get(), m.output.get()})
    if (e) need(e->roots);
  if (m.training && m.training->program.planned_columns() > 0) need(m.training->roots);
  m.streams = streams;
  for (Executable* e : {m.training.get(), m.evaluation.get()})
    if (e) e->sent = {};
}

void Network::plan_training(std::int64_t max_columns) {
  if (!impl_->training)
    throw ConfigError({}, "the network has no training criterion",
                      "name one: criterionNodes = (ce), or tag = 'criterion' on the node");
  impl_->training->plan_parts(static_cast<std::size_t>(max_columns));
}

Executable& Network::Impl::evaluating() {
  if (!evaluation) evaluation = make(criterion_roots(), program_options({}));
  return *evaluation;
}

void Network::plan_evaluation(std::int64_t max_columns, const std::vector<std::string>& nodes) {
  Impl& m = *impl_;
  if (nodes.empty()) {
    m.evaluating().plan_parts(static_cast<std::size_t>(max_columns));
    return;
  }
  std::vector<std::size_t> roots;
  for (const auto& name : nodes) {
    roots.push_back(m.find(name));
    if (std::find(m.order.begin(), m.order.end(), roots.back()) == m.order.end())
      throw ConfigError(
          m.graph.nodes[roots.back()].where,
          fmt::format("'{}' depends on nodes that the network's criteria, evaluations and outputs do not use", name),
          "tag the node: tag = 'output'");
  }
  m.output = m.make(roots, m.program_options({}));
  m.output->plan_parts(static_cast<std::size_t>(max_columns));
}

NodeResult Network::criterion() const {
  if (!impl_->criterion) return {};
  return {impl_->graph.nodes[*impl_->criterion].name, impl_->graph.nodes[*impl_->criterion].operation};
}

std::vector<NodeResult> Network::evaluations() const {
  std::vector<NodeResult> all;
  for (const auto index : impl_->evaluations)
    all.push_back({impl_->graph.nodes[index].name, impl_->graph.nodes[index].operation});
  return all;
}

void Network::set_mode(const NetworkMode& mode) { impl_->mode = mode; }

const NetworkMode& Network::mode() const { return impl_->mode; }

std::size_t Network::random_nodes() const { return impl_->training ? impl_->training->program.code().random_nodes : 0; }

std::string Network::describe() const {
  const Impl& m = *impl_;
  if (!m.training) return fmt::format("backend: {}", m.backend->name());
  const auto& program = m.training->program;
  const auto& code = program.code().instructions;
  const auto any = [&](const auto& is) { return std::any_of(code.begin(), code.end(), is); };
  const bool images = any([](const auto& i) { return i.operation == "Convolution"; });
  const auto half = [](const graph::Operand& o) { return o.element != Element::float32; };
  const bool half_images = any([&](const auto& i) { return half(i.out) && i.out.format == Format::blocked; });
  const bool half_layers = any([&](const auto& i) { return plain_product(i) && (half(i.in[1]) || half(i.out)); });
  std::string text = fmt::format(
      "backend: {}; {} operations, {} with gradient, {} fused into the product before them; {:.1f} MB for values and "
      "gradients of "
      "{} samples; {} parameters in {} chunks",
      m.backend->name(), program.code().instructions.size(), program.instructions_with_gradient(), program.code().fused,
      static_cast<double>(program.memory()) * sizeof(float) / 1e6, program.planned_columns(),
      m.parameters.slices.size(), m.parameters.chunks.size());
  if (images) text += fmt::format("; {} image reorders", program.code().reorders);
  if (half_images) text += ", images in 16 bits";
  if (half_layers) text += "; between dense layers 16 bits";
  return text;
}

// Nodes of the criterion through which gradients flow, parameters included.
std::size_t Network::gradient_nodes() const {
  const Impl& m = *impl_;
  if (!m.criterion) return 0;
  std::vector<bool> needs(m.graph.nodes.size(), false);
  std::size_t count = 0;
  for (const auto index : graph::evaluation_order(m.graph, {*m.criterion})) {
    const auto& node = m.graph.nodes[index];
    needs[index] = is_parameter(node) ? graph::number(node, "learningRateMultiplier", 1) != 0
                                      : !is_statistic(node) && std::any_of(node.inputs.begin(), node.inputs.end(),
                                                                           [&](std::size_t i) { return needs[i]; });
    count += needs[index];
  }
  return count;
}

}  // namespace tutti
