// SPDX-License-Identifier: Apache-2.0
#include "train/epoch_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "parallel/advice.h"
#include "train/training.h"
#include "tutti/log.h"

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
        ", after every {} samples of a rank (minibatchSize = {}{}). fix: minibatchSize = {} or more, fewer "
        "gradientBits, "
        "a "
        "method that exchanges less often (BlockMomentumSGD), or fewer ranks",
        std::max<std::int64_t>(1, e.minibatch * e.accumulated / e.ranks), e.minibatch,
        e.accumulated > 1 ? fmt::format(", {} accumulated", e.accumulated) : "", e.minibatch * factor);
  else
    text += fmt::format(
        " in {} exchanges of {} minibatches. fix: exchange {} times less often (blockSize, period, syncPeriod), fewer "
        "exchangeBits, or fewer ranks",
        x.exchanges, e.minibatches, factor);
  return text;
}

void warn_of_indivisible_nodes(const Network& network, int ranks) {
  if (ranks < 2) return;
  for (const NodeResult& node : network.indivisible_nodes())
    log::warning(
        fmt::format("'{}' ({}) is not a sum over samples: each of the {} ranks computes it from its share of the "
                    "minibatch, so results differ from those of one rank. fix: make the criterion or evaluation a sum "
                    "of values per sample",
                    node.name, node.operation, ranks));
}

void warn_of_damaged_data(const Training& t) {
  const std::int64_t left_out =
      t.progress.samples_in_epoch - t.progress.dropped_samples - t.report->epoch_metrics().samples;
  if (left_out > 0)
    log::warning(fmt::format("{} of {} samples were skipped in epoch {}: their data are damaged", left_out,
                             t.progress.samples_in_epoch, t.progress.epoch + 1));
}

void warn_if_diverged(Training& t) {
  t.constant_predictor.finish(*t.world);
  const StepMetrics& metrics = t.report->epoch_metrics();
  const std::string warning =
      divergence_warning(t.constant_predictor, t.network->criterion().name, metrics.criterion / metrics.criterion_count,
                         t.progress.epoch + 1, t.progress.epoch == 0);
  if (!warning.empty()) log::warning(warning);
}

// The host's clock cannot measure how long a GPU computes.
void judge_exchange(Training& t, std::int64_t minibatch) {
  const bool shared = t.warm_start.parallel_throughout(t.progress.epoch);
  if (t.exchange_judged || !shared || !is_host(t.network->parameters().weights.memory())) return;
  const std::string warning = slow_exchange_warning(t.times, {t.progress.epoch + 1, t.world->size(), minibatch,
                                                              t.report->minibatches(), t.sgd.gradient_accumulation});
  t.exchange_judged = !warning.empty();
  if (t.exchange_judged) log::warning(warning);
}

void advise(const Training& t) {
  if (t.parallel->method.data.work_queue() && !t.reader->takes_work_units())
    log::warning(
        "truncated sequences continue from minibatch to minibatch, so they cannot be divided dynamically: every rank "
        "gets an equal share and waits for the slowest at the end of each epoch");
  if (const auto& o = t.sgd.parallel; o.exchanges() && o.start_sample > t.samples_per_epoch)
    log::warning(
        fmt::format("parallelizationStartSample = {} exceeds the {} samples of an epoch: parallel training begins "
                    "after epoch {}. fix: set parallelizationStartEpoch to choose the epoch",
                    o.start_sample, t.samples_per_epoch, o.start_epoch));
  const std::int64_t first = std::max<std::int64_t>(0, t.sgd.parallel.start_epoch - 1);
  const std::int64_t epochs = t.sgd.max_epochs - first;  // whose samples may be more than can be counted
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / std::max<std::int64_t>(epochs, 1);
  const std::string advice = t.parallel->method.advice(epochs * std::min(t.samples_per_epoch, most));
  if (!advice.empty()) log::warning(advice);
  if (!t.sgd.parallel.exchanges() || epochs <= 0) return;
  warn_of_indivisible_nodes(*t.network, t.world->size());
  const TrainingLength length{epochs, t.samples_per_epoch,
                              t.sgd.update_size(t.sgd.minibatch_size.at(static_cast<std::size_t>(first)))};
  for (const std::string& line : exchange_advice(t.sgd.parallel, length, t.world->size())) log::warning(line);
}

}  // namespace tutti
