// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_sgd/fragments.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "tutti/error.h"

namespace tutti {

FragmentStream::FragmentStream(const StreamSettings& settings, std::int64_t block_size, AllReduce& all_reduce,
                               BlockRule& rule, Parameters& live, Parameters& block)
    : settings_(settings),
      block_size_(block_size),
      all_reduce_(all_reduce),
      rule_(rule),
      live_(live),
      block_(block),
      kernels_(weight_kernels_for(live.weights.memory())) {
  const std::size_t buckets = all_reduce.buckets();
  const std::size_t n =
      std::max<std::size_t>(1, std::min<std::size_t>(static_cast<std::size_t>(settings.fragments), buckets));
  std::size_t values = 0, bucket = 0;
  for (std::size_t f = 0; f < n; ++f) {
    Fragment fragment{bucket, bucket, {}};
    // Divides the buckets into fragments of about equal size, at least one bucket each.
    while (bucket < buckets && buckets - bucket > n - f - 1 &&
           (fragment.end_bucket == fragment.first_bucket || values * n < live.size() * (f + 1))) {
      for (std::size_t i = all_reduce.first_chunk(bucket); i < all_reduce.end_chunk(bucket); ++i)
        values += block.count(block.chunks[i]);
      fragment.end_bucket = ++bucket;
    }
    if (f + 1 == n) fragment.end_bucket = bucket = buckets;
    fragments_.push_back(fragment);
  }
  rule.plan_fragments(n);
  if (settings.overlap > 0) offered_ = FloatBuffer(live.size(), live.weights);
}

template <class Body>
void FragmentStream::for_chunks(std::size_t fragment, const Body& body) const {
  for (std::size_t g = fragments_[fragment].first_bucket; g < fragments_[fragment].end_bucket; ++g)
    for (std::size_t i = all_reduce_.first_chunk(g); i < all_reduce_.end_chunk(g); ++i) {
      const std::size_t at = block_.offset(block_.chunks[i]);
      body(i, at, at + block_.count(block_.chunks[i]));
    }
}

void FragmentStream::advance() {
  if (in_flight_ != kNone && !arrived_) all_reduce_.advance();
}

bool FragmentStream::due(std::int64_t more) const {
  return (position_ + more) * static_cast<std::int64_t>(fragments_.size()) >= block_size_ * (next_ + 1);
}

bool FragmentStream::acts_after(std::int64_t samples) const {
  return (in_flight_ != kNone && waited_ + 1 >= settings_.overlap) || due(samples);
}

void FragmentStream::count(const BlockSamples& n) {
  position_ += n.all;
  for (Fragment& f : fragments_) f.since.mine += n.mine, f.since.all += n.all;
}

bool FragmentStream::take_when_due() {
  if (in_flight_ == kNone || ++waited_ < settings_.overlap) return false;
  finish();
  return true;
}

bool FragmentStream::step_alone(const BlockSamples& n) {
  bool taken = take_when_due();
  count(n);
  if (position_ < block_size_) return taken;
  taken = taken || in_flight_ != kNone;
  restart_alone();
  return taken;
}

void FragmentStream::restart_alone() {
  finish();
  kernels_.run(weights::Copy{live_.weights.data(), block_.weights.data()}, live_.size());
  for (Fragment& f : fragments_) f.since = {};
  next_ = position_ = 0;
}

bool FragmentStream::step(const BlockSamples& n) {
  const Stopwatch watch(seconds_);
  count(n);
  bool taken = take_when_due();
  while (due()) {
    taken = taken || in_flight_ != kNone;
    finish();
    begin(static_cast<std::size_t>(next_));
    if (settings_.overlap == 0) finish(), taken = true;
    if (++next_ < static_cast<std::int64_t>(fragments_.size())) continue;
    next_ = position_ = 0;
    break;
  }
  return taken;
}

void FragmentStream::begin(std::size_t fragment) {
  Fragment& f = fragments_[fragment];
  rule_.begin(std::exchange(f.since, {}), fragment);
  for (std::size_t g = f.first_bucket; g < f.end_bucket; ++g) {
    all_reduce_.arm(g);
    for (std::size_t i = all_reduce_.first_chunk(g); i < all_reduce_.end_chunk(g); ++i) {
      const std::size_t at = block_.offset(block_.chunks[i]), n = block_.count(block_.chunks[i]);
      rule_.offer(at, at + n);
      if (settings_.overlap > 0) kernels_.run(weights::Copy{live_.weights.data() + at, offered_.data() + at}, n);
      all_reduce_.encode(i);
    }
    all_reduce_.launch(g);
    all_reduce_.advance();
  }
  in_flight_ = static_cast<std::int64_t>(fragment);
  waited_ = 0, arrived_ = false;
}

void FragmentStream::drain() {
  if (in_flight_ == kNone || arrived_) return;
  const Stopwatch watch(seconds_);
  const Fragment& f = fragments_[static_cast<std::size_t>(in_flight_)];
  for (std::size_t g = f.first_bucket; g < f.end_bucket; ++g) all_reduce_.complete(g);
  for_chunks(static_cast<std::size_t>(in_flight_),
             [&](std::size_t i, std::size_t, std::size_t) { all_reduce_.decode(i); });
  arrived_ = true;
}

void FragmentStream::finish() {
  if (in_flight_ == kNone) return;
  drain();
  const auto mixing = static_cast<float>(settings_.mixing);
  for_chunks(static_cast<std::size_t>(in_flight_), [&](std::size_t, std::size_t begin, std::size_t end) {
    if (waited_ == 0) return rule_.take(begin, end);
    float* const w = live_.weights.data() + begin;
    float* const was = offered_.data() + begin;
    const std::size_t n = end - begin;
    if (mixing < 0)
      kernels_.run(weights::Learned{w, was}, n);
    else
      kernels_.run(weights::Copy{w, was}, n);
    rule_.take(begin, end);
    if (mixing < 0)
      kernels_.run(weights::Add{was, w}, n);
    else
      kernels_.run(weights::Mix{was, w, mixing}, n);
  });
  in_flight_ = kNone;
}

void FragmentStream::exchange_all() {
  const Stopwatch watch(seconds_);
  finish();
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    begin(f);
    finish();
  }
  next_ = position_ = 0;
}

