// SPDX-License-Identifier: Apache-2.0
#include "train/epoch_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace tutti {
namespace {

constexpr double nothing_to_learn = 1e-6;

double x_log_x(double x) { return x > 0 ? x * std::log(x) : 0; }

// The input of the criterion that is a stream of the reader.
std::optional<std::size_t> stream_of(const graph::Graph& graph, const graph::Node& criterion, std::size_t input,
                                     const std::vector<StreamInfo>& streams) {
  if (input >= criterion.inputs.size()) return std::nullopt;
  const graph::Node& node = graph.nodes[criterion.inputs[input]];
  for (std::size_t s = 0; s < streams.size(); ++s)
    if (node.inputs.empty() && streams[s].name == node.name) return s;
  return std::nullopt;
}

// The factor by which exchanges must become rarer so that they take half of the time that the other ranks save.
std::int64_t rarer_by(double exchange, double saved) {
  std::int64_t factor = 2;
  while (static_cast<double>(factor) * saved < 2 * exchange && factor < 1024) factor *= 2;
  return factor;
}

}  // namespace

void ConstantPredictor::watch(const graph::Graph& graph, const std::string& criterion,
                              const std::vector<StreamInfo>& streams) {
  const auto node =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& n) { return n.name == criterion; });
  if (node == graph.nodes.end()) return;
  Kind kind = Kind::none;
  if (node->operation == "CrossEntropyWithSoftmax" || node->operation == "CrossEntropy") kind = Kind::categories;
  if (node->operation == "Logistic" && node->inputs.size() == 2) kind = Kind::probabilities;
  if (node->operation == "SquareError") kind = Kind::values;
  auto stream = stream_of(graph, *node, 0, streams);
  // With a square error, either operand may be the label, but not both.
  if (const auto second = stream_of(graph, *node, 1, streams); kind == Kind::values && second)
    stream = stream ? std::nullopt : second;
  if (kind == Kind::none || !stream) return;
  kind_ = kind, stream_ = *stream, dim_ = streams[*stream].dim;
  sums_.assign(dim_ + 2, 0);
}

void ConstantPredictor::add(const Batch& batch) {
  const StreamData& labels = batch.streams[stream_];
  double squares = 0;
  for (std::size_t i = 0; i < labels.dense.size(); ++i) {
    const double v = labels.dense[i];
    sums_[i % dim_] += v;
    squares += v * v;
  }
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    const double v = labels.values[i];
    sums_[static_cast<std::size_t>(labels.indices[i])] += v;
    squares += v * v;
  }
  sums_[dim_] += squares;
  sums_[dim_ + 1] += static_cast<double>(labels.columns);
}

void ConstantPredictor::finish(Communicator& comm) {
  if (!counts()) return;
  comm.all_reduce_sum(std::span(sums_));
  finished_ = true;
}

std::optional<ConstantPredictor::Value> ConstantPredictor::value() const {
  if (!finished_ || sums_[dim_ + 1] <= 0) return std::nullopt;
  const double samples = sums_[dim_ + 1];
  Value v;
  double total = 0;
  for (std::size_t i = 0; i < dim_; ++i) {
    const double mean = sums_[i] / samples;
    total += mean;
    if (kind_ == Kind::values)
      v.best -= mean * mean;
    else
      v.best -= x_log_x(mean) + (kind_ == Kind::probabilities ? x_log_x(1 - mean) : 0);
  }
  switch (kind_) {
    case Kind::categories:
      v.best += x_log_x(total);  // 0 where the labels of a sample sum to 1
      v.untrained = total * std::log(static_cast<double>(dim_));
      v.text = "the entropy of the labels";
      break;
    case Kind::probabilities:
      v.untrained = static_cast<double>(dim_) * std::log(2.0);
      v.text = "the entropy of the labels";
      break;
    case Kind::values:
      v.untrained = sums_[dim_] / samples;
      v.best += v.untrained;
      v.text = "the variance of the labels";
      break;
    case Kind::none:
      return std::nullopt;
  }
  if (!(v.best > nothing_to_learn)) return std::nullopt;
  return v;
}

std::string divergence_warning(const ConstantPredictor& predictor, const std::string& criterion, double average,
                               std::int64_t epoch, bool first) {
  const auto constant = predictor.value();
  if (!constant) return {};
  const double least = first ? std::max(constant->best, constant->untrained) : constant->best;
  if (!(average > 2 * least)) return {};
  return fmt::format(
      "epoch {}: {} = {:.6g} is more than twice that of the best constant prediction, {:.6g} ({}): the training has "
      "diverged. fix: lower the learning rate, or clip gradients (clippingThresholdPerSample)",
      epoch, criterion, average, constant->best, constant->text);
}

std::string slow_exchange_warning(const EpochTimes& t, const SharedEpoch& e) {
  const ExchangeStats& x = t.exchange;
  if (e.ranks < 2 || x.exchanges == 0) return {};
  const double compute = t.network + t.update, exchange = x.encode + x.wait + x.decode;
  const double alone = e.ranks * compute + t.read;
  if (t.total <= alone || exchange < 0.5 * (t.total - alone)) return {};
  const double sent = static_cast<double>(x.bytes_sent) / 1e6;
  std::string text = fmt::format(
      "epoch {} took {:.3g} s on {} ranks; one rank alone would need about {:.3g} s ({} times the {:.3g} s that this "
      "rank "
      "computed). The exchange took {:.3g} s for {:.3g} MB sent by this rank ({:.3g} MB/s)",
      e.epoch, t.total, e.ranks, alone, e.ranks, compute, exchange, sent, sent / std::max(exchange, 1e-9));
  const std::int64_t factor = rarer_by(exchange, (e.ranks - 1) * compute);
  if (2 * x.exchanges > e.minibatches)
    text += fmt::format(
        ", after every {} samples of a rank (minibatchSize = {}). fix: minibatchSize = {} or more, fewer gradientBits, "
        "a "
        "method that exchanges less often (BlockMomentumSGD), or fewer ranks",
        std::max<std::int64_t>(1, e.minibatch / e.ranks), e.minibatch, e.minibatch * factor);
  else
    text += fmt::format(
        " in {} exchanges of {} minibatches. fix: exchange {} times less often (blockSize, period, syncPeriod), fewer "
        "exchangeBits, or fewer ranks",
        x.exchanges, e.minibatches, factor);
  return text;
}

}  // namespace tutti
