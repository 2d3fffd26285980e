// SPDX-License-Identifier: Apache-2.0
// elastic_handler.h -- a part of the center of EASGD at the rank that serves it. A worker sends its weights and gets
// the center as it was; both go towards each other by the same step, which neither has to be told.
//   32 bits: weights and center travel as they are.
//   Fewer: both sides keep what the worker's weights and the center are to the other, and what travels is the
//   difference to that. What rounding leaves out remains part of the difference and travels the next time.
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

// Bytes of a message, either way.
std::size_t elastic_bytes(const ServerShardPlan&, const Codec&);

class ElasticHandler final : public RequestHandler {
 public:
  ElasticHandler(const ServerShardPlan&, std::shared_ptr<const Codec>, double moving_rate, int clients);
  std::size_t handle(int client, std::span<std::byte> message) override;

  // The rest inside Server::exclusively() only.
  void load(const float* flat);   // the center, which every worker knows
  void start(const float* flat);  // the same, and the workers stand there too as far as anybody knows
  void store(float* flat) const;
  std::int64_t responses_to_others_and_reset() { return std::exchange(responses_, 0); }

 private:
  // What a worker takes the center for, and the handler its weights.
  struct Known {
    FloatBuffer center, weights;
  };
  void turn_whole(const ServerShardRun&, std::byte* message);
  void turn_differences(const ServerShardRun&, Known&, std::byte* message);

  const ServerShardPlan plan_;
  std::shared_ptr<const Codec> codec_;
  const float rate_;
  FloatBuffer center_;
  std::vector<Known> known_;  // by client; none where nothing is lost
  FloatBuffer values_, lost_;
  std::int64_t responses_ = 0;  // to clients other than the owner
};

// The worker's side of the same. Weights and messages may be a device's; then write() and take() queue its work.
class ElasticWorker {
 public:
  // `weights`: of all parts, of which the largest run of columns has so many values.
  ElasticWorker(std::shared_ptr<const Codec>, double moving_rate, const FloatBuffer& weights, std::size_t largest_run);
  void load(const float* flat);   // by the host, while nothing is queued
  void start(const float* flat);  // likewise
  void write(const ServerShardPlan&, const float* weights, std::byte* message);
  void take(const ServerShardPlan&, const std::byte* message, float* weights);

 private:
  std::shared_ptr<const Codec> codec_;
  const WeightKernels& kernels_;
  const float rate_;
  FloatBuffer center_, weights_;  // as ElasticHandler::Known; empty where nothing is lost
  FloatBuffer values_, lost_;
};

}  // namespace tutti
