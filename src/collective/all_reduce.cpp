// SPDX-License-Identifier: Apache-2.0
#include "collective/all_reduce.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "base/activity.h"
#include "base/clock.h"
#include "base/nap.h"
#include "base/timeline.h"
#include "collective/nccl_all_reduce.h"

namespace tutti {
namespace {

// Sums are computed in blocks that stay in the first-level cache.
constexpr std::size_t kBlockValues = 4096;

int tag_of(std::size_t bucket) { return static_cast<int>(2 * bucket); }

std::size_t block_columns(std::size_t rows, const Codec& codec) {
  if (&codec.on_host() != &codec) return std::numeric_limits<std::size_t>::max();  // a device wants few large calls
  return std::max<std::size_t>(1, kBlockValues / std::max<std::size_t>(1, rows));
}

// Values that are 0 on all ranks.
void clear_masked(float* values, const float* mask, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) values[i] = mask[i] == 0.0f ? 0.0f : values[i];
}

}  // namespace

AllReduce::AllReduce(Communicator& comm, Parameters& parameters, const Codec& codec, const AllReduceSettings& settings)
    : comm_(comm),
      parameters_(parameters),
      codec_(codec),
      me_(comm.rank()),
      ranks_(comm.size()),
      plain_(settings.gradients_stay && !codec.lossy() && &codec.on_host() == &codec),
      plan_(plan_shards(parameters, codec, ranks_, bucket_values(parameters.size(), settings.bucket_values))),
      sums_(settings.device_sums && !codec.lossy()
                ? std::make_unique<NcclAllReduce>(*settings.device_sums, parameters, plan_, codec,
                                                  settings.gradients_stay)
                : nullptr),
      transport_(sums_ ? nullptr : make_transport(settings.transport, comm, plan_, codec)),
      buckets_(plan_.buckets.size()),
      launched_(plan_.buckets.size()) {
  if (transport_) scratch_ = FloatBuffer(largest_block(), parameters.gradients);
  for (std::size_t g = 0; g < buckets_.size(); ++g) {
    if (!plan_.buckets[g].sparse) continue;
    buckets_[g].sparse =
        std::make_unique<RowSparseAllReduce>(comm_, parameters_, codec_.on_host(),
                                             parameters_.chunks[plan_.buckets[g].first_chunk].slice, tag_of(g), stats_);
    sparse_buckets_.push_back(g);
  }
}

AllReduce::~AllReduce() = default;

std::size_t AllReduce::largest_block() const {
  std::size_t largest = 0;
  for (const GradientChunk& chunk : parameters_.chunks) {
    if (parameters_.slices[chunk.slice].sparse_gradient) continue;
    const std::size_t rows = parameters_.slices[chunk.slice].rows;
    largest = std::max(largest, rows * std::min(chunk.columns, block_columns(rows, codec_)));
  }
  return largest;
}

void AllReduce::keep_own_columns(float* owner_residual) const {
  for (std::size_t i = 0; i < parameters_.chunks.size(); ++i) {
    const GradientChunk& chunk = parameters_.chunks[i];
    if (buckets_[bucket_of(i)].sparse) {
      buckets_[bucket_of(i)].sparse->keep_own_rows(owner_residual);
      continue;
    }
    const Shard& mine = plan_.shard(i, me_);
    const std::size_t rows = parameters_.slices[chunk.slice].rows;
    float* begin = owner_residual + parameters_.offset(chunk);
    std::fill_n(begin, mine.first * rows, 0.0f);
    std::fill_n(begin + (mine.first + mine.columns) * rows, (chunk.columns - mine.first - mine.columns) * rows, 0.0f);
  }
}

void AllReduce::arm(std::size_t g) {
  BucketState& bucket = buckets_[g];
  assert(bucket.state == State::idle);
  bucket.state = State::armed;
  if (bucket.sparse)
    bucket.sparse->arm();
  else if (transport_)
    transport_->arm(g);
}

void AllReduce::announce(std::size_t g) {
  if (!buckets_[g].sparse) return;
  synchronize();
  buckets_[g].sparse->announce(residuals_);
}

template <class Use>
void AllReduce::each_message(std::size_t chunk, const Use& use) const {
  if (!transport_ || buckets_[bucket_of(chunk)].sparse) return;
  const GradientChunk& p = parameters_.chunks[chunk];
  const std::size_t rows = parameters_.slices[p.slice].rows;
  for (int owner = 0; owner < ranks_; ++owner) {
    const Shard& shard = plan_.shard(chunk, owner);
    if (owner != me_ || !in_place()) use(owner, shard, rows, parameters_.offset(p) + shard.first * rows);
  }
}

