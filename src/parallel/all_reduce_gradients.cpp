// SPDX-License-Identifier: Apache-2.0
#include "parallel/all_reduce_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "parallel/local_gradients.h"
#include "parallel/residual.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {
namespace {

bool any_nonzero(const FloatBuffer& buffer) {
  buffer.memory().synchronize();
  return std::any_of(buffer.data(), buffer.data() + buffer.size(), [](float v) { return v != 0; });
}

void clear(FloatBuffer& buffer) {
  buffer.memory().synchronize();
  std::fill_n(buffer.data(), buffer.size(), 0.0f);
}

}  // namespace

AllReduceGradients::AllReduceGradients(const DataParallelOptions& options, std::int64_t print_every,
                                       ResolvedTransport transport, Communicator& comm)
    : options_(options), print_every_(print_every), comm_(comm), transport_(std::move(transport)) {}

void AllReduceGradients::start(Parameters& parameters) {
  parameters_ = &parameters;
  chunks_ = all_chunks(parameters);
  const auto& bits = options_.gradient_bits.values;
  // Started again, for a run that goes back: nothing of before is left.
  for (FloatBuffer* residual : {&local_residual_, &owner_residual_})
    if (residual->size() > 0) clear(*residual);
  residual_epoch_ = -1;
  if (std::any_of(bits.begin(), bits.end(), [](std::int64_t b) { return travelling_bits(b) < 32; })) need_residuals();
  bits_of_epoch_ = travelling_bits(options_.gradient_bits.at(0));
  build(bits_of_epoch_);
}

void AllReduceGradients::need_residuals() {
  if (local_residual_.size() == 0) local_residual_ = FloatBuffer(parameters_->size(), parameters_->gradients);
  if (owner_residual_.size() == 0) owner_residual_ = FloatBuffer(parameters_->size(), parameters_->gradients);
}

void AllReduceGradients::build(int bits) {
  if (bits == bits_) return;
  count_spent();
  bits_ = bits;
  exchange_.reset();
  codec_ = make_codec({bits, options_.zero_threshold, options_.sixteen_bits, options_.quantizer},
                      parameters_->gradients.memory(), comm_.takes_device_memory());
  exchange_ = std::make_unique<AllReduce>(comm_, *parameters_, *codec_,
                                          AllReduceSettings{.transport = transport_.kind,
                                                            .device_sums = transport_.device_sums.get(),
                                                            .gradients_stay = !options_.buffered_async});
  worked_before_ = waited_before_ = 0;
  hand_out_residuals();
}

// A lossless codec still delivers, once, the residuals of an earlier codec.
void AllReduceGradients::hand_out_residuals() {
  left_over_ = !codec_->lossy() && (any_nonzero(local_residual_) || any_nonzero(owner_residual_));
  const bool used = codec_->lossy() || left_over_;
  exchange_->use({used ? local_residual_.data() : nullptr, used ? owner_residual_.data() : nullptr, mask_});
}

void AllReduceGradients::begin_epoch(std::int64_t epoch) {
  assert(!pending_.any);
  const auto at = static_cast<std::size_t>(std::max<std::int64_t>(0, epoch));
  const int bits = travelling_bits(options_.gradient_bits.at(at));
  if (options_.announces && (steps_ == 0 || bits != bits_of_epoch_))
    log::line(bits == 32 ? std::string("Initializing dataParallelSGD with FP32 aggregation.")
              : bits == 16 && options_.sixteen_bits != NumberFormat::levels
                  ? fmt::format("Initializing dataParallelSGD with {} aggregation.",
                                name_of_bits(bits, options_.sixteen_bits))
                  : fmt::format("Initializing dataParallelSGD for {}-bit quantization.", bits));
  bits_of_epoch_ = bits;
  build(summed_ == Summed::gradients_in_full ? 32 : bits);
  if (options_.reset_residuals && residual_epoch_ != epoch) {
    clear(local_residual_);
    clear(owner_residual_);
    residual_epoch_ = epoch;
  }
  hand_out_residuals();
}

// The operand that the optimizer wants in this step; equal on all ranks.
void AllReduceGradients::ask(std::int64_t columns, const ReducedGradientSink& sink) {
  summed_ = sink.summed(columns);
  if (summed_ == Summed::nothing) return;
  build(summed_ == Summed::gradients_in_full ? 32 : bits_of_epoch_);
  const float* const mask = summed_ == Summed::contributions ? sink.mask() : nullptr;
  if (std::exchange(mask_, mask) != mask) hand_out_residuals();
}

// One rank without quantisation, or nothing to sum: the gradients are final as they are.
bool AllReduceGradients::passes_through() const {
  return summed_ == Summed::nothing ||
         (comm_.size() == 1 && !codec_->lossy() && !left_over_ && !options_.buffered_async);
}

void AllReduceGradients::begin_step(const StepInfo& step, ReducedGradientSink& sink) {
  assert(exchange_);
  columns_ = step.columns;
  sink_ = &sink;
  announced_ = delivered_ = 0;
  if (options_.buffered_async) {
    exchange_->advance();
    return;
  }
  ask(columns_, sink);
  if (!passes_through())
    for (std::size_t g = 0; g < exchange_->buckets(); ++g) exchange_->arm(g);
}

