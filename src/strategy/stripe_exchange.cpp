// SPDX-License-Identifier: Apache-2.0
#include "strategy/stripe_exchange.h"

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "strategy/local.h"

namespace tutti {
namespace {

// Fewer values than this do not deserve a message of their own.
constexpr std::size_t kGroupValues = 65536;
// Two tags per group, the rest of the range is for others.
constexpr std::size_t kMostGroups = 16000;
// Sums are made in blocks that stay in the first-level cache.
constexpr std::size_t kBlockValues = 4096;

int tag_of(std::size_t group) { return static_cast<int>(2 * group); }

std::size_t block_columns(std::size_t rows, const Codec& codec) {
  if (&codec.on_host() != &codec) return std::numeric_limits<std::size_t>::max();  // a device wants few large calls
  return std::max<std::size_t>(1, kBlockValues / std::max<std::size_t>(1, rows));
}

// Values of which everybody knows that they are 0.
void clear_masked(float* values, const float* mask, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) values[i] = mask[i] == 0.0f ? 0.0f : values[i];
}

// Waiting ranks may sit on one core with the rank they wait for.
class Patience {
 public:
  void nothing_happened() {
    if (++idle_ > 100) sched_yield();
  }

 private:
  int idle_ = 0;
};

}  // namespace

StripeExchange::StripeExchange(Communicator& comm, Parameters& parameters, const Codec& codec,
                               const StripeSettings& settings)
    : comm_(comm),
      parameters_(parameters),
      codec_(codec),
      me_(comm.rank()),
      ranks_(comm.size()),
      plain_(settings.gradients_stay && !codec.lossy() && &codec.on_host() == &codec),
      plan_(plan_stripes(
          parameters, codec, ranks_,
          std::max(settings.group_values > 0 ? std::min(settings.group_values, kGroupValues) : kGroupValues,
                   parameters.size() / kMostGroups))),
      sums_(settings.device_sums && !codec.lossy()
                ? std::make_unique<ChunkSums>(*settings.device_sums, parameters, plan_, codec, settings.gradients_stay)
                : nullptr),
      route_(sums_ ? nullptr : make_route(settings.route, comm, plan_, codec)),
      groups_(plan_.groups.size()),
      launched_(plan_.groups.size()) {
  if (route_) scratch_ = FloatBuffer(largest_block(), parameters.gradients);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!plan_.groups[g].sparse) continue;
    groups_[g].sparse = std::make_unique<SparseExchange>(
        comm_, parameters_, codec_.on_host(), parameters_.chunks[plan_.groups[g].first_chunk].slice, tag_of(g), stats_);
    sparse_groups_.push_back(g);
  }
}

StripeExchange::~StripeExchange() = default;

std::size_t StripeExchange::largest_block() const {
  std::size_t largest = 0;
  for (const GradientChunk& chunk : parameters_.chunks) {
    if (parameters_.slices[chunk.slice].sparse_gradient) continue;
    const std::size_t rows = parameters_.slices[chunk.slice].rows;
    largest = std::max(largest, rows * std::min(chunk.columns, block_columns(rows, codec_)));
  }
  return largest;
}

void StripeExchange::keep_own_columns(float* owner_residual) const {
  for (std::size_t i = 0; i < parameters_.chunks.size(); ++i) {
    const GradientChunk& chunk = parameters_.chunks[i];
    if (groups_[group_of(i)].sparse) {
      groups_[group_of(i)].sparse->keep_own_lines(owner_residual);
      continue;
    }
    const Stripe& mine = plan_.stripe(i, me_);
    const std::size_t rows = parameters_.slices[chunk.slice].rows;
    float* begin = owner_residual + parameters_.offset(chunk);
    std::fill_n(begin, mine.first * rows, 0.0f);
    std::fill_n(begin + (mine.first + mine.columns) * rows, (chunk.columns - mine.first - mine.columns) * rows, 0.0f);
  }
}

void StripeExchange::arm(std::size_t g) {
  Group& group = groups_[g];
  assert(group.state == State::idle);
  group.state = State::armed;
  if (group.sparse)
    group.sparse->arm();
  else if (route_)
    route_->arm(g);
}

void StripeExchange::announce(std::size_t g) {
  if (!groups_[g].sparse) return;
  host_looks();
  groups_[g].sparse->announce(residuals_);
}

