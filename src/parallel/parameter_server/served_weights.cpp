// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/served_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace tutti {
namespace {

// A message is a flag, 1 to move the weights, and values in the layout of the shard.
float* values_of(std::byte* message) { return reinterpret_cast<float*>(message + kHeadBytes); }

class MasterHandler final : public RequestHandler {
 public:
  MasterHandler(FloatBuffer& weights, std::size_t values) : weights_(weights), read_(values) {}

  std::size_t handle(int, std::span<std::byte> message) override {
    const bool moves = message[0] != std::byte{0};
    float* const values = values_of(message.data());
    float* const w = weights_.data();
    if (!moves) {
      std::copy_n(w, read_.size(), read_.data());
      std::copy_n(w, read_.size(), values);
      return message.size();
    }
    const float* const before = read_.data();
    for (std::size_t i = 0; i < read_.size(); ++i)
      w[i] = w[i] == before[i] ? values[i] : w[i] + (values[i] - before[i]);
    return kHeadBytes;
  }

 private:
  FloatBuffer& weights_;
  FloatBuffer read_;  // as the master read them last
};

}  // namespace

ServedWeights::ServedWeights(Server& server, const std::vector<ServerShardPlan>& plans,
                             const std::vector<FloatBuffer*>& local)
    : server_(server), plans_(plans) {
  constexpr int kLane = 1;  // beside that of the pushes
  for (std::size_t s = 0; s < plans_.size(); ++s) {
    std::unique_ptr<MasterHandler> handler;
    if (local[s]) handler = std::make_unique<MasterHandler>(*local[s], plans_[s].local_size());
    handlers_.push_back(server_.add({.owner = plans_[s].owner,
                                     .bytes = kHeadBytes + plans_[s].local_size() * sizeof(float),
                                     .clients = 1,
                                     .lane = kLane},
                                    std::move(handler)));
  }
}

// Fills and sends all requests before any response is awaited.
template <class Fill>
void ServedWeights::request_all(bool moves, const Fill& fill) {
  for (std::size_t s = 0; s < plans_.size(); ++s) {
    const std::span<std::byte> message = server_.message(handlers_[s]);
    message[0] = std::byte{moves};
    fill(plans_[s], values_of(message.data()));
    server_.request(handlers_[s], moves ? kHeadBytes : message.size());
    if (!server_.owns(handlers_[s])) bytes_sent_ += static_cast<std::int64_t>(message.size());
  }
}

void ServedWeights::read(float* flat) {
  request_all(false, [](const ServerShardPlan&, float*) {});
  for (std::size_t s = 0; s < plans_.size(); ++s)
    plans_[s].scatter(reinterpret_cast<const float*>(server_.wait(handlers_[s]).data() + kHeadBytes), flat);
}

void ServedWeights::move(const float* flat) {
  request_all(true, [&](const ServerShardPlan& plan, float* values) { plan.gather(flat, values); });
  for (const int handler : handlers_) server_.wait(handler);
}

}  // namespace tutti