// A device prefers few large updates; the host prefers to update what is still in its cache.
void AllReduceGradients::deliver(std::size_t first, std::size_t end, std::int64_t columns, ReducedGradientSink& sink) {
  const bool together = follows_device();
  for (std::size_t chunk = first; chunk < end; ++chunk) {
    exchange_->decode(chunk);
    if (!together) sink.on_reduced(chunk, columns);
  }
  if (together && first < end) sink.on_reduced(std::span(chunks_).subspan(first, end - first), columns);
}

void AllReduceGradients::chunk_ready(std::size_t chunk) {
  assert(chunk == announced_);
  announced_ = chunk + 1;
  if (summed_ == Summed::contributions) sink_->contribute(chunk, columns_, comm_.size());
  if (passes_through())
    sink_->on_reduced(chunk, columns_);
  else if (options_.buffered_async)
    exchange_behind();
  else
    ready_in_step(chunk);
}

void AllReduceGradients::chunks_ready(std::span<const std::size_t> chunks) {
  if (!passes_through() || summed_ == Summed::contributions) return GradientSink::chunks_ready(chunks);
  announced_ += chunks.size();
  sink_->on_reduced(chunks, columns_);
}

void AllReduceGradients::ready_in_step(std::size_t chunk) {
  if (chunk == 0)
    for (std::size_t g = 0; g < exchange_->buckets(); ++g) exchange_->announce(g);
  exchange_->encode(chunk);
  if (exchange_->last_of_bucket(chunk)) exchange_->launch(exchange_->bucket_of(chunk));
  exchange_->advance();
  deliver_what_is_there();
}

void AllReduceGradients::deliver_what_is_there() {
  std::size_t end = delivered_;
  while (end < announced_) {
    const std::size_t bucket = exchange_->bucket_of(end);
    if (exchange_->end_chunk(bucket) > announced_ || !exchange_->try_complete(bucket)) break;
    end = exchange_->end_chunk(bucket);
  }
  deliver(std::exchange(delivered_, end), end, columns_, *sink_);
}

// The memory of a chunk's gradient is used twice: once it is encoded, it receives the sum of the previous minibatch.
// Stops at a bucket whose previous sums are not here yet: its buffers are still in use.
void AllReduceGradients::exchange_behind() {
  for (; delivered_ < announced_; ++delivered_) {
    const std::size_t bucket = exchange_->bucket_of(delivered_);
    if (exchange_->first_of_bucket(delivered_)) {
      if (pending_.any && !exchange_->try_complete(bucket)) break;
      exchange_->arm(bucket);
      exchange_->announce(bucket);
    }
    exchange_->encode(delivered_);
    if (!exchange_->last_of_bucket(delivered_)) continue;
    if (pending_.any) deliver(exchange_->first_chunk(bucket), delivered_ + 1, pending_.columns, *sink_);
    exchange_->launch(bucket);
  }
  exchange_->advance();
}

void AllReduceGradients::finish_step() {
  assert(announced_ == parameters_->chunks.size());
  ++steps_;
  if (options_.buffered_async) {
    while (delivered_ < announced_) {
      exchange_->complete(exchange_->bucket_of(delivered_));
      exchange_behind();
    }
    pending_ = {true, columns_};
  } else if (!passes_through()) {
    while (delivered_ < announced_) {
      exchange_->complete(exchange_->bucket_of(delivered_));
      deliver_what_is_there();
    }
    if (std::exchange(left_over_, false)) exchange_->use({});
    exchange_->flush();
  }
  count_spent();
  print_times();
}

void AllReduceGradients::drain(ReducedGradientSink& sink) {
  if (!std::exchange(pending_.any, false)) return;
  for (std::size_t g = 0; g < exchange_->buckets(); ++g) {
    exchange_->complete(g);
    deliver(exchange_->first_chunk(g), exchange_->end_chunk(g), pending_.columns, sink);
  }
  exchange_->flush();
  count_spent();
}

void AllReduceGradients::count_spent() {
  if (exchange_) stats_ += exchange_->exchange_stats_and_reset();
}

void AllReduceGradients::print_times() {
  const double worked = exchange_->seconds_worked() - worked_before_,
               waited = exchange_->seconds_waited() - waited_before_;
  worked_before_ += worked, waited_before_ += waited;
  if (print_every_ == 0 || steps_ % print_every_ != 0) return;
  log::line(fmt::format("Actual gradient aggregation time: {:.6g}", worked + waited));
  if (options_.buffered_async) log::line(fmt::format("Async gradient aggregation wait time: {:.6g}", waited));
  log::record("exchange", {{"seconds", worked + waited}, {"wait_seconds", waited}});
}

void AllReduceGradients::archive(Archive& a) {
  if (parameters_) parameters_->gradients.memory().synchronize();
  if (pending_.any) throw Error("a checkpoint was requested while gradients were in flight");
  a("dataParallelSGD.residualEpoch", residual_epoch_);
  bool quantised = local_residual_.size() > 0;
  a("dataParallelSGD.quantised", quantised);
  if (!quantised) {
    clear(local_residual_);
    clear(owner_residual_);
  } else {
    need_residuals();  // a checkpoint of a quantised run may be continued in 32 bits
    archive_residual(a, "dataParallelSGD.residual", local_residual_.span());
    a(owned_name("dataParallelSGD.ownerResidual"), owner_residual_.span());
    if (a.loading() && exchange_) exchange_->keep_own_columns(owner_residual_.data());
    if (a.loading()) take_owned(comm_, owner_residual_.span(), local_residual_.span());
  }
  if (a.loading() && exchange_) hand_out_residuals();
}

}  // namespace tutti