void StripeExchange::encode(std::size_t chunk) {
  const auto start = Clock::now();
  const GradientChunk& p = parameters_.chunks[chunk];
  const std::size_t rows = parameters_.slices[p.slice].rows, offset = parameters_.offset(p);
  Group& group = groups_[group_of(chunk)];
  assert(group.state == State::armed);
  if (group.sparse) host_looks(), group.sparse->encode(residuals_);
  if (by_library(group_of(chunk))) sums_->encode(chunk, residuals_);
  for (int owner = 0; owner < ranks_ && route_ && !group.sparse; ++owner) {
    if (owner == me_ && in_place()) continue;
    const Stripe& stripe = plan_.stripe(chunk, owner);
    const std::size_t at = offset + stripe.first * rows;
    codec_.encode(rows, stripe.columns, parameters_.gradients.data() + at,
                  residuals_.local ? residuals_.local + at : nullptr,
                  route_->version_for(group_of(chunk), owner) + stripe.bytes_before);
    if (residuals_.mask && residuals_.local)
      clear_masked(residuals_.local + at, residuals_.mask + at, rows * stripe.columns);
  }
  const double seconds = seconds_since(start);
  stats_.encode += seconds, worked_ += seconds;
}

void StripeExchange::launch(std::size_t g) {
  const StripeGroup& plan = plan_.groups[g];
  Group& group = groups_[g];
  assert(group.state == State::armed);
  ++stats_.exchanges;
  if (by_library(g)) return launch_library(g);
  if (group.sparse) group.sparse->launch();
  if (ranks_ == 1) {
    if (!group.sparse) route_->offer(g);
    group.state = State::summed;
    return;
  }
  for (int owner = 0; owner < ranks_; ++owner) {
    if (owner == me_) continue;
    stats_.bytes_sent += static_cast<std::int64_t>(plan.section_bytes(owner));
    stats_.values_sent += static_cast<std::int64_t>(plan.section_values[static_cast<std::size_t>(owner)]);
  }
  launched_[(launched_head_ + launched_count_++) % launched_.size()] = g;
  ++unsent_;
  group.state = State::encoding;
  if (!group.sparse) group.mark = codec_.mark();
  send_when_encoded();
}

void StripeExchange::launch_library(std::size_t g) {
  sums_->launch(g);
  groups_[g].state = State::summed;
  std::size_t values = 0;
  for (const std::size_t n : plan_.groups[g].section_values) values += n;
  count_library_sum(stats_, values, ranks_);
}

// In the order of launches, which is that of the device's queue.
void StripeExchange::send_when_encoded() {
  for (; unsent_ > 0; --unsent_) {
    const std::size_t g = launched_[(launched_head_ + launched_count_ - unsent_) % launched_.size()];
    Group& group = groups_[g];
    if (!group.sparse) {
      if (!codec_.passed(group.mark)) return;
      route_->offer(g);
    }
    group.state = State::launched;
  }
}

void StripeExchange::advance() {
  for (const std::size_t g : sparse_groups_)
    if (groups_[g].state == State::armed) groups_[g].sparse->advance(residuals_);
  send_when_encoded();
  while (launched_count_ > unsent_ && sum_when_here(launched_[launched_head_])) {
    launched_head_ = (launched_head_ + 1) % launched_.size();
    --launched_count_;
  }
}

bool StripeExchange::sum_when_here(std::size_t g) {
  Group& group = groups_[g];
  if (!group.sparse) {
    if (group.state == State::launched) {
      if (!route_->offered(g)) return false;
      sum(g);
    }
    if (!codec_.passed(group.mark)) return false;
    route_->publish(g);
    group.state = State::summed;
    return true;
  }
  const auto start = Clock::now();
  const bool summed = group.sparse->advance(residuals_);
  const double seconds = seconds_since(start);
  if (!summed) return false;
  group.state = State::summed;
  stats_.decode += seconds, worked_ += seconds;
  return true;
}

