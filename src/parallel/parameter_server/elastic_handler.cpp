// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/elastic_handler.h"

#include <algorithm>

namespace tutti {
namespace {

// Encodes `to` - `known` in few bits; afterwards `known` is what the other side decodes.
void send_difference(const Codec& codec, const WeightKernels& kernels, const ServerShardRun& run, const float* to,
                     float* known, float* values, float* lost, std::byte* message) {
  kernels.run(weights::Difference{to, known, values}, run.size());
  kernels.run(weights::Clear{lost}, run.size());
  codec.encode(run.rows, run.columns, values, lost, message);
  codec.decode_add(run.rows, run.columns, message, known);
}

}  // namespace

std::size_t elastic_bytes(const ServerShardPlan& plan, const Codec& codec) {
  std::size_t bytes = 0;
  for (const ServerShardRun& run : plan.runs) bytes += codec.bytes(run.rows, run.columns);
  return bytes;
}

ElasticHandler::ElasticHandler(const ServerShardPlan& plan, std::shared_ptr<const Codec> codec, double moving_rate,
                               int clients)
    : plan_(plan), codec_(std::move(codec)), rate_(static_cast<float>(moving_rate)) {
  center_ = FloatBuffer(plan_.local_size());
  values_ = FloatBuffer(plan_.largest_run);
  if (!codec_->lossy()) return;
  lost_ = FloatBuffer(plan_.largest_run);
  for (int c = 0; c < clients; ++c) known_.push_back({FloatBuffer(center_.size()), FloatBuffer(center_.size())});
}

void ElasticHandler::load(const float* flat) {
  plan_.gather(flat, center_.data());
  for (Known& k : known_) std::copy_n(center_.data(), center_.size(), k.center.data());
}

void ElasticHandler::start(const float* flat) {
  load(flat);
  for (Known& k : known_) std::copy_n(center_.data(), center_.size(), k.weights.data());
}

void ElasticHandler::store(float* flat) const { plan_.scatter(center_.data(), flat); }

std::size_t ElasticHandler::handle(int client, std::span<std::byte> message) {
  std::byte* at = message.data();
  for (const ServerShardRun& run : plan_.runs) {
    if (known_.empty())
      turn_whole(run, at);
    else
      turn_differences(run, known_[static_cast<std::size_t>(client)], at);
    at += codec_->bytes(run.rows, run.columns);
  }
  const auto bytes = static_cast<std::size_t>(at - message.data());
  if (client != plan_.owner) count_message(responses_, bytes, plan_.values);
  return bytes;
}

void ElasticHandler::turn_whole(const ServerShardRun& run, std::byte* message) {
  float* center = center_.data() + run.local;
  const float* theirs = values_.data();
  codec_->decode(run.rows, run.columns, message, values_.data());
  codec_->encode(run.rows, run.columns, center, nullptr, message);
  for (std::size_t i = 0; i < run.size(); ++i) center[i] -= rate_ * (center[i] - theirs[i]);
}

void ElasticHandler::turn_differences(const ServerShardRun& run, Known& known, std::byte* message) {
  float* center = center_.data() + run.local;
  float* as_known = known.center.data() + run.local;
  float* theirs = known.weights.data() + run.local;
  codec_->decode_add(run.rows, run.columns, message, theirs);
  send_difference(*codec_, weight_kernels_for(host_memory()), run, center, as_known, values_.data(), lost_.data(),
                  message);
  for (std::size_t i = 0; i < run.size(); ++i) {
    const float step = rate_ * (as_known[i] - theirs[i]);
    center[i] -= step, as_known[i] -= step, theirs[i] += step;
  }
}

ElasticWorker::ElasticWorker(std::shared_ptr<const Codec> codec, double moving_rate, const FloatBuffer& weights,
                             std::size_t largest_run)
    : codec_(std::move(codec)),
      kernels_(weight_kernels_for(weights.memory())),
      rate_(static_cast<float>(moving_rate)),
      values_(largest_run, weights) {
  if (!codec_->lossy()) return;
  center_ = FloatBuffer(weights.size(), weights);
  weights_ = FloatBuffer(weights.size(), weights);
  lost_ = FloatBuffer(largest_run, weights);
}

void ElasticWorker::load(const float* flat) {
  if (center_.size() > 0) std::copy_n(flat, center_.size(), center_.data());
}

void ElasticWorker::start(const float* flat) {
  load(flat);
  if (weights_.size() > 0) std::copy_n(flat, weights_.size(), weights_.data());
}

void ElasticWorker::write(const ServerShardPlan& plan, const float* weights, std::byte* message) {
  for (const ServerShardRun& run : plan.runs) {
    const float* x = weights + run.offset;
    if (codec_->lossy())
      send_difference(*codec_, kernels_, run, x, weights_.data() + run.offset, values_.data(), lost_.data(), message);
    else
      codec_->encode(run.rows, run.columns, x, nullptr, message);
    message += codec_->bytes(run.rows, run.columns);
  }
}

void ElasticWorker::take(const ServerShardPlan& plan, const std::byte* message, float* weights) {
  for (const ServerShardRun& run : plan.runs) {
    float* x = weights + run.offset;
    if (codec_->lossy()) {
      float *center = center_.data() + run.offset, *mine = weights_.data() + run.offset;
      codec_->decode_add(run.rows, run.columns, message, center);
      kernels_.run(weights::Approach{x, mine, center, rate_}, run.size());
    } else {
      codec_->decode(run.rows, run.columns, message, values_.data());
      kernels_.run(weights::Pull{values_.data(), x, values_.data(), rate_}, run.size());
    }
    message += codec_->bytes(run.rows, run.columns);
  }
}

}  // namespace tutti
