// SPDX-License-Identifier: Apache-2.0
// weight_exchange.h -- the weight part of a parallel method: exchanges the weights of this rank with those of others.
// Called by src/train/step_loop.cpp after an update, and before and after weights are saved or evaluated. Every rank
// must call every function equally often, except where a work queue divides the data: ranks then make different numbers
// of steps and meet in drain().
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

// What an exchange did to the weights of this rank.
struct WeightChange {
  bool weights_changed = false;
  bool reset_momentum = false;  // the optimizer must clear its momentum
  bool apply_gradients =
      false;             // where servers apply gradients: this step's gradients were not pushed, so apply them here
  bool dropped = false;  // this step's gradients came too late and are discarded
};

// An object with messages in flight that must be polled regularly.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void poll() = 0;
};

class WeightExchange {
 public:
  virtual ~WeightExchange() = default;
  // Plans buffers and messages, once, and again after a roll-back. Weights are equal on all ranks at this point.
  virtual void start(Parameters&) = 0;
  virtual void begin_epoch(std::int64_t epoch) { (void)epoch; }
  // Whether after_update() of such a step may change weights. Has no side effect.
  virtual bool is_due(const StepInfo&) const { return true; }
  virtual WeightChange after_update(const StepInfo&) = 0;
  // Completes everything in flight. Does not change weights, except where servers hold the common ones.
  virtual void drain() {}
  // The epoch has no more steps: makes the last exchange, if the method has one. Call after drain().
  virtual WeightChange end_epoch() { return {}; }
  // Swaps the common weights (those that are saved and evaluated: a center variable, or the weights of the last
  // exchange) with this rank's own; see CommonWeights. `changed_from` is used with `own`: if all ranks have changed the
  // shown common weights in the same way, it has the common weights before the change. The change is then kept, and
  // this rank's own weights move by the same amount. Otherwise it is empty.
  enum class Weights { common, own };
  virtual void show(Weights which, std::span<const float> changed_from = {}) { (void)which, (void)changed_from; }
  enum class Section {
    per_rank,  // the state of this rank
    common     // the state that is equal on all ranks and valid for any number of them
  };
  // Saved while the common weights are shown.
  virtual void archive(Archive&, Section) {}

  // Makes progress on messages in flight while the network computes.
  void poll() {
    if (pollable_) pollable_->poll();
  }
  // Returns and resets the statistics of this rank; complete after drain() and end_epoch().
  ExchangeStats exchange_stats_and_reset() { return std::exchange(stats_, {}); }

 protected:
  Pollable* pollable_ = nullptr;
  ExchangeStats stats_;
};

// While it lives, Parameters::weights are the common ones. After an error they are not swapped back, because nothing is
// exchanged any more.
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
  // All ranks have changed the shown weights in the same way, from `before`, and the change stays. `before` must
  // outlive the guard.
  void commit(std::span<const float> before) { changed_from_ = before; }

 private:
  WeightExchange& exchange_;
  const int exceptions_ = std::uncaught_exceptions();
  std::span<const float> changed_from_;
};

// For methods that keep weights equal through their gradients, or exchange nothing.
class KeepWeights final : public WeightExchange {
 public:
  void start(Parameters&) override {}
  bool is_due(const StepInfo&) const override { return false; }
  WeightChange after_update(const StepInfo&) override { return {}; }
};

}  // namespace tutti
