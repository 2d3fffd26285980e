// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_sgd/block_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/timeline.h"
#include "parallel/local_gradients.h"
#include "parallel/residual.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {

BlockExchange::BlockExchange(BlockSettings settings, std::unique_ptr<BlockRule> rule, Communicator& comm)
    : settings_(std::move(settings)),
      rule_(std::move(rule)),
      comm_(comm),
      counts_(static_cast<std::size_t>(comm.size())),
      lines_(settings_.logs_exchanges, settings_.print_every),
      transport_(std::move(settings_.transport)) {
  pollable_ = this;
}

void BlockExchange::start(Parameters& parameters) {
  live_ = &parameters;
  all_reduce_.reset();
  // Dense, whatever the gradients are: weights also change in rows that the last minibatch did not use.
  block_.slices = parameters.slices;
  for (Slice& slice : block_.slices) slice.sparse_gradient = false;
  block_.chunks = parameters.chunks;
  block_.sparse_rows.assign(parameters.slices.size(), {});
  block_.weights = FloatBuffer(parameters.size(), parameters.weights);
  block_.gradients = FloatBuffer(parameters.size(), parameters.weights);
  std::copy_n(parameters.weights.data(), parameters.size(), block_.weights.data());
  codec_ = make_codec(settings_.codec, parameters.weights.memory(), comm_.takes_device_memory());
  kernels_ = &weight_kernels_for(parameters.weights.memory());
  // Fragments consist of buckets, so buckets are small if the network is small.
  const std::size_t parts = 4 * static_cast<std::size_t>(settings_.stream.fragments);
  all_reduce_ = std::make_unique<AllReduce>(
      comm_, block_, *codec_,
      AllReduceSettings{.transport = transport_.kind,
                        .device_sums = transport_.device_sums.get(),
                        .bucket_values = settings_.stream.fragments > 1 ? parameters.size() / parts : 0});
  if (codec_->lossy()) residual_ = FloatBuffer(parameters.size(), parameters.weights);
  rule_->bind(parameters, block_, codec_->lossy() ? residual_.data() : nullptr);
  if (codec_->lossy()) {
    // A rank that carries its residual in its weights also carries there the residual that it holds as an owner.
    if (!rule_->carries()) owner_residual_ = FloatBuffer(parameters.size(), parameters.weights);
    all_reduce_->use({residual_.data(), rule_->carries() ? residual_.data() : owner_residual_.data()});
  }
  stream_.reset();
  if (settings_.stream.streams())
    stream_ = std::make_unique<FragmentStream>(settings_.stream, settings_.block_size, *all_reduce_, *rule_, parameters,
                                               block_);
  if (const auto asked = settings_.stream.fragments;
      stream_ && static_cast<std::int64_t>(stream_->fragments()) < asked && !std::exchange(warned_fragments_, true))
    log::warning(fmt::format(
        "fragments = {0}, but the weights of this network travel in {1} at most: {1} {2} used. fix: fragments = {1}",
        asked, stream_->fragments(), stream_->fragments() == 1 ? "is" : "are"));
  since_ = {};
  minibatches_ = 0;
  apart_ = shown_ = false;
}

// Streaming fragments are exchanged while the network computes.
void BlockExchange::poll() {
  if (stream_) stream_->advance();
}

void BlockExchange::begin_epoch(std::int64_t) {
  // Ranks that have not trained yet accept the current weights, whoever wrote them.
  if (!apart_) keep_common();
  if (!std::exchange(announced_, true) && !settings_.once_text.empty()) log::line(settings_.once_text);
  if (!settings_.epoch_text.empty()) log::line(settings_.epoch_text);
  lines_.begin_epoch();
}

WeightChange BlockExchange::after_update(const StepInfo& step) {
  apart_ = true;
  since_.mine += step.samples;
  since_.all += step.global_samples;
  lines_.add(step.samples, step.global_samples);
  ++minibatches_;
  if (stream_) return {.weights_changed = stream_step({step.samples, step.global_samples})};
  return due(0, 0) ? exchange() : WeightChange{};
}