void StripeExchange::sum(std::size_t g) {
  const auto start = Clock::now();
  const StripeGroup& plan = plan_.groups[g];
  Group& group = groups_[g];
  for (std::size_t p = plan.first_chunk; p < plan.end_chunk; ++p) sum_stripe(p, g);
  group.mark = codec_.mark();
  const auto copies = static_cast<std::int64_t>(ranks_ - 1);
  stats_.bytes_sent += copies * static_cast<std::int64_t>(plan.section_bytes(me_));
  stats_.values_sent += copies * static_cast<std::int64_t>(plan.section_values[static_cast<std::size_t>(me_)]);
  group.state = State::summing;
  const double seconds = seconds_since(start);
  stats_.decode += seconds, worked_ += seconds;
}

void StripeExchange::sum_stripe(std::size_t chunk, std::size_t g) {
  const Stripe& stripe = plan_.stripe(chunk, me_);
  const GradientChunk& p = parameters_.chunks[chunk];
  const std::size_t rows = parameters_.slices[p.slice].rows;
  const std::size_t offset = parameters_.offset(p) + stripe.first * rows, block = block_columns(rows, codec_);
  for (std::size_t c = 0, n = 0; c < stripe.columns; c += n) {
    n = std::min(block, stripe.columns - c);
    const std::size_t at = stripe.bytes_before + codec_.bytes(rows, c), first = offset + c * rows;
    float* const own = parameters_.gradients.data() + first;
    for (int r = 0; r < ranks_; ++r) {
      const std::byte* from =
          r == me_ && in_place() ? reinterpret_cast<const std::byte*>(own) : route_->version_of(g, r) + at;
      if (r == 0)
        codec_.decode(rows, n, from, scratch_.data());
      else
        codec_.decode_add(rows, n, from, scratch_.data());
    }
    const bool masked = residuals_.mask && residuals_.owner;
    if (masked) clear_masked(scratch_.data(), residuals_.mask + first, rows * n);
    codec_.encode(rows, n, scratch_.data(), residuals_.owner ? residuals_.owner + first : nullptr, route_->sum(g) + at);
    if (masked) clear_masked(residuals_.owner + first, residuals_.mask + first, rows * n);
    if (in_place()) std::copy_n(scratch_.data(), rows * n, own);
  }
}

bool StripeExchange::try_complete(std::size_t g) {
  Group& group = groups_[g];
  assert(group.state != State::armed);
  if (group.state == State::idle) return true;
  advance();
  if (group.state != State::summed) return false;
  if (group.sparse && !group.sparse->finished()) return false;
  if (by_library(g) ? !sums_->passed(g) : !group.sparse && ranks_ > 1 && !route_->published(g)) return false;
  group.state = State::idle;
  return true;
}

void StripeExchange::complete(std::size_t g) {
  const auto start = Clock::now();
  const double worked = worked_;
  if (by_library(g) && in_flight(g)) {  // the device waits, not the host
    sums_->follow(g);
    groups_[g].state = State::idle;
  }
  for (Patience patience; !try_complete(g); patience.nothing_happened())
    if (route_) route_->look_around();
  const double seconds = seconds_since(start) - (worked_ - worked);  // sums made while waiting are work
  stats_.wait += seconds, waited_ += seconds;
}

void StripeExchange::decode(std::size_t chunk) {
  const auto start = Clock::now();
  const GradientChunk& p = parameters_.chunks[chunk];
  const std::size_t rows = parameters_.slices[p.slice].rows, offset = parameters_.offset(p);
  const Group& group = groups_[group_of(chunk)];
  if (group.sparse) host_looks(), group.sparse->decode();
  if (by_library(group_of(chunk))) sums_->decode(chunk);
  for (int owner = 0; owner < ranks_ && route_ && !group.sparse; ++owner) {
    if (owner == me_ && in_place()) continue;
    const Stripe& stripe = plan_.stripe(chunk, owner);
    codec_.decode(rows, stripe.columns, route_->sum_of(group_of(chunk), owner) + stripe.bytes_before,
                  parameters_.gradients.data() + offset + stripe.first * rows);
  }
  const double seconds = seconds_since(start);
  stats_.decode += seconds, worked_ += seconds;
}

void StripeExchange::flush() {
  for (Group& group : groups_) {
    assert(group.state == State::idle);
    if (group.sparse)
      group.sparse->flush();
    else if (route_)
      route_->flush(static_cast<std::size_t>(&group - groups_.data()));
  }
}

ExchangeStats StripeExchange::take_stats() { return std::exchange(stats_, {}); }

}  // namespace tutti
