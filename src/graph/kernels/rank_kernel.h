// SPDX-License-Identifier: Apache-2.0
// rank_kernel.h -- what the operations share that move values between ranks (placement.h): whose samples and features
// are whose, and the transfers. Works on the host's memory; values of a device are copied.
#pragma once

#include <algorithm>
#include <vector>

#include "base/timeline.h"
#include "graph/kernels/makers.h"
#include "graph/rank_transfers.h"
#include "tutti/placement.h"

namespace tutti::graph {

// A conversion whose backward pass can travel while the kernel in front computes.
class OverlappedBackward {
 public:
  virtual ~OverlappedBackward() = default;
  // The gradient of the result is complete. backward() then only waits. Does nothing where it cannot overlap.
  virtual void start_backward(Run&) const = 0;
  virtual void poll() const = 0;  // makes progress on what has started
};

class RankKernel : public Kernel {
 public:
  explicit RankKernel(Instruction i)
      : Kernel(std::move(i)), width_(whole_width(code)), tag_(static_cast<int>(number(code.node, "tag", 0))) {
    reads_no_values();
    replayable = false;
    crosses_ranks = true;
  }

 protected:
  using Block = RankTransfers::Block;

  static int me(const Run& run) { return run.ranks->rank(); }
  static int ranks(const Run& run) { return run.ranks->size(); }
  ShardRange features(const Run& run, int rank) const { return shard_range(width_, rank, ranks(run)); }
  ShardRange samples(const Run& run, int rank) const {
    const auto& first = run.first_of_rank[own_axis()];
    return {first[static_cast<std::size_t>(rank)], first[static_cast<std::size_t>(rank) + 1]};
  }
  std::size_t samples(const Run& run) const { return run.first_of_rank[own_axis()].back(); }

  // Every rank's block of `mine` at its place in `all`.
  void all_gather(Run& run, const float* mine, float* all) const {
    gather(run, mine, all, [](int, int) { return true; });
  }
  // The sum over the ranks of their values for this rank's samples, in rank order.
  void reduce_scatter(Run& run, const float* partial, float* mine) const {
    start_reduce_scatter(run, partial);
    finish_reduce_scatter(run, mine, false);
  }
  void start_reduce_scatter(Run& run, const float* partial) const {
    const std::size_t count = samples(run, me(run)).size() * width_, other = static_cast<std::size_t>(ranks(run)) - 1;
    float* received = reserve(received_, other * count);
    blocks_.clear();
    std::vector<const float*>& terms = terms_;
    terms.clear();
    for (int q = 0; q < ranks(run); ++q) {
      float* theirs = const_cast<float*>(partial) + samples(run, q).first * width_;
      terms.push_back(q == me(run) ? theirs : received);
      if (q == me(run)) continue;
      blocks_.push_back({q, true, theirs, samples(run, q).size() * width_});
      blocks_.push_back({q, false, received, count});
      received += count;
    }
    start(run);
  }
  void finish_reduce_scatter(Run& run, float* mine, bool add) const {
    wait(run);
    sum(terms_, samples(run, me(run)).size() * width_, mine, add);
  }
  void poll_transfers() const { transfers_.poll(); }
  // From this rank's samples with all features to all samples with this rank's features, and back.
  void to_features(Run& run, const float* mine, float* shard) const {
    const std::size_t own = samples(run, me(run)).size(), own_width = features(run, me(run)).size();
    float* packed = reserve(packed_, own * width_);
    blocks_.clear();
    for (int q = 0; q < ranks(run); ++q) {
      const ShardRange f = features(run, q), s = samples(run, q);
      float* to = q == me(run) ? shard + s.first * own_width : packed;
      for (std::size_t i = 0; i < own; ++i) std::copy_n(mine + i * width_ + f.first, f.size(), to + i * f.size());
      if (q == me(run)) continue;
      blocks_.push_back({q, true, packed, own * f.size()});
      blocks_.push_back({q, false, shard + s.first * own_width, s.size() * own_width});
      packed += own * f.size();
    }
    exchange(run);
  }
  void to_samples(Run& run, const float* shard, float* mine) const {
    const std::size_t own = samples(run, me(run)).size(), own_width = features(run, me(run)).size();
    float* const packed = reserve(packed_, own * width_);
    blocks_.clear();
    float* next = packed;
    for (int q = 0; q < ranks(run); ++q) {
      const ShardRange f = features(run, q), s = samples(run, q);
      float* theirs = const_cast<float*>(shard) + s.first * own_width;
      if (q == me(run)) {
        std::copy_n(theirs, own * own_width, next);
      } else {
        blocks_.push_back({q, true, theirs, s.size() * own_width});
        blocks_.push_back({q, false, next, own * f.size()});
      }
      next += own * f.size();
    }
    exchange(run);
    const float* from = packed;
    for (int q = 0; q < ranks(run); ++q) {
      const ShardRange f = features(run, q);
      for (std::size_t i = 0; i < own; ++i, from += f.size()) std::copy_n(from, f.size(), mine + i * width_ + f.first);
    }
  }
  // All samples at rank 0, and from there to the ranks that they belong to.
  void gather_at_first(Run& run, const float* mine, float* all) const {
    gather(run, mine, all, [](int, int to) { return to == 0; });
  }
  void scatter_from_first(Run& run, const float* all, float* mine) const {
    blocks_.clear();
    for (int q = 1; q < ranks(run); ++q) {
      const ShardRange s = samples(run, q);
      if (me(run) == 0) blocks_.push_back({q, true, const_cast<float*>(all) + s.first * width_, s.size() * width_});
    }
    const std::size_t own = samples(run, me(run)).size() * width_;
    if (me(run) != 0) blocks_.push_back({0, false, mine, own});
    exchange(run);
    if (me(run) == 0) std::copy_n(all, own, mine);
  }
  void broadcast_from_first(Run& run, float* all, std::size_t count) const {
    blocks_.clear();
    for (int q = 1; q < ranks(run); ++q)
      if (me(run) == 0 || me(run) == q) blocks_.push_back({me(run) == 0 ? q : 0, me(run) == 0, all, count});
    exchange(run);
  }
  // Every rank's values, in rank order: on every rank, or (`first`) only on rank 0. Valid until the next call.
  const std::vector<const float*>& values_of_all(Run& run, const float* mine, std::size_t count,
                                                 bool first = false) const {
    const auto takes = [first](int rank) { return !first || rank == 0; };
    float* next = reserve(received_, count * static_cast<std::size_t>(ranks(run)));
    blocks_.clear(), terms_.clear();
    for (int q = 0; q < ranks(run); ++q, next += count) {
      terms_.push_back(q == me(run) ? mine : next);
      if (q == me(run)) continue;
      if (takes(q)) blocks_.push_back({q, true, const_cast<float*>(mine), count});
      if (takes(me(run))) blocks_.push_back({q, false, next, count});
    }
    exchange(run);
    return terms_;
  }