bool BlockExchange::nothing_to_exchange() const {
  return comm_.size() == 1 && rule_->nothing_alone() && !codec_->lossy();
}

bool BlockExchange::stream_step(const BlockSamples& n) {
  if (nothing_to_exchange()) return stream_->step_alone(n);
  if (!stream_->step(n)) return false;
  stream_exchanged(stream_->take_seconds());
  return true;
}

void BlockExchange::stream_exchanged(double seconds) {
  ExchangeStats spent = all_reduce_->exchange_stats_and_reset();
  // Sums made between training steps are not counted as seconds; passes over the weights are.
  spent.decode = std::max(spent.decode, seconds - spent.encode - spent.wait);
  stats_ += spent;
  lines_.exchanged(seconds, comm_.size());
}

bool BlockExchange::is_due(const StepInfo& step) const {
  return stream_ ? stream_->acts_after(step.global_samples) : due(1, step.global_samples);
}

bool BlockExchange::due(std::int64_t more_minibatches, std::int64_t more_samples) const {
  return settings_.every > 0 ? minibatches_ + more_minibatches >= settings_.every
                             : since_.all + more_samples >= settings_.block_size;
}

WeightChange BlockExchange::end_epoch() {
  const bool exchanged_by_now = settings_.every > 0 && minibatches_ == 0;  // and would pull a second time
  return settings_.at_epoch_end && !exchanged_by_now ? exchange() : WeightChange{};
}

BlockSamples BlockExchange::count_samples() {
  BlockSamples n{since_.mine, 0};
  if (comm_.size() == 1) return {since_.mine, since_.mine};
  const TimelineSpan waiting(Work::wait);
  comm_.all_gather(std::as_bytes(std::span(&n.mine, 1)), std::as_writable_bytes(std::span(counts_)));
  for (const std::int64_t c : counts_) n.all += c;
  return n;
}

WeightChange BlockExchange::exchange() {
  assert(!shown_);
  const auto start = Clock::now();
  const BlockSamples n = stream_ ? since_ : count_samples();
  if (!stream_) rule_->begin(n, 0);
  if (nothing_to_exchange())
    stream_ ? stream_->restart_alone() : keep_common();
  else if (stream_)
    stream_->exchange_all();
  else if (settings_.library_sums)
    exchange_by_library();
  else
    exchange_chunks();
  synchronize();  // at the time that it has taken
  ExchangeStats spent = all_reduce_->exchange_stats_and_reset();
  const double seconds = seconds_since(start);
  spent.decode = seconds - spent.encode - spent.wait;  // the passes over the weights included
  stats_ += spent;
  since_ = {};
  minibatches_ = 0;
  apart_ = rule_->keeps_apart();
  lines_.exchanged(seconds, comm_.size());
  return {.weights_changed = true, .reset_momentum = settings_.reset_momentum};
}

void BlockExchange::exchange_chunks() {
  for (std::size_t g = 0; g < all_reduce_->buckets(); ++g) {
    all_reduce_->arm(g);
    for (std::size_t i = all_reduce_->first_chunk(g); i < all_reduce_->end_chunk(g); ++i) {
      const std::size_t at = block_.offset(block_.chunks[i]);
      rule_->offer(at, at + block_.count(block_.chunks[i]));
      all_reduce_->encode(i);
    }
    all_reduce_->launch(g);
    all_reduce_->advance();
  }
  for (std::size_t g = 0; g < all_reduce_->buckets(); ++g) {
    all_reduce_->complete(g);
    for (std::size_t i = all_reduce_->first_chunk(g); i < all_reduce_->end_chunk(g); ++i) {
      const std::size_t at = block_.offset(block_.chunks[i]);
      all_reduce_->decode(i);
      rule_->take(at, at + block_.count(block_.chunks[i]));
    }
  }
  all_reduce_->flush();
}

