// SPDX-License-Identifier: Apache-2.0
#include "collective/metrics_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "base/activity.h"
#include "base/nap.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kTag = 32767;
constexpr std::size_t kFixedWords = 5;  // samples, columns, number of evaluations, criterion, its count

}  // namespace

void clear(StepMetrics& metrics) {
  metrics.samples = metrics.columns = 0;
  metrics.criterion = metrics.criterion_count = 0;
  for (auto& e : metrics.evaluations) e = {};
}

StepMetrics without(StepMetrics all, const StepMetrics& mine) {
  all.samples -= mine.samples, all.columns -= mine.columns;
  all.criterion -= mine.criterion, all.criterion_count -= mine.criterion_count;
  for (std::size_t i = 0; i < std::min(all.evaluations.size(), mine.evaluations.size()); ++i)
    all.evaluations[i].sum -= mine.evaluations[i].sum, all.evaluations[i].count -= mine.evaluations[i].count;
  return all;
}

// The first metrics with samples fixes the length of the messages. A rank without any may not know its evaluations yet.
void MetricsAllReduce::plan(const StepMetrics& metrics) {
  const auto ranks = static_cast<std::size_t>(comm_.size());
  struct Known {
    std::int64_t evaluations = 0, samples = 0;
  };
  const Known mine{static_cast<std::int64_t>(metrics.evaluations.size()), metrics.samples};
  std::vector<Known> all(ranks);
  comm_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  evaluations_ = 0;
  for (const Known& k : all) {
    evaluations_ = std::max(evaluations_, static_cast<std::size_t>(k.evaluations));
    planned_ = planned_ || k.evaluations > 0 || k.samples > 0;
  }
  words_ = kFixedWords + 2 * evaluations_;
  sum_.evaluations.reserve(evaluations_);
  step_ = 0;
  transfers_.clear();
  if (planned_ && many_steps_)
    memory_ = comm_.share_memory(sizeof(SharedCounter) + 2 * words_ * sizeof(std::int64_t));
  if (!memory_) plan_messages();
}

void MetricsAllReduce::plan_messages() {
  all_.assign(words_ * static_cast<std::size_t>(comm_.size()), 0);
  const auto message = [&](int rank) { return std::span(words_of(rank), words_); };
  for (int step = 1; step < comm_.size(); ++step) {
    const int from = (comm_.rank() + comm_.size() - step) % comm_.size();
    transfers_.push_back(comm_.plan_receive(from, kTag, std::as_writable_bytes(message(from))));
  }
  for (int step = 1; step < comm_.size(); ++step) {
    const int to = (comm_.rank() + step) % comm_.size();
    transfers_.push_back(comm_.plan_send(to, kTag, std::as_bytes(message(comm_.rank()))));
  }
}

// Of the current step.
std::int64_t* MetricsAllReduce::words_of(int rank) {
  if (!memory_) return all_.data() + static_cast<std::size_t>(rank) * words_;
  return reinterpret_cast<std::int64_t*>(memory_->of(rank).data() + sizeof(SharedCounter)) + step_ % 2 * words_;
}

void MetricsAllReduce::begin(const StepMetrics& metrics) {
  assert(!pending_);
  pending_ = true;
  if (planned_)
    send(metrics);
  else
    unsent_ = metrics;
}

void MetricsAllReduce::ensure_sent() {
  if (!unsent_) return;
  plan(*unsent_);
  send(*std::exchange(unsent_, {}));
}

void MetricsAllReduce::send(const StepMetrics& metrics) {
  if (metrics.evaluations.size() > evaluations_)
    throw Error(fmt::format("a minibatch reports {} evaluations, but the first one reported {}",
                            metrics.evaluations.size(), evaluations_));
  ++step_;
  write(metrics);
  for (auto& t : transfers_) t->start();
  if (memory_) written(comm_.rank()).raise_to(step_);
  bytes_ += static_cast<std::int64_t>(words_ * sizeof(std::int64_t)) * (comm_.size() - 1);
}

StepMetrics& MetricsAllReduce::finish(int except) {
  assert(pending_);
  ensure_sent();
  wait_for_all();
  pending_ = false;
  sum_.evaluations.resize(except < 0 ? evaluations_ : 0);
  clear(sum_);
  for (int r = 0; r < comm_.size(); ++r)
    if (r != except) add(r);
  return sum_;
}

void MetricsAllReduce::wait_for_all() {
  for (auto& t : transfers_) t->wait();
  if (!memory_) return;
  Waiting waiting("step metrics");
  for (int r = 0; r < comm_.size(); ++r) {
    waiting.on(comm_.world_rank(r));
    wait_until([&] { return written(r).reached(step_); }, [&](int) { memory_->poll(); });
  }
}

void MetricsAllReduce::write(const StepMetrics& metrics) {
  std::int64_t* at = words_of(comm_.rank());
  *at++ = metrics.samples;
  *at++ = metrics.columns;
  *at++ = static_cast<std::int64_t>(metrics.evaluations.size());
  *at++ = std::bit_cast<std::int64_t>(metrics.criterion);
  *at++ = std::bit_cast<std::int64_t>(metrics.criterion_count);
  for (const auto& e : metrics.evaluations)
    *at++ = std::bit_cast<std::int64_t>(e.sum), *at++ = std::bit_cast<std::int64_t>(e.count);
}

void MetricsAllReduce::add(int rank) {
  const std::int64_t* at = words_of(rank);
  sum_.samples += *at++;
  sum_.columns += *at++;
  const auto evaluations = static_cast<std::size_t>(*at++);
  if (evaluations > evaluations_)
    throw Error(fmt::format("the step metrics of rank {} are damaged: they name {} evaluations, not {}", rank,
                            evaluations, evaluations_));
  sum_.evaluations.resize(std::max(sum_.evaluations.size(), evaluations));
  sum_.criterion += std::bit_cast<double>(*at++);
  sum_.criterion_count += std::bit_cast<double>(*at++);
  for (std::size_t i = 0; i < evaluations; ++i) {
    sum_.evaluations[i].sum += std::bit_cast<double>(*at++);
    sum_.evaluations[i].count += std::bit_cast<double>(*at++);
  }
}

std::int64_t MetricsAllReduce::bytes_and_reset() { return std::exchange(bytes_, 0); }

StepMetrics metrics_of_others(Communicator& comm, const StepMetrics& mine) {
  MetricsAllReduce all(comm, false);
  all.begin(mine);
  return all.finish(comm.rank());
}

}  // namespace tutti
