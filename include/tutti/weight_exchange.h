// SPDX-License-Identifier: Apache-2.0
// weight_exchange.h -- the second seam of a parallel method: the weights of this rank and those of the others. Called
// by src/train/step_loop.cpp after an update, and around everything that saves or evaluates weights.
// Every rank calls every function equally often, except where a work queue divides the data: ranks then make different
// numbers of steps and meet in drain().
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <utility>

#include "tutti/archive.h"
#include "tutti/exchange_stats.h"
#include "tutti/gradient_exchange.h"
#include "tutti/parameters.h"

namespace tutti {

// What an exchange has done to the weights of this rank.
struct WeightChange {
  bool weights_changed = false;
  bool reset_momentum = false;   // the optimizer is to forget its momentum
  bool apply_gradients = false;  // where servers apply gradients: this step's were not pushed, so they count here
  bool dropped = false;          // the gradients of this step came too late and count nowhere
};

// Has messages in flight that need the processor now and then.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void poll() = 0;
};

class WeightExchange {
 public:
  virtual ~WeightExchange() = default;
  // Plans buffers and messages, once; again after a roll-back. Weights are equal on all ranks by now.
  virtual void start(Parameters&) = 0;
  virtual void begin_epoch(std::int64_t epoch) { (void)epoch; }
  // Whether after_update() of such a step may change weights. Changes nothing.
  virtual bool is_due(const StepInfo&) const { return true; }
  virtual WeightChange after_update(const StepInfo&) = 0;
  // Nothing is in flight any more. Moves no weights, except where servers hold the common ones.
  virtual void drain() {}
  // The epoch has no more steps: the last exchange, where the method has one. After drain().
  virtual WeightChange end_epoch() { return {}; }
  // Puts the common weights, those that are saved and evaluated (a center variable, or the weights of the last
  // exchange), in the place of this rank's own, or its own back. See CommonWeights. `changed_from`, with `own`: empty,
  // or the common weights before somebody changed those that were shown, for all ranks alike; they stay changed, and
  // this rank's own weights move by the same amount.
  enum class Weights { common, own };
  virtual void show(Weights which, std::span<const float> changed_from = {}) { (void)which, (void)changed_from; }
  enum class Section {
    per_rank,  // what each rank has for itself
    common     // what is equal on every rank, and serves any number of them
  };
  // Saved while common weights are shown.
  virtual void archive(Archive&, Section) {}

  // Advances messages in flight while the network computes.
  void poll() {
    if (pollable_) pollable_->poll();
  }
  // What this rank has spent since the last call; complete after drain() and end_epoch().
  ExchangeStats exchange_stats_and_reset() { return std::exchange(stats_, {}); }

 protected:
  Pollable* pollable_ = nullptr;
  ExchangeStats stats_;
};

// While it lives, Parameters::weights are the common ones. An error leaves them there: nothing is exchanged any more.
class CommonWeights {
 public:
  explicit CommonWeights(WeightExchange& exchange) : exchange_(exchange) {
    exchange_.show(WeightExchange::Weights::common);
  }
  ~CommonWeights() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) exchange_.show(WeightExchange::Weights::own, changed_from_);
  }
  CommonWeights(const CommonWeights&) = delete;
  CommonWeights& operator=(const CommonWeights&) = delete;
  // The weights shown have been changed on all ranks alike, from `before`, and stay so. `before` outlives the guard.
  void commit(std::span<const float> before) { changed_from_ = before; }

 private:
  WeightExchange& exchange_;
  const int exceptions_ = std::uncaught_exceptions();
  std::span<const float> changed_from_;
};

// For methods whose gradients keep the weights of all ranks equal, or that exchange nothing.
class KeepWeights final : public WeightExchange {
 public:
  void start(Parameters&) override {}
  bool is_due(const StepInfo&) const override { return false; }
  WeightChange after_update(const StepInfo&) override { return {}; }
};

}  // namespace tutti
