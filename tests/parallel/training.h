// SPDX-License-Identifier: Apache-2.0
// training.h -- what the tests of methods share: parameters of odd shapes, gradients that depend on rank and step only,
// and a step loop as the trainer's, with plain gradient descent in whole numbers of halves (so that it is exact).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "../support/reference_quantizer.h"
#include "parallel/local_gradients.h"
#include "parallel/options.h"
#include "parallel/running_method.h"
#include "parallel/warm_start.h"

namespace tutti::training {

using Shapes = std::vector<std::pair<std::size_t, std::size_t>>;  // rows, columns

// Where parameters lie; another memory than the host's is a device's.
inline const FloatMemory* parameter_memory = &host_memory();

// Chunks of at most `columns_per_chunk` columns.
inline Parameters parameters_of(const Shapes& shapes, std::size_t columns_per_chunk = 1000) {
  Parameters p;
  std::size_t size = 0;
  for (const auto& [rows, columns] : shapes) {
    Slice slice;
    slice.name = "slice" + std::to_string(p.slices.size());
    slice.shape.dims = {rows, columns};
    slice.offset = size, slice.rows = rows, slice.columns = columns;
    for (std::size_t c = 0; c < columns; c += columns_per_chunk)
      p.chunks.push_back({p.slices.size(), c, std::min(columns_per_chunk, columns - c)});
    size += (rows * columns + 15) / 16 * 16;
    p.slices.push_back(slice);
  }
  p.weights = FloatBuffer(size, *parameter_memory);
  p.gradients = FloatBuffer(size, *parameter_memory);
  return p;
}

inline std::vector<float> gradient(const Parameters& p, int rank, int step, bool whole_numbers = false) {
  std::vector<float> g(p.size());
  std::mt19937 random(static_cast<unsigned>(1000 * rank + step));
  for (const Slice& s : p.slices)
    for (std::size_t i = 0; i < s.size(); ++i)
      g[s.offset + i] = whole_numbers ? static_cast<float>(static_cast<int>(random() % 201) - 100)
                                      : static_cast<float>(random()) / 2e9f - 1.0f;
  return g;
}

inline StepMetrics metrics(int rank, int step) {
  StepMetrics t;
  t.samples = 10 + rank, t.columns = 12 + rank + step;
  t.criterion = 1.0 / (3 + rank + 10 * step), t.criterion_count = 10 + rank;
  t.evaluations = {{1.0 / (7 + rank), 10.0 + rank}, {static_cast<double>(step), 1}};
  return t;
}

// What a test feeds: reduced gradients, and what a weight exchange asks of the optimizer.
class Sink : public ReducedGradientSink {
 public:
  virtual void reset_momentum() {}
  virtual StepRates rates() const { return {}; }
};

// Plays the step loop's part, a call at a time.
class Player final : public GradientSink {
 public:
  Player(const ParallelTrainOptions& o, Communicator& comm)
      : comm_(comm),
        parallel_(make_method(o, {comm, optimizer_}), comm.size()),
        alone_(NoExchange().make({comm}), comm.size()) {
    if (o.exchanges()) warm_start_ = {o.start_epoch - 1, o.start_sample};
  }
  Player(ParallelMethod m, Communicator& comm)
      : comm_(comm),
        parallel_(std::move(m), comm.size()),
        alone_(NoExchange().make({comm}), comm.size()),
        warm_start_{0} {}

