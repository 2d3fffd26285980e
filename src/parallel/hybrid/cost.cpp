// SPDX-License-Identifier: Apache-2.0
#include "parallel/hybrid/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "comm/agreement.h"

namespace tutti {
namespace {

constexpr double float_bytes = sizeof(float);
constexpr int ring_tag = 32003;

// The largest of the ranks' times for `rounds` messages of `bytes` to the next rank, per message.
double seconds_per_message(Communicator& ranks, std::size_t bytes, int rounds) {
  std::vector<std::byte> out(bytes), in(bytes);
  const int next = (ranks.rank() + 1) % ranks.size(), previous = (ranks.rank() + ranks.size() - 1) % ranks.size();
  const auto send = ranks.plan_send(next, ring_tag, out), receive = ranks.plan_receive(previous, ring_tag, in);
  ranks.barrier();
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    receive->start(), send->start();
    receive->wait(), send->wait();
    best = std::min(best, seconds_since(start));
  }
  return std::ranges::max(from_all(ranks, best));
}

struct Walk {
  const StepOfLayers& step;
  double others, own, foreign;  // other ranks; samples of this rank, and of the others

  explicit Walk(const StepOfLayers& s)
      : step(s), others(s.ranks - 1), own(s.samples / s.ranks), foreign(s.samples - s.samples / s.ranks) {}

  // Forward, and backward if a gradient comes back: every rank sends its samples to all, and gets the sums of its
  // samples.
  void gather_and_reduce(LayerCost& c, double width, bool backward = true) const {
    c.bytes += own * others * width * float_bytes + (backward ? gradient(width) : 0), c.messages += backward ? 2 : 1;
  }
  double gradient(double width) const { return foreign * width * float_bytes; }
  // Both directions: samples to shards, or shards to samples.
  void transpose(LayerCost& c, double width) const {
    c.bytes += 2 * foreign * width / step.ranks * float_bytes, c.messages += 2;
  }
  // Rank 0 receives or sends the samples of the others; with a gradient it sends as much as it receives.
  void to_first(LayerCost& c, double width, bool backward = true) const {
    const double bytes = foreign * width * float_bytes;
    c.bytes += backward ? bytes : 0, c.received += bytes, c.messages += backward ? 2 : 1;
  }
  // Rank 0 sends all samples to every other rank, and receives the gradients.
  void from_first(LayerCost& c, double width) const {
    const double bytes = others * step.samples * width * float_bytes;
    c.bytes += bytes, c.received += bytes, c.messages += 2;
  }
};

bool behind_shard(std::span<const PlacedLayer> layers, std::size_t i, const std::vector<bool>& by_output) {
  return i > 0 && layers[i].layer.chained && layers[i - 1].placement == Placement::shard && by_output[i - 1];
}

}  // namespace

LinkSpeed measure_link(Communicator& ranks) {
  if (ranks.size() == 1) return {0, 1e12};
  constexpr std::size_t large = 1 << 18;
  const double small_message = seconds_per_message(ranks, 8, 20), large_message = seconds_per_message(ranks, large, 4);
  return {small_message, static_cast<double>(large) / std::max(large_message - small_message, 1e-9)};
}

LinkSpeed slowest(const LinkSpeed& mine, Communicator& all_ranks) {
  LinkSpeed all = mine;
  for (const LinkSpeed& l : from_all(all_ranks, mine))
    all = {std::max(all.latency, l.latency), std::min(all.bandwidth, l.bandwidth)};
  return all;
}

ComputeSpeed slowest(const ComputeSpeed& mine, Communicator& all_ranks) {
  ComputeSpeed all = mine;
  for (const ComputeSpeed& s : from_all(all_ranks, mine))
    all = {std::max(all.together, s.together), std::max(all.alone, s.alone), std::max(all.pass, s.pass)};
  return all;
}

std::vector<LayerCost> layer_costs(std::span<const PlacedLayer> layers, const StepOfLayers& step) {
  const Walk walk(step);
  std::vector<LayerCost> costs(layers.size());
  std::vector<bool> by_output(layers.size(), false);  // the result is in shards
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const DenseLayer& l = layers[i].layer;
    LayerCost& c = costs[i];
    const auto in = static_cast<double>(l.in), out = static_cast<double>(l.out),
               ranks = static_cast<double>(step.ranks);
    const bool chained = behind_shard(layers, i, by_output);
    const bool after_single = i > 0 && l.chained && layers[i - 1].placement == Placement::single;
    c.weights = in * out, c.samples = walk.own;
    switch (layers[i].placement) {
      case Placement::replicate: {
        // A sparse input sends the columns that it used, twice at most as many as there are words.
        const double values = l.sparse ? std::min(c.weights, step.samples * out) : c.weights;
        const double bits = l.sparse ? 32 : step.bits + (step.bits < 32 ? 64 / out : 0);
        c.bytes += 2 * values * bits / 8 * walk.others / ranks;
        c.messages += i == 0 ? 2 : 0;  // layers travel together
        if (chained) walk.transpose(c, in);
        if (after_single) walk.to_first(c, in);
        break;
      }
      case Placement::shard: {
        const bool by_input = chained && !(l.softmax && l.out > l.in);
        c.weights /= ranks, c.samples = step.samples;
        if (by_input) {
          walk.gather_and_reduce(c, out);
          break;
        }
        by_output[i] = true;
        if (chained) walk.transpose(c, in);
        if (after_single)
          walk.from_first(c, in);
        else if (l.sparse)
          c.bytes += walk.own * walk.others * 3 * float_bytes, c.messages += 1;
        else
          walk.gather_and_reduce(c, in, l.passes_gradient), c.hidden = l.passes_gradient ? walk.gradient(in) : 0;
        const bool goes_on = i + 1 < layers.size() && layers[i + 1].layer.chained;
        if (l.softmax) {
          // Largest value and sums, with the index of the largest value for ClassificationError; dense labels.
          c.bytes += 7 * walk.others * step.samples * float_bytes + walk.foreign * out / ranks * float_bytes;
          c.messages += 6;
        } else if (!goes_on) {
          walk.transpose(c, out);
        }
        break;
      }
      case Placement::single: {
        c.samples = step.samples;
        if (chained) walk.transpose(c, in);
        if (!after_single) walk.to_first(c, in, l.passes_gradient);
        const bool goes_on = i + 1 < layers.size() && layers[i + 1].layer.chained;
        if (!goes_on) walk.to_first(c, out, !l.softmax);  // the labels, or the result
        break;
      }
    }
  }
  return costs;
}

