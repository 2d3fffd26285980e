// SPDX-License-Identifier: Apache-2.0
// elastic_handler.h -- a part of the center of EASGD, at the rank that serves it. A worker sends its weights and
// receives the center as it was; both then move towards each other by the same step, which each side computes itself.
//   32 bits: weights and center are sent as they are.
//   Fewer bits: each side keeps the values that the other side knows, and the difference to them is sent. The
//   quantisation error remains in the difference and is sent the next time.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "parallel/local_sgd/weight_kernels.h"
#include "parallel/parameter_server/request_loop.h"
#include "parallel/parameter_server/shard.h"
#include "tutti/codec.h"

namespace tutti {

// Size of a message in either direction.
std::size_t elastic_bytes(const ServerShardPlan&, const Codec&);

class ElasticHandler final : public RequestHandler {
 public:
  ElasticHandler(const ServerShardPlan&, std::shared_ptr<const Codec>, double moving_rate, int clients);
  std::size_t handle(int client, std::span<std::byte> message) override;

  // Call the following only inside Server::exclusively().
  void load(const float* flat);   // sets the center, which every worker knows
  void start(const float* flat);  // sets the center and the known weights of all workers
  void store(float* flat) const;
  FloatBuffer& center() { return center_; }
  ExchangeStats responses_to_others_and_reset() { return std::exchange(responses_, {}); }

 private:
  // The center as the worker knows it, and the worker's weights as the handler knows them.
  struct Known {
    FloatBuffer center, weights;
  };
  void turn_whole(const ServerShardRun&, std::byte* message);
  void turn_differences(const ServerShardRun&, Known&, std::byte* message);

  const ServerShardPlan plan_;
  std::shared_ptr<const Codec> codec_;
  const float rate_;
  FloatBuffer center_;
  std::vector<Known> known_;  // by client; empty if the codec is lossless
  FloatBuffer values_, lost_;
  ExchangeStats responses_;  // to clients other than the owner
};

// The worker's side. If weights and messages are on a device, write() and take() enqueue its work.
class ElasticWorker {
 public:
  // `weights`: of all parts; the longest run of columns has `largest_run` values.
  ElasticWorker(std::shared_ptr<const Codec>, double moving_rate, const FloatBuffer& weights, std::size_t largest_run);
  void load(const float* flat);   // by the host, while no work is queued
  void start(const float* flat);  // likewise
  void write(const ServerShardPlan&, const float* weights, std::byte* message);
  void take(const ServerShardPlan&, const std::byte* message, float* weights);

 private:
  std::shared_ptr<const Codec> codec_;
  const WeightKernels& kernels_;
  const float rate_;
  FloatBuffer center_, weights_;  // as ElasticHandler::Known; empty if the codec is lossless
  FloatBuffer values_, lost_;
};

}  // namespace tutti