  void bind(Optimizer& of_run, std::function<std::unique_ptr<Optimizer>()> make) {
    optimizer_->now = &of_run, optimizer_->make = std::move(make);
  }
  void start(Parameters& p) {
    broadcast_weights(comm_, p);
    p_ = &p;
    tutti::start(method(), p);
  }
  void begin_epoch(std::int64_t epoch) {
    now_ = &alone_;
    if (warm_start_.parallel_throughout(epoch)) begin_parallel(epoch);
  }
  void begin_parallel(std::int64_t epoch) {
    if (!std::exchange(warm_start_.over, true)) broadcast_weights(comm_, *p_);
    now_ = &parallel_;
    tutti::begin_epoch(method(), epoch);
  }
  const WarmStart& warm_start() const { return warm_start_; }
  // Of a share whose size finish_gradients() tells.
  void begin_step(std::int64_t columns, Sink& sink) {
    begin_step({.columns = columns}, sink);
    size_known_ = false;
  }
  void begin_step(const StepInfo& info, Sink& sink) {
    size_known_ = true;
    info_ = info, info_.rates = sink.rates();
    into_ = &sink;
    held_.clear();
    now_->method.gradients->begin_step(
        info_, method().traits.updates_elsewhere ? static_cast<ReducedGradientSink&>(hold_) : sink);
    now_->method.weights->poll();
  }
  bool follows_device() const override { return now_->method.gradients->follows_device(); }
  void chunk_ready(std::size_t chunk) override { now_->method.gradients->chunk_ready(chunk); }
  void chunks_ready(std::span<const std::size_t> chunks) override { now_->method.gradients->chunks_ready(chunks); }
  void finish_gradients(StepMetrics& metrics) {
    if (!size_known_) info_.own_samples = info_.samples = metrics.samples;
    now_->metrics.begin(metrics);
    now_->method.gradients->finish_step();
    metrics = now_->metrics.finish();
  }
  // Returns whether the step was dropped.
  bool exchange_weights(std::int64_t global_samples) {
    info_.global_samples = global_samples;
    if (!size_known_) info_.global_columns = global_samples;
    const WeightChange change = now_->exchange_weights(info_);
    if (change.apply_gradients)
      for (const std::size_t chunk : held_) into_->on_reduced(chunk, info_.columns);
    apply(change, *into_);
    return change.dropped;
  }
  void drain(Sink& sink) {
    into_ = &sink;
    apply(now_->drain(sink), sink);
    drained_ = now_->metrics.drain();
  }
  StepMetrics pending_metrics_and_reset() { return std::exchange(drained_.pending, {}); }
  StepMetrics metrics_of_others_and_reset() { return std::exchange(drained_.of_others, {}); }
  void end_epoch(Sink& sink) { apply(now_->method.weights->end_epoch(), sink); }
  void show_common_weights() { method().weights->show(WeightExchange::Weights::common); }
  void take_back_weights(std::span<const float> changed_from = {}) {
    method().weights->show(WeightExchange::Weights::own, changed_from);
  }
  void archive(Archive& a) { tutti::archive(method(), a, WeightExchange::Section::per_rank); }
  void archive_common(Archive& a) {
    if (a.has("ranks share the data")) a("ranks share the data", warm_start_.over);
    tutti::archive(method(), a, WeightExchange::Section::common);
  }
  ExchangeStats exchange_stats_and_reset() { return parallel_.exchange_stats_and_reset(); }
  std::string describe() const { return parallel_.method.traits.text; }
  WorkQueue* work_queue() { return method().data.work_queue(); }
  bool joins_step(std::int64_t samples) { return !method().data.skipper || method().data.skipper->joins_step(samples); }
  std::int64_t dropped_samples_and_reset() {
    return method().data.skipper ? method().data.skipper->dropped_samples_and_reset() : 0;
  }
  StepMetrics reduce_metrics(const StepMetrics& mine) { return now_->metrics.reduce(mine); }
  ParallelMethod& method() { return parallel_.method; }
  StepInfo step_info(const StepSize& size) { return now_->step_info(size, {}); }

 private:
  struct Hold final : ReducedGradientSink {
    explicit Hold(Player& p) : player(p) {}
    void on_reduced(std::size_t chunk, std::int64_t) override { player.held_.push_back(chunk); }
    Player& player;
  };
  static void apply(const WeightChange& change, Sink& sink) {
    if (change.reset_momentum) sink.reset_momentum();
  }

