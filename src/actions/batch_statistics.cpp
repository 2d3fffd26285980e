// SPDX-License-Identifier: Apache-2.0
// action = "bnstat": recomputes the running mean and variance of batch normalisation from data.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "actions/evaluation_network.h"
#include "graph/image_geometry.h"
#include "graph/shapes.h"
#include "train/file.h"
#include "train/model_file.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

struct BatchStatisticsOptions {
  std::string model_path, new_model_path;
  config::Schedule<std::int64_t> minibatch_size = 256;
  std::int64_t iterations_per_node = 30;
  std::int64_t trace_level = 0;
  void describe(config::Fields&);
};

void BatchStatisticsOptions::describe(config::Fields& f) {
  f("modelPath", model_path, "the model whose statistics are recomputed");
  f.required("modelPath");
  f("newModelPath", new_model_path, "path of the new model; default: modelPath.PBN");
  f("minibatchSize", minibatch_size, "samples per minibatch over all ranks; only the first value is used");
  f("itersPerNode", iterations_per_node, "minibatches per batch normalisation node");
  f("traceLevel", trace_level, "0 = results only");
  check_minibatch_sizes(f, minibatch_size);
  if (iterations_per_node < 1)
    f.problem("itersPerNode", fmt::format("itersPerNode must be at least 1, not {}", iterations_per_node),
              "at least 1");
}

// The weighted means of the statistics of each element or channel over the minibatches.
class Average {
 public:
  // `channels_first`: the channels are the first axis of an image, not the last one.
  Average(std::size_t statistics, bool channels_first)
      : channels_first_(channels_first), mean_(statistics), variance_(statistics) {}

  void add(const Network::Output& x, Communicator& world, bool shared) {
    const std::size_t n = mean_.size(), elements = x.shape.elements();
    const std::size_t image = std::max<std::size_t>(elements / n, 1);
    std::vector<double> sums(2 * n + 1);
    sums[2 * n] = static_cast<double>(x.columns * image);
    for (std::size_t c = 0; c < x.columns; ++c)
      for (std::size_t i = 0; i < elements; ++i) {
        const double v = x.values[c * elements + i];
        const std::size_t channel = channels_first_ ? i % n : i / image;
        sums[channel] += v;
        sums[n + channel] += v * v;
      }
    if (shared) world.all_reduce_sum(std::span<double>(sums));
    const double count = sums[2 * n];
    if (count == 0) return;
    weight_ += count;
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = sums[i] / count, variance = std::max(sums[n + i] / count - mean * mean, 0.0);
      mean_[i] += (mean - mean_[i]) * count / weight_;
      variance_[i] += (variance - variance_[i]) * count / weight_;
    }
  }
  double weight() const { return weight_; }
  void store(std::span<float> mean, std::span<float> variance) const {
    std::copy(mean_.begin(), mean_.end(), mean.begin());
    std::copy(variance_.begin(), variance_.end(), variance.begin());
  }

 private:
  const bool channels_first_;
  std::vector<double> mean_, variance_;
  double weight_ = 0;
};

std::span<float> values_of(Network& network, const std::string& name) {
  for (auto& s : network.state())
    if (s.name == name) return s.values;
  for (const Slice& s : network.parameters().slices)
    if (s.name == name) return network.parameters().weights.span().subspan(s.offset, s.size());
  throw Error(fmt::format("bnstat: the model has no values for '{}'", name));
}

std::vector<std::size_t> normalizations(const graph::Graph& graph) {
  std::vector<std::size_t> roots;
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    roots.insert(roots.end(), set->begin(), set->end());
  std::vector<std::size_t> found;
  for (const auto n : graph::evaluation_order(graph, roots))
    if (graph.nodes[n].operation == "BatchNormalization") found.push_back(n);
  return found;
}

// Processes one node after the other, inputs first, so that each uses the new statistics of its inputs. Mean and
// variance are those of each minibatch over all ranks, averaged by number of samples. Collective. Returns the number of
// nodes.
std::size_t recompute_statistics(Network& network, Reader& reader, const ActionContext& context,
                                 const BatchStatisticsOptions& options) {
  const graph::Graph& graph = network.graph();
  network.bind(reader.streams());
  EpochPlan plan;
  plan.minibatch = options.minibatch_size.at(0);
  plan.samples = plan.minibatch * options.iterations_per_node;
  plan.rank = context.parallel ? context.world->rank() : 0;
  plan.ranks = context.parallel ? context.world->size() : 1;
  const auto nodes = normalizations(graph);
  for (const auto n : nodes) {
    const graph::Node& node = graph.nodes[n];
    const auto mean = values_of(network, graph.nodes[node.inputs[3]].name);
    const auto variance = values_of(network, graph.nodes[node.inputs[4]].name);
    network.plan_evaluation((plan.minibatch + plan.ranks - 1) / plan.ranks, {graph.nodes[node.inputs[0]].name});
    Average average(mean.size(), graph::flag(node, "spatial", false) && graph::channels_first(node));
    reader.start_epoch(plan);
    while (const Batch* batch = reader.next())
      average.add(network.forward(*batch).at(0), *context.world, plan.ranks > 1);
    if (average.weight() == 0) throw Error(fmt::format("bnstat: no samples for '{}'", node.name));
    average.store(mean, variance);
    ++plan.epoch;
    log::line(fmt::format("Statistics of '{}' from {} values for each of {} means.", node.name, average.weight(),
                          mean.size()));
  }
  return nodes.size();
}

void run_batch_statistics(const ActionContext& context, const BatchStatisticsOptions& options, Reader& reader) {
  const auto network = evaluation_network(context, options.model_path, {});
  const std::size_t nodes = recompute_statistics(*network, reader, context, options);
  if (nodes == 0)
    log::warning(fmt::format("'{}' has no batch normalisation; the model is copied unchanged", options.model_path));
  if (context.world->rank() != 0) return;
  create_directories(directory_of(options.new_model_path));
  save_model(options.new_model_path, view_model(*network));
  log::line(fmt::format("Model with new statistics of {} nodes saved to '{}'.", nodes, options.new_model_path));
}

std::optional<Action> make_batch_statistics(const ActionContext& context, BatchStatisticsOptions options) {
  if (options.new_model_path.empty()) options.new_model_path = options.model_path + ".PBN";
  const std::shared_ptr<Reader> reader = open_reader(context, "reader", "train", static_cast<int>(options.trace_level));
  if (check_model_to_read(context, options.model_path, true))
    with_graph(context, options.model_path, [&](const graph::Graph& graph) {
      std::vector<std::size_t> computed;
      for (const std::size_t n : normalizations(graph)) computed.push_back(graph.nodes[n].inputs[0]);
      if (reader) check_streams(context, *reader, graph, nodes_to_report(graph, {}), computed);
    });
  context.may_write(options.new_model_path, "newModelPath");
  context.will_write(options.new_model_path);
  return Action{
      .settings = fmt::format("  model      {}\n  new model  {}", options.model_path, options.new_model_path),
      .run = [context = context.for_running(), options, reader] { run_batch_statistics(context, options, *reader); }};
}

}  // namespace

ActionEntry batch_statistics_action() {
  return action_entry({"bnstat"}, true, make_batch_statistics, "recomputes the statistics of batch normalisation");
}

}  // namespace tutti::actions
