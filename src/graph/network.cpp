// SPDX-License-Identifier: Apache-2.0
// From a graph to an executable: roots, shapes, parameters, streams.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "graph/initialize.h"
#include "graph/lowering.h"
#include "graph/network_impl.h"
#include "graph/placement.h"

namespace tutti {
namespace {

using graph::is_statistic;

}  // namespace

Network::Impl::Impl(graph::Graph g, const NetworkOptions& o) : graph(std::move(g)), options(o) {
  choose_roots();
  infer();
  for (const auto index : order)
    if (is_parameter(graph.nodes[index])) graph::check_initializer(graph.nodes[index]);
  backend = make_backend(options.device, options.compute_type, options.kernels);
  slice_of.assign(graph.nodes.size(), none), store_of.assign(graph.nodes.size(), none);
  if (criterion) {
    label_smoothing = graph::smooth_labels(graph, *criterion, options.label_smoothing);
    training = make(criterion_roots(), program_options(criterion, true));
    for (const graph::Tensor& t : training->program.code().tensors)
      if (t.shard) shards.emplace(t.node, *t.shard);
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
  order = graph::evaluation_order(graph, graph::roots_of(graph, criterion_roots()));
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

graph::Program::Options Network::Impl::program_options(std::optional<std::size_t> trained, bool results) const {
  return {.criterion = trained,
          .training = trained.has_value(),
          .reuse_memory = options.reuse_memory,
          .winograd = options.winograd,
          .image_layouts = options.image_layouts,
          .half_values = options.half_values,
          .model_parallel = divided() ? &options.model_parallel : nullptr,
          .shards = &shards,
          .label_smoothing = &label_smoothing,
          .results = results};
}

std::vector<Network::Input> Network::Impl::inputs_of(const std::vector<std::size_t>& roots) const {
  std::vector<Network::Input> inputs;
  for (const auto index : graph::execution_order(graph, roots))
    if (graph.nodes[index].operation == "InputValue")
      inputs.push_back(
          {graph.nodes[index].name, values[index].shape, graph::flag(graph.nodes[index], "sparse", false)});
  return inputs;
}

std::vector<DenseLayer> Network::dense_layers(graph::Graph graph, const NetworkOptions& options) {
  Impl m;
  m.graph = std::move(graph), m.options = options;
  m.choose_roots();
  m.infer();
  return graph::find_dense_layers(
      graph::Lowering(m.graph, m.values, true).run(graph::execution_order(m.graph, m.criterion_roots())));
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

std::vector<Network::Input> Network::inputs_for_training() const { return impl_->inputs_of(impl_->criterion_roots()); }

std::vector<Network::Input> Network::inputs_for(const std::vector<std::string>& nodes) const {
  std::vector<std::size_t> roots;
  for (const auto& name : nodes) roots.push_back(impl_->find(name));
  return impl_->inputs_of(roots);
}

std::optional<Diagnostic> misfit(const Network::Input& input, const StreamInfo& stream) {
  const std::size_t elements = input.shape.elements();
  if (stream.dim != elements)
    return Diagnostic{
        {},
        fmt::format("the reader's stream '{}' has dimension {}, but the network's input '{}' is {} ({} elements)",
                    stream.name, stream.dim, input.name, to_string(input.shape), elements),
        fmt::format("a reader that delivers {} values, or a network with an input of {}", elements, stream.dim)};
  if (input.sparse && !stream.sparse)
    return Diagnostic{
        {},
        fmt::format("the network's input '{}' is declared sparse, but the reader delivers it dense", input.name),
        "read it with format = \"sparse\", or declare it with Input"};
  return {};
}

void Network::bind(const std::vector<StreamInfo>& streams) {
  Impl& m = *impl_;
  for (const Input& input : m.inputs_of(m.order)) {
    const auto stream = std::ranges::find(streams, input.name, &StreamInfo::name);
    if (stream == streams.end()) continue;
    if (const auto d = misfit(input, *stream)) throw Error(fmt::format("{}\nfix: {}", d->message, d->fix));
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
  if (!evaluation) evaluation = make(criterion_roots(), program_options({}, true));
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
  m.output = m.make(roots, m.program_options({}, false));
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

// Rankings are documented to be those of a rank's share.
std::vector<NodeResult> Network::indivisible_nodes() const {
  const Impl& m = *impl_;
  std::vector<NodeResult> all;
  for (const auto index : graph::find_terms(m.graph, m.values, m.criterion_roots()).indivisible)
    if (const auto& node = m.graph.nodes[index]; node.operation != "LambdaRank" && node.operation != "NDCG1Eval")
      all.push_back({node.name, node.operation});
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
  std::size_t values = 0;
  for (const Slice& s : m.parameters.slices) values += (s.shard ? s.shard->whole : s.shape).elements();
  std::string text = fmt::format(
      "backend: {}; {} operations, {} with gradient, {} fused into the product before them; {:.1f} MB for values and "
      "gradients of {} samples; {} parameters in {} parameter tensors, {} chunks",
      m.backend->name(), program.code().instructions.size(), program.instructions_with_gradient(), program.code().fused,
      static_cast<double>(program.memory()) * sizeof(float) / 1e6, program.planned_columns(), values,
      m.parameters.slices.size(), m.parameters.chunks.size());
  // Conversions between placements, by kind.
  std::map<std::string, int> conversions;
  for (const graph::Instruction& i : code)
    if (i.node.attributes.contains("ownAxis")) ++conversions[i.operation];
  std::string names;
  for (const auto& [name, count] : conversions) names += fmt::format("{}{} {}", names.empty() ? "" : ", ", count, name);
  if (!names.empty()) text += "; conversions between ranks: " + names;
  if (images) text += fmt::format("; {} image reorders", program.code().reorders);
  if (half_images) text += ", images in 16 bits";
  if (half_layers) text += "; between dense layers 16 bits";
  return text;
}

bool Network::trains() const { return impl_->training && impl_->training->program.instructions_with_gradient() > 0; }

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