  Communicator& comm_;
  const std::shared_ptr<RunOptimizer> optimizer_ = std::make_shared<RunOptimizer>();
  RunningMethod parallel_, alone_;
  RunningMethod* now_ = &parallel_;
  WarmStart warm_start_;
  Parameters* p_ = nullptr;
  StepInfo info_;
  bool size_known_ = false;
  Sink* into_ = nullptr;
  Hold hold_{*this};
  std::vector<std::size_t> held_;
  MetricsReducer::Drained drained_;
};

inline std::unique_ptr<Player> play(const ParallelTrainOptions& o, Communicator& comm) {
  return std::make_unique<Player>(o, comm);
}

// Receives global gradients: checks the order, keeps them, counts chunks.
class Collector : public Sink {
 public:
  explicit Collector(Parameters& p) : parameters_(p) {}
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    EXPECT_EQ(chunk, next_) << "chunks come in the order of announcement";
    next_ = (chunk + 1) % parameters_.chunks.size();
    if (chunk == 0) sums.emplace_back(parameters_.size()), columns_of.push_back(columns);
    EXPECT_EQ(columns, columns_of.back());
    const GradientChunk& p = parameters_.chunks[chunk];
    const std::size_t at = parameters_.offset(p);
    parameters_.gradients.memory().synchronize();
    for (std::size_t i = at; i < at + parameters_.count(p); ++i) sums.back()[i] = parameters_.gradients.data()[i];
  }
  std::vector<std::vector<float>> sums;  // one per update
  std::vector<std::int64_t> columns_of;

 private:
  Parameters& parameters_;
  std::size_t next_ = 0;
};

// One step: the local gradient is produced chunk by chunk, as the network does. On a device the network's writing would
// queue up behind what still reads the gradients; the host's has to wait for it.
template <class Size>  // of the step: its columns, or all of StepInfo
StepMetrics step(Player& player, Parameters& p, Sink& sink, const std::vector<float>& local, StepMetrics mine,
                 const Size& size) {
  player.begin_step(size, sink);
  p.gradients.memory().synchronize();
  for (std::size_t i = 0; i < p.chunks.size(); ++i) {
    const std::size_t at = p.offset(p.chunks[i]), n = p.count(p.chunks[i]);
    std::copy_n(local.begin() + static_cast<std::ptrdiff_t>(at), n, p.gradients.data() + at);
    player.chunk_ready(i);
  }
  player.finish_gradients(mine);
  return mine;
}

// Saves to and loads from memory; a name that was not saved, or of another size, fails the test.
class MemoryArchive : public Archive {
 public:
  bool loading() const override { return loading_; }
  void rewind_to_load() { loading_ = true; }
  void operator()(std::string_view name, bool& v) override { visit(numbers_, name, v); }
  void operator()(std::string_view name, std::int64_t& v) override { visit(numbers_, name, v); }
  void operator()(std::string_view name, double& v) override { visit(reals_, name, v); }
  void operator()(std::string_view name, std::string& v) override { visit(texts_, name, v); }
  void operator()(std::string_view name, std::span<float> v) override {
    std::vector<float>& kept = floats[std::string(name)];
    if (!loading_) kept.assign(v.begin(), v.end());
    ASSERT_EQ(kept.size(), v.size()) << name;
    std::copy(kept.begin(), kept.end(), v.begin());
  }
  bool has(std::string_view name) const override {
    const std::string n(name);
    return !loading_ || numbers_.count(n) || reals_.count(n) || texts_.count(n) || floats.count(n);
  }
  std::map<std::string, std::vector<float>> floats;

 private:
  template <class Kept, class T>
  void visit(std::map<std::string, Kept>& kept, std::string_view name, T& v) {
    const std::string n(name);
    if (!loading_) kept[n] = static_cast<Kept>(v);
    ASSERT_TRUE(kept.count(n)) << name;
    v = static_cast<T>(kept[n]);
  }
  bool loading_ = false;
  std::map<std::string, std::int64_t> numbers_;
  std::map<std::string, double> reals_;
  std::map<std::string, std::string> texts_;
};

}  // namespace tutti::training
