// SPDX-License-Identifier: Apache-2.0
#include "simulator/reduce_pipeline.h"

#include <algorithm>
#include <cmath>

#include "collective/shard_plan.h"

namespace tutti::simulator {
namespace {

BucketLoad load_of(const Bucket& bucket, int ranks, int rank) {
  BucketLoad load{.first_chunk = bucket.first_chunk, .end_chunk = bucket.end_chunk};
  const double others = ranks - 1, own = static_cast<double>(bucket.section_bytes(rank));
  for (int owner = 0; owner < ranks; ++owner) {
    const auto bytes = static_cast<double>(bucket.section_bytes(owner));
    if (owner == rank) continue;
    load.scatter_out += bytes, load.scatter_sent += parts_of(bytes);
  }
  load.scatter_in = load.gather_out = others * own;
  load.scatter_received = load.gather_sent = others * parts_of(own);
  load.gather_in = load.scatter_out, load.gather_received = load.scatter_sent;
  load.own_values = static_cast<double>(bucket.section_values[static_cast<std::size_t>(rank)]);
  return load;
}

// The rank whose sections are the longest: every rank sends the sections of all others once, and its own to all others.
int busiest(const ShardPlan& plan) {
  const auto total = [&](int rank) {
    std::size_t bytes = 0;
    for (const Bucket& b : plan.buckets) bytes += b.section_bytes(rank);
    return bytes;
  };
  int best = 0;
  for (int rank = 1; rank < plan.ranks; ++rank)
    if (total(rank) > total(best)) best = rank;
  return best;
}

}  // namespace

double ReduceLoad::bytes_sent() const {
  double bytes = 0;
  for (const BucketLoad& b : buckets) bytes += b.scatter_out + b.gather_out;
  return bytes;
}

ReduceLoad reduce_load(const Parameters& layout, const std::string& name, int ranks) {
  const auto codec = make_codec(coding(name));
  const ShardPlan plan =
      plan_shards(layout, *codec, ranks, bucket_values(static_cast<std::size_t>(values_of(layout)), 0));
  const int rank = busiest(plan);
  ReduceLoad load;
  for (const Bucket& b : plan.buckets) load.buckets.push_back(load_of(b, ranks, rank));
  return load;
}

ReducePipeline::ReducePipeline(const Parts& parts, const std::string& name, const Cluster& cluster)
    : parts_(parts),
      cluster_(cluster),
      ranks_per_core_(cluster.ranks_per_core()),
      cost_(parts.codecs.at(name)),
      lossy_(make_codec(coding(name))->lossy()),
      load_(reduce_load(parts.layout, name, cluster.ranks)),
      states_(load_.buckets.size()) {}

// Without loss a rank neither encodes nor decodes the shard that it owns.
ChunkWork ReducePipeline::coding_work() const {
  ChunkWork work;
  const double coded = lossy_ ? 1 : 1 - 1.0 / cluster_.ranks;
  for (const GradientChunk& c : parts_.layout.chunks) {
    const auto values = static_cast<double>(parts_.layout.count(c));
    work.ready.push_back(0);
    work.before.push_back(values * coded * cost_.encode);
    work.after.push_back(values * coded * cost_.decode);
  }
  return work;
}

double ReducePipeline::transfer(double out, double in) {
  out_free_ = std::max(out_free_, now_) + out / cluster_.bandwidth;
  in_free_ = std::max(in_free_, now_) + in / cluster_.bandwidth;
  return std::max(out_free_, in_free_) + parts_.message.latency + cluster_.latency;
}

void ReducePipeline::compute_to(double seconds) {
  work(std::max(0.0, seconds - computed_));
  computed_ = std::max(computed_, seconds);
}

void ReducePipeline::launch(std::size_t bucket) {
  const BucketLoad& b = load_.buckets[bucket];
  states_[bucket] = {.arrives = transfer(b.scatter_out, b.scatter_in)};
  work(messages(b.scatter_sent, b.scatter_out));
  launched_.push_back(bucket);
}

// In the order of launches.
bool ReducePipeline::sum_next() {
  if (launched_.empty()) return false;
  const std::size_t bucket = launched_.front();
  State& s = states_[bucket];
  if (s.arrives > now_) return false;
  const BucketLoad& b = load_.buckets[bucket];
  work(messages(b.scatter_received, b.scatter_in));
  work(b.own_values * (cost_.decode + (cluster_.ranks - 1) * cost_.add + cost_.encode + (lossy_ ? 0 : cost_.decode)));
  s.published = transfer(b.gather_out, b.gather_in);
  work(messages(b.gather_sent, b.gather_out));
  s.summed = true;
  launched_.pop_front();
  return true;
}

void ReducePipeline::advance() {
  while (sum_next()) {
  }
}

bool ReducePipeline::use_next(const ChunkWork& w, std::size_t announced) {
  if (used_ == load_.buckets.size()) return false;
  const BucketLoad& b = load_.buckets[used_];
  const State& s = states_[used_];
  if (b.end_chunk > announced || !s.summed || s.published > now_) return false;
  work(messages(b.gather_received, b.gather_in));
  for (std::size_t i = b.first_chunk; i < b.end_chunk; ++i) work(w.after[i]);
  ++used_;
  return true;
}

void ReducePipeline::wait_until(double time) {
  waited_ += std::max(0.0, time - now_);
  now_ = std::max(now_, time);
}

void ReducePipeline::finish(const ChunkWork& w) {
  while (used_ < load_.buckets.size()) {
    double next = std::numeric_limits<double>::infinity();
    if (!launched_.empty()) next = states_[launched_.front()].arrives;
    if (states_[used_].summed) next = std::min(next, states_[used_].published);
    wait_until(next);
    advance();
    while (use_next(w, w.ready.size())) {
    }
  }
}

void ReducePipeline::step(const ChunkWork& w) {
  computed_ = 0, used_ = 0;
  for (State& s : states_) s = {};
  for (std::size_t g = 0; g < load_.buckets.size(); ++g)
    for (std::size_t i = load_.buckets[g].first_chunk; i < load_.buckets[g].end_chunk; ++i) {
      compute_to(w.ready[i]);
      work(w.before[i]);
      if (i + 1 == load_.buckets[g].end_chunk) launch(g);
      advance();
      while (use_next(w, i + 1)) {
      }
    }
  compute_to(w.seconds);
  finish(w);
}

// The program looks at messages when a step begins and when a chunk is announced, and waits only at the end.
void ReducePipeline::late_step(const ChunkWork& w) {
  computed_ = 0, used_ = 0;
  advance();
  for (std::size_t i = 0; i < w.ready.size(); ++i) {
    compute_to(w.ready[i]);
    exchange_behind(w, i + 1);
  }
  compute_to(w.seconds);
  while (used_ < load_.buckets.size()) {
    while (!states_[used_].summed) wait_until(states_[launched_.front()].arrives), advance();
    wait_until(states_[used_].published);
    exchange_behind(w, w.ready.size());
  }
  late_pending_ = true;
}

// Stops at a bucket whose last sum is not there yet.
void ReducePipeline::exchange_behind(const ChunkWork& w, std::size_t announced) {
  for (; used_ < load_.buckets.size() && load_.buckets[used_].end_chunk <= announced; ++used_) {
    const BucketLoad& b = load_.buckets[used_];
    const State& s = states_[used_];
    if (late_pending_ && (!s.summed || s.published > now_)) break;
    if (late_pending_) work(messages(b.gather_received, b.gather_in));
    for (std::size_t i = b.first_chunk; i < b.end_chunk; ++i) work(w.before[i] + (late_pending_ ? w.after[i] : 0));
    launch(used_);
  }
  advance();
}

void ReducePipeline::exchange(const ChunkWork& w) {
  computed_ = 0, used_ = 0;
  for (State& s : states_) s = {};
  for (std::size_t g = 0; g < load_.buckets.size(); ++g) {
    for (std::size_t i = load_.buckets[g].first_chunk; i < load_.buckets[g].end_chunk; ++i) work(w.before[i]);
    launch(g);
    advance();
  }
  finish(w);
}

void ReducePipeline::short_messages() { work(messages(2.0 * (cluster_.ranks - 1), 0)); }

void ReducePipeline::short_round() {
  const double rounds = std::ceil(std::log2(static_cast<double>(cluster_.ranks)));
  work(messages(2 * rounds, 0));
  wait_until(now_ + rounds * (parts_.message.latency + cluster_.latency));
}

}  // namespace tutti::simulator