  // Calls work(from, to) with host memory; afterwards `to`, of `count` floats, has (or has added) the result.
  template <class Work>
  void on_host(Run& run, const float* from, std::size_t from_count, float* to, std::size_t count, bool add,
               const Work& work) const {
    const bool host = run.backend.is_host();
    if (!host && from_count > 0) {
      float* copy = reserve(uploaded_, from_count);
      run.backend.download(from, copy, from_count);
      from = copy;
    }
    if (host && !add) return work(from, to);
    float* const result = reserve(result_, count);
    work(static_cast<const float*>(from), result);
    if (count == 0) return;
    if (host) {
      for (std::size_t i = 0; i < count; ++i) to[i] += result[i];
      return;
    }
    if (!add) return run.backend.upload(result, to, count);
    float* const there = device_.reserve(run.backend, count);
    run.backend.upload(result, there, count);
    run.backend.map_gradient(UnaryOp::copy, there, there, there, to, count, true);
  }

  static void sum(const std::vector<const float*>& terms, std::size_t count, float* y, bool add) {
    constexpr std::size_t block = 1024;  // stays in the first-level cache
    for (std::size_t b = 0; b < count; b += block) {
      const std::size_t n = std::min(block, count - b);
      std::size_t first = 0;
      if (!add) std::copy_n(terms[first++] + b, n, y + b);
      for (; first < terms.size(); ++first)
        for (std::size_t i = b; i < b + n; ++i) y[i] += terms[first][i];
    }
  }

  std::size_t width_;  // elements of a whole sample

 private:
  static std::size_t whole_width(const Instruction& i) {
    return static_cast<std::size_t>(number(i.node, "width", static_cast<double>(i.in[0].elements)));
  }
  std::size_t own_axis() const { return static_cast<std::size_t>(number(code.node, "ownAxis", 0)); }

  template <class Takes>
  void gather(Run& run, const float* mine, float* all, const Takes& takes) const {
    const ShardRange own = samples(run, me(run));
    blocks_.clear();
    for (int q = 0; q < ranks(run); ++q) {
      if (q == me(run)) continue;
      const ShardRange s = samples(run, q);
      if (takes(me(run), q)) blocks_.push_back({q, true, const_cast<float*>(mine), own.size() * width_});
      if (takes(q, me(run))) blocks_.push_back({q, false, all + s.first * width_, s.size() * width_});
    }
    exchange(run);
    if (takes(me(run), me(run))) std::copy_n(mine, own.size() * width_, all + own.first * width_);
  }
  void exchange(Run& run) const {
    start(run);
    wait(run);
  }
  void wait(Run& run) const {
    const WorkTimer waiting(run.exchanged.wait, Work::wait);
    transfers_.wait();
  }
  void start(Run& run) const {
    transfers_.start(*run.ranks, tag_, blocks_);
    const std::int64_t values = transfers_.values_sent();
    run.exchanged.values_sent += values;
    run.exchanged.bytes_sent += values * static_cast<std::int64_t>(sizeof(float));
  }
  static float* reserve(std::vector<float>& v, std::size_t count) {
    if (v.size() < count) v.resize(count);
    return v.data();
  }

  int tag_;
  mutable RankTransfers transfers_;
  mutable std::vector<Block> blocks_;
  mutable std::vector<const float*> terms_;
  mutable std::vector<float> packed_, received_, uploaded_, result_;
  mutable DeviceBuffer device_;
};

}  // namespace tutti::graph