void FragmentStream::moved(const float* before) {
  if (in_flight_ == kNone || offered_.size() == 0) return;
  for (std::size_t i = 0; i < live_.size(); ++i) offered_.data()[i] += live_.weights.data()[i] - before[i];
}

void FragmentStream::archive(Archive& a) {
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    const std::string name = own_name(fmt::format("fragment {}/samples", f));
    if (a.has(name)) a(name, fragments_[f].since.mine);
  }
  if (in_flight_ == kNone) return;
  if (a.loading()) std::copy_n(live_.weights.data(), live_.size(), offered_.data());
  if (a.has(own_name("offered weights"))) a(own_name("offered weights"), offered_.span());
}

// Samples of ranks that are gone do not count.
void FragmentStream::sum_samples(Communicator& comm) {
  std::vector<std::int64_t> sums;
  for (const Fragment& f : fragments_) sums.push_back(f.since.mine);
  comm.all_reduce_sum(std::span(sums));
  for (std::size_t f = 0; f < sums.size(); ++f) fragments_[f].since.all = sums[f];
}

void FragmentStream::archive_common(Archive& a) {
  auto n = static_cast<std::int64_t>(fragments_.size());
  a("fragments", n);
  a("fragment under way", in_flight_);
  if (n != static_cast<std::int64_t>(fragments_.size()) || (in_flight_ != kNone && offered_.size() == 0))
    throw Error(fmt::format("it was written with {} fragments{}, this run has {} and an overlap of {}", n,
                            in_flight_ != kNone ? " and an overlap" : "", fragments_.size(), settings_.overlap));
  a("position in block", position_);
  a("next fragment", next_);
  a("minibatches under way", waited_);
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    a(fmt::format("fragment {}/samples of all", f), fragments_[f].since.all);
  arrived_ = in_flight_ != kNone;
  if (!arrived_) return;
  for (const Slice& s : block_.slices)
    a("sums under way/" + s.name, block_.gradients.span().subspan(s.offset, s.size()));
  if (a.loading()) rule_.resume(static_cast<std::size_t>(in_flight_));
}

double FragmentStream::take_seconds() { return std::exchange(seconds_, 0); }

}  // namespace tutti