void BlockExchange::exchange_by_library() {
  rule_->offer(0, block_.size());
  synchronize();
  comm_.all_reduce_sum(block_.gradients.span());
  rule_->take(0, block_.size());
  ++stats_.exchanges;
  count_library_sum(stats_, block_.size(), comm_.size());
}

void BlockExchange::drain() {
  if (stream_) stream_->drain();
}

void BlockExchange::show(Weights which, std::span<const float> changed_from) {
  assert(shown_ == (which == Weights::own));
  if (!changed_from.empty()) adopt(changed_from);
  change_places();
  shown_ = which == Weights::common;
}

void BlockExchange::keep_common() {
  kernels_->run(weights::Copy{live_->weights.data(), block_.weights.data()}, live_->size());
}

// The caller reads the weights on the host.
void BlockExchange::change_places() {
  if (apart_) kernels_->run(weights::Swap{live_->weights.data(), block_.weights.data()}, live_->size());
  synchronize();
}

void BlockExchange::adopt(std::span<const float> before) {
  synchronize();
  const float* common = live_->weights.data();
  float* own = block_.weights.data();
  if (!apart_) std::copy_n(common, live_->size(), own);
  for (std::size_t i = 0; i < before.size() && apart_; ++i) own[i] += common[i] - before[i];
}

void BlockExchange::archive(Archive& a, Section section) {
  section == Section::common ? archive_common(a) : archive_rank(a);
}

// Saved while the common weights are shown, so that the model consists of them; this rank's own weights are in block_.
void BlockExchange::archive_rank(Archive& a) {
  assert(a.loading() ? !shown_ : shown_ || !apart_);
  synchronize();
  const auto key = [&](const char* what) { return fmt::format("{}.{}", settings_.name, what); };
  if (a.loading()) std::copy_n(live_->weights.data(), live_->size(), block_.weights.data());
  if (a.has(own_name(key("samples"))))
    a(own_name(key("samples")), since_.mine);
  else
    since_.mine = 0;
  a(key("apart"), apart_);
  FloatBuffer& own = a.loading() ? live_->weights : block_.weights;
  for (const Slice& s : live_->slices) {
    const std::string name = own_name(fmt::format("{}/{}", key("weights"), s.name));
    if (apart_ && a.has(name)) a(name, own.span().subspan(s.offset, s.size()));
  }
  // State that a rank carries because it was not delivered is inherited.
  const bool explores = rule_->keeps_apart() && !rule_->carries();
  const std::string loss = gone_name(explores ? kOwnWeights : kLearnedAlone);
  bool loses = apart_ && (explores || since_.mine > 0);
  if (a.has(loss)) a(loss, loses);
  if (stream_) stream_->archive(a);
  if (stream_ && a.loading()) stream_->sum_samples(comm_);
  archive_residuals(a, key("residual"), key("ownerResidual"));
}

// A resumed run may use another number of bits; residuals of the earlier one are then discarded.
void BlockExchange::archive_residuals(Archive& a, const std::string& rank_name, const std::string& owner_name) {
  bool carries = rule_->carries(), lossy = codec_->lossy();
  double carry = rule_->carry();
  a(rank_name + ".quantised", lossy);
  a(rank_name + ".carries", carries);
  a(rank_name + ".carry", carry);
  FloatBuffer unused;
  const auto workspace = [&](FloatBuffer& buffer) {
    if (buffer.size() > 0) return buffer.span();
    if (unused.size() == 0) unused = FloatBuffer(live_->size());
    return unused.span();
  };
  if (lossy && a.has(sum_on_reshard_name(rank_name))) a(sum_on_reshard_name(rank_name), workspace(residual_));
  if (lossy && a.loading()) take_over(a, rank_name, carries ? static_cast<float>(carry) : 0.0f, workspace(residual_));
  if (!lossy || carries) return;
  a(owned_name(owner_name), workspace(owner_residual_));
  if (!a.loading() || owner_residual_.size() == 0) return;
  all_reduce_->keep_own_columns(owner_residual_.data());
  take_owned(comm_, owner_residual_.span(), residual_.span());
}