double step_seconds(std::span<const LayerCost> costs, const StepOfLayers& step, const LinkSpeed& link,
                    std::span<const PlacedLayer> layers) {
  double sum = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const LayerCost& c = costs[i];
    const bool single = layers[i].placement == Placement::single;
    const double product = 2 * c.weights * c.samples * (single ? step.compute.alone : step.compute.together);
    const double hidden = std::min(c.hidden / link.bandwidth, product);
    sum += (c.bytes + c.received) / link.bandwidth - hidden + c.messages * link.latency;
    sum += 3 * product + c.weights * step.compute.pass;
    if (layers[i].placement == Placement::replicate && step.ranks > 1) sum += c.weights * step.compute.pass;
  }
  return sum;
}

// All placements of a few layers; of many, the best for each layer behind the ones before it.
void choose_placements(std::vector<PlacedLayer>& layers, const StepOfLayers& step, const LinkSpeed& link) {
  constexpr std::array all{Placement::replicate, Placement::shard, Placement::single};
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].chosen) open.push_back(i);
  const auto allowed = [&](std::size_t i, Placement p) {
    if (p == Placement::single) return step.single;
    return p != Placement::shard || (step.shard && layers[i].layer.out >= static_cast<std::size_t>(step.ranks));
  };
  const auto seconds = [&] { return step_seconds(layer_costs(layers, step), step, link, layers); };
  constexpr std::size_t few = 7;
  const auto search = [&](std::size_t first, std::size_t last) {
    std::vector<Placement> best;
    double least = 0;
    std::size_t combinations = 1;
    for (std::size_t k = first; k < last; ++k) combinations *= all.size();
    for (std::size_t n = 0; n < combinations; ++n) {
      std::size_t rest = n;
      bool possible = true;
      for (std::size_t k = first; k < last; ++k, rest /= all.size()) {
        layers[open[k]].placement = all[rest % all.size()];
        possible = possible && allowed(open[k], layers[open[k]].placement);
      }
      const double now = possible ? seconds() : 0;
      if (!possible || (!best.empty() && now >= least)) continue;
      least = now;
      best.clear();
      for (std::size_t k = first; k < last; ++k) best.push_back(layers[open[k]].placement);
    }
    for (std::size_t k = first; k < last; ++k) layers[open[k]].placement = best[k - first];
  };
  for (std::size_t first = 0; first < open.size(); first += few) search(first, std::min(first + few, open.size()));
}

std::string placement_table(std::span<const PlacedLayer> layers, const StepOfLayers& step) {
  std::vector<PlacedLayer> replicated(layers.begin(), layers.end());
  for (PlacedLayer& l : replicated) l.placement = Placement::replicate;
  const auto costs = layer_costs(layers, step), usual = layer_costs(replicated, step);
  std::size_t width = 32;
  for (const PlacedLayer& l : layers) width = std::max(width, l.layer.weight.size());
  std::string text = fmt::format("{:>3}  {:<{}} {:>13}  {:<10} {:>12} {:>14} {:>10}", "", "dense layer", width,
                                 "in x out", "placement", "MB per step", "data parallel", "MB held");
  LayerCost sum, sum_usual;
  double sum_held = 0;
  const auto line = [&](const std::string& number, const std::string& name, const std::string& size,
                        const std::string& place, const LayerCost& c, const LayerCost& u, double held) {
    text += fmt::format("\n{:>3}  {:<{}} {:>13}  {:<10} {:>12.3f} {:>14.3f} {:>10.3f}", number, name, width, size,
                        place, c.bytes / 1e6, u.bytes / 1e6, held);
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const DenseLayer& l = layers[i].layer;
    const bool divided = step.shards_state && layers[i].placement == Placement::replicate;
    const double state = static_cast<double>(step.state) / (divided ? step.ranks : 1);
    const double held = (2 + state) * costs[i].weights * float_bytes / 1e6;  // weights, gradients, state
    line(std::to_string(i + 1), l.weight, fmt::format("{} x {}", l.in, l.out), to_string(layers[i].placement), costs[i],
         usual[i], held);
    sum.bytes += costs[i].bytes, sum_usual.bytes += usual[i].bytes, sum_held += held;
  }
  line("", "all dense layers", "", "", sum, sum_usual, sum_held);
  const auto replicated_by_auto = [](const PlacedLayer& l) { return l.chosen && l.placement == Placement::replicate; };
  if (!layers.empty() && std::ranges::all_of(layers, replicated_by_auto))
    text += fmt::format("\nauto: plain data parallel training costs least for every layer, with {:g}-bit gradients",
                        step.bits);
  return text;
}

}  // namespace tutti