void AllReduce::encode(std::size_t chunk) {
  const WorkTimer encoding(stats_.encode, Work::encode);
  const Stopwatch working(worked_);
  BucketState& bucket = buckets_[bucket_of(chunk)];
  assert(bucket.state == State::armed);
  if (bucket.sparse) synchronize(), bucket.sparse->encode(residuals_);
  if (by_library(bucket_of(chunk))) sums_->encode(chunk, residuals_);
  each_message(chunk, [&](int owner, const Shard& shard, std::size_t rows, std::size_t at) {
    codec_.encode(rows, shard.columns, parameters_.gradients.data() + at,
                  residuals_.local ? residuals_.local + at : nullptr,
                  transport_->version_for(bucket_of(chunk), owner) + shard.bytes_before);
    if (residuals_.mask && residuals_.local)
      clear_masked(residuals_.local + at, residuals_.mask + at, rows * shard.columns);
  });
}

void AllReduce::launch(std::size_t g) {
  BucketState& bucket = buckets_[g];
  assert(bucket.state == State::armed);
  if (g == 0) ++stats_.exchanges;  // all buckets together are one
  if (by_library(g)) return launch_library(g);
  if (bucket.sparse) bucket.sparse->launch();
  if (ranks_ == 1) {
    if (!bucket.sparse) transport_->offer(g);
    bucket.state = State::summed;
    return;
  }
  for (int owner = 0; owner < ranks_; ++owner)
    if (owner != me_) count_sent(g, owner, 1);
  launched_[(launched_head_ + launched_count_++) % launched_.size()] = g;
  ++unsent_;
  bucket.state = State::encoding;
  if (!bucket.sparse) bucket.event = codec_.record_event();
  send_when_encoded();
}

void AllReduce::count_sent(std::size_t g, int owner, int copies) {
  const Bucket& plan = plan_.buckets[g];
  stats_.bytes_sent += copies * static_cast<std::int64_t>(plan.section_bytes(owner));
  stats_.values_sent += copies * static_cast<std::int64_t>(plan.section_values[static_cast<std::size_t>(owner)]);
}

void AllReduce::launch_library(std::size_t g) {
  sums_->launch(g);
  buckets_[g].state = State::summed;
  std::size_t values = 0;
  for (const std::size_t n : plan_.buckets[g].section_values) values += n;
  count_library_sum(stats_, values, ranks_);
}

// In launch order, which is the order of the device's stream.
void AllReduce::send_when_encoded() {
  for (; unsent_ > 0; --unsent_) {
    const std::size_t g = launched_[(launched_head_ + launched_count_ - unsent_) % launched_.size()];
    BucketState& bucket = buckets_[g];
    if (!bucket.sparse) {
      if (!codec_.query(bucket.event)) return;
      transport_->offer(g);
    }
    bucket.state = State::launched;
  }
}

void AllReduce::advance() {
  for (const std::size_t g : sparse_buckets_)
    if (buckets_[g].state == State::armed) buckets_[g].sparse->advance(residuals_);
  send_when_encoded();
  while (launched_count_ > unsent_ && sum_when_here(launched_[launched_head_])) {
    launched_head_ = (launched_head_ + 1) % launched_.size();
    --launched_count_;
  }
}

bool AllReduce::sum_when_here(std::size_t g) {
  BucketState& bucket = buckets_[g];
  if (!bucket.sparse) {
    if (bucket.state == State::launched) {
      if (!transport_->offered(g)) return false;
      sum(g);
    }
    if (!codec_.query(bucket.event)) return false;
    transport_->publish(g);
    bucket.state = State::summed;
    return true;
  }
  const auto start = Clock::now();
  const bool summed = bucket.sparse->advance(residuals_);
  const double seconds = seconds_since(start);
  if (!summed) return false;
  bucket.state = State::summed;
  stats_.decode += seconds, worked_ += seconds;
  return true;
}

void AllReduce::sum(std::size_t g) {
  const WorkTimer decoding(stats_.decode, Work::decode);
  const Stopwatch working(worked_);
  const Bucket& plan = plan_.buckets[g];
  BucketState& bucket = buckets_[g];
  for (std::size_t p = plan.first_chunk; p < plan.end_chunk; ++p) sum_shard(p, g);
  bucket.event = codec_.record_event();
  count_sent(g, me_, ranks_ - 1);
  bucket.state = State::summing;
}