// The offset of a rank's weights from the common ones is a residual times the rule's unit, which depends on the number
// of ranks; it is converted to the new unit. An inherited residual stays in the residual.
void BlockExchange::take_over(Archive& a, const std::string& rank_name, float carried, std::span<float> residual) {
  const bool inherits = a.has(inherited_name(rank_name));
  const float carry = rule_->carry();
  if (!inherits && (carried == 0 || carried == carry)) return;
  FloatBuffer inherited(live_->size()), before(live_->size());
  if (inherits) a(inherited_name(rank_name), inherited.span());
  std::copy_n(live_->weights.data(), live_->size(), before.data());
  float* w = live_->weights.data();
  const float* more = inherited.data();
  for (std::size_t i = 0; i < live_->size() && carried != 0; ++i)
    w[i] += (carried - carry) * residual[i] - carry * more[i];
  for (std::size_t i = 0; i < live_->size(); ++i) residual[i] += more[i];
  if (stream_) stream_->moved(before.data());
}

void BlockExchange::archive_common(Archive& a) {
  synchronize();
  a("samples since exchange", since_.all);
  a("minibatches since exchange", minibatches_);
  rule_->archive(a);
  bool streams = stream_ != nullptr;
  a("streams", streams);
  if (streams && !stream_) throw Error("it was written with fragments or overlap, this run has none");
  if (streams) stream_->archive_common(a);
}

std::string BlockExchange::advice(std::int64_t samples) const {
  const std::int64_t ranks = comm_.size(), block = std::max<std::int64_t>(1, settings_.block_size / ranks);
  if (!settings_.filters || ranks == 1 || samples / ranks / ranks >= block) return {};
  return fmt::format(
      "{}: {} ranks need about {} blocks before block momentum works, {} samples in all; this training has {}. "
      "fix: blockSizePerWorker = {} or less, or fewer ranks",
      settings_.name, ranks, ranks, block * ranks * ranks, samples, std::max<std::int64_t>(1, samples / ranks / ranks));
}

std::string BlockExchange::describe() const {
  const std::string when = settings_.every > 1        ? fmt::format("every {} minibatches", settings_.every)
                           : settings_.block_size > 1 ? fmt::format("every {} samples of all", settings_.block_size)
                                                      : std::string("after every minibatch");
  std::string streamed;
  if (settings_.stream.fragments > 1)
    streamed += fmt::format(" in {} fragments{}",
                            stream_ ? static_cast<std::int64_t>(stream_->fragments()) : settings_.stream.fragments,
                            stream_ ? "" : " at most");
  if (settings_.stream.overlap > 0) streamed += fmt::format(", used {} minibatches later,", settings_.stream.overlap);
  return fmt::format("{} on {} rank{}, weights exchanged {}{} in {}{}: {}", settings_.name, comm_.size(),
                     comm_.size() == 1 ? "" : "s", when, streamed,
                     settings_.library_sums ? "32 bits by the MPI library" : make_codec(settings_.codec)->name(),
                     transport_.text, rule_->describe());
}

ParallelMethod make_block_exchange(BlockSettings settings, std::unique_ptr<BlockRule> rule, Communicator& comm) {
  auto exchange = std::make_unique<BlockExchange>(std::move(settings), std::move(rule), comm);
  const BlockExchange& e = *exchange;
  ParallelMethod m = make_local_sgd(std::move(exchange), e.describe(), comm);
  m.advice = [&e](std::int64_t samples) { return e.advice(samples); };
  return m;
}

}  // namespace tutti