void AllReduce::sum_shard(std::size_t chunk, std::size_t g) {
  const Shard& shard = plan_.shard(chunk, me_);
  const GradientChunk& p = parameters_.chunks[chunk];
  const std::size_t rows = parameters_.slices[p.slice].rows;
  const std::size_t offset = parameters_.offset(p) + shard.first * rows, block = block_columns(rows, codec_);
  for (std::size_t c = 0, n = 0; c < shard.columns; c += n) {
    n = std::min(block, shard.columns - c);
    const std::size_t at = shard.bytes_before + codec_.bytes(rows, c), first = offset + c * rows;
    float* const own = parameters_.gradients.data() + first;
    for (int r = 0; r < ranks_; ++r) {
      const std::byte* from =
          r == me_ && in_place() ? reinterpret_cast<const std::byte*>(own) : transport_->version_of(g, r) + at;
      if (r == 0)
        codec_.decode(rows, n, from, scratch_.data());
      else
        codec_.decode_add(rows, n, from, scratch_.data());
    }
    const bool masked = residuals_.mask && residuals_.owner;
    if (masked) clear_masked(scratch_.data(), residuals_.mask + first, rows * n);
    codec_.encode(rows, n, scratch_.data(), residuals_.owner ? residuals_.owner + first : nullptr,
                  transport_->sum(g) + at);
    if (masked) clear_masked(residuals_.owner + first, residuals_.mask + first, rows * n);
    if (in_place()) std::copy_n(scratch_.data(), rows * n, own);
  }
}

bool AllReduce::try_complete(std::size_t g) {
  BucketState& bucket = buckets_[g];
  assert(bucket.state != State::armed);
  if (bucket.state == State::idle) return true;
  advance();
  if (bucket.state != State::summed) return false;
  if (bucket.sparse && !bucket.sparse->finished()) return false;
  if (by_library(g) ? !sums_->query(g) : !bucket.sparse && ranks_ > 1 && !transport_->published(g)) return false;
  bucket.state = State::idle;
  return true;
}

void AllReduce::complete(std::size_t g) {
  const TimelineSpan waiting(Work::wait);
  const auto start = Clock::now();
  const double worked = worked_;
  if (by_library(g) && in_flight(g)) {  // the device waits, not the host
    sums_->follow(g);
    buckets_[g].state = State::idle;
  }
  if (!try_complete(g)) wait_for(g);
  const double seconds = seconds_since(start) - (worked_ - worked);  // sums made while waiting are work
  stats_.wait += seconds, waited_ += seconds;
}

void AllReduce::wait_for(std::size_t g) {
  Waiting waiting("sums", -1, static_cast<int>(g));
  wait_until([&] { return try_complete(g); },
             [&](int looks) {
               if (!transport_) return;
               transport_->poll();
               if (looks % 100 != 99) return;  // the watchdog reads it seldom
               if (const int rank = transport_->awaited(g); rank >= 0) waiting.on(comm_.world_rank(rank));
             });
}

void AllReduce::decode(std::size_t chunk) {
  const WorkTimer decoding(stats_.decode, Work::decode);
  const Stopwatch working(worked_);
  const BucketState& bucket = buckets_[bucket_of(chunk)];
  if (bucket.sparse) synchronize(), bucket.sparse->decode();
  if (by_library(bucket_of(chunk))) sums_->decode(chunk);
  each_message(chunk, [&](int owner, const Shard& shard, std::size_t rows, std::size_t at) {
    codec_.decode(rows, shard.columns, transport_->sum_of(bucket_of(chunk), owner) + shard.bytes_before,
                  parameters_.gradients.data() + at);
  });
}

void AllReduce::flush() {
  for (BucketState& bucket : buckets_) {
    assert(bucket.state == State::idle);
    if (bucket.sparse)
      bucket.sparse->flush();
    else if (transport_)
      transport_->flush(static_cast<std::size_t>(&bucket - buckets_.data()));
  }
}

ExchangeStats AllReduce::exchange_stats_and_reset() { return std::exchange(stats_, {}); }

void count_library_sum(ExchangeStats& stats, std::size_t values, int ranks) {
  const auto sent = static_cast<std::int64_t>(values) * 2 * (ranks - 1) / ranks;
  stats.values_sent += sent, stats.bytes_sent += static_cast<std::int64_t>(sizeof(float)) * sent;
}

}  // namespace tutti
