// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/shard.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#include "tutti/error.h"

namespace tutti {
namespace {

// Large enough to be worth a message, small enough that encoding, sending and updating overlap.
constexpr std::size_t kShardValues = 262144;
constexpr std::size_t kMostShards = 12000;

constexpr int kShardTag = 32005;

std::size_t round_up(std::size_t n) { return (n + 15) / 16 * 16; }

void add_run(ServerShardPlan& shard, const Parameters& p, std::size_t slice, std::size_t first, std::size_t columns) {
  ServerShardRun run{slice, p.slices[slice].rows, first, columns, 0, 0};
  run.offset = p.slices[slice].offset + first * run.rows;
  if (!shard.runs.empty()) run.local = round_up(shard.runs.back().local + shard.runs.back().size());
  shard.values += run.size();
  shard.largest_run = std::max(shard.largest_run, run.size());
  shard.runs.push_back(run);
}

std::span<std::byte> bytes_of(const ServerShardRun& run, std::span<float> flat) {
  return std::as_writable_bytes(flat.subspan(run.offset, run.size()));
}

// Shards of different owners, which all send at the same time: so every link is busy in both directions.
void send_to_all(Communicator& comm, std::span<const ServerShardPlan> shards, std::span<float> flat) {
  std::vector<std::unique_ptr<Transfer>> all;
  for (const ServerShardPlan& shard : shards)
    for (const ServerShardRun& run : shard.runs)
      if (shard.owner != comm.rank()) all.push_back(comm.receive(shard.owner, kShardTag, bytes_of(run, flat)));
  for (const ServerShardPlan& shard : shards) {
    if (shard.owner != comm.rank()) continue;
    for (const ServerShardRun& run : shard.runs) {
      const std::size_t before = all.size();
      for (int next = 1; next < comm.size(); ++next)
        all.push_back(comm.plan_send((comm.rank() + next) % comm.size(), kShardTag, bytes_of(run, flat)));
      start_in_turn(std::span(all).subspan(before));
    }
  }
  for (const auto& transfer : all) transfer->wait();
}

}  // namespace

void ServerShardPlan::gather(const float* flat, float* local) const {
  for (const ServerShardRun& run : runs) std::copy_n(flat + run.offset, run.size(), local + run.local);
}

void ServerShardPlan::scatter(const float* local, float* flat) const {
  for (const ServerShardRun& run : runs) std::copy_n(local + run.local, run.size(), flat + run.offset);
}

std::size_t ServerShardPlan::bytes(const Codec& codec) const {
  std::size_t bytes = kHeadBytes;
  for (const ServerShardRun& run : runs) bytes += codec.bytes(run.rows, run.columns);
  return bytes;
}

std::vector<ServerShardPlan> plan_shards(const Parameters& p, const std::vector<int>& owners, bool whole_slices) {
  std::size_t values = 0;
  for (const Slice& s : p.slices) values += s.size();
  const std::size_t servers = owners.size();
  const std::size_t wanted = std::min(kMostShards, values / kShardValues + 1);
  const std::size_t shards = (wanted + servers - 1) / servers * servers;
  std::vector<ServerShardPlan> plans;
  std::size_t done = 0;  // values in earlier columns
  ServerShardPlan now;
  const auto close = [&] {
    if (now.runs.empty()) return;
    now.owner = owners[plans.size() % servers];
    plans.push_back(std::move(now));
    now = {};
  };
  for (std::size_t s = 0; s < p.slices.size(); ++s) {
    const std::size_t rows = p.slices[s].rows, columns = p.slices[s].columns;
    const std::size_t together = whole_slices ? columns : 1, size = together * rows;  // what no shard divides
    for (std::size_t first = 0; first < columns && rows > 0;) {
      // Shards end as close to multiples of values / shards as columns allow. None is larger than twice the mean,
      // except a single column.
      const std::size_t end = (plans.size() + 1) * values / shards;
      const std::size_t fitting = end > done ? (end - done + size / 2) / size : 0;
      if (fitting == 0 && !now.runs.empty()) {
        close();
        continue;
      }
      const std::size_t n = std::min(columns - first, std::max<std::size_t>(1, fitting) * together);
      add_run(now, p, s, first, n);
      first += n;
      done += n * rows;
    }
  }
  close();
  return plans;
}

void count_message(ExchangeStats& stats, std::size_t bytes, std::size_t values) {
  stats.bytes_sent += static_cast<std::int64_t>(bytes);
  stats.values_sent += static_cast<std::int64_t>(values);
}

void broadcast_shards(Communicator& comm, const std::vector<ServerShardPlan>& plans, std::span<float> flat,
                      ExchangeStats& stats) {
  const auto copies = static_cast<std::size_t>(comm.size() - 1);
  for (const ServerShardPlan& plan : plans)
    if (plan.owner == comm.rank()) count_message(stats, copies * plan.values * sizeof(float), copies * plan.values);
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto owns_in_turn = [&](std::size_t i) { return plans[i].owner == static_cast<int>(i % ranks); };
  bool all_own = plans.size() >= ranks;
  for (std::size_t i = 0; i < plans.size(); ++i) all_own = all_own && owns_in_turn(i);
  if (!all_own) {
    for (const ServerShardPlan& plan : plans)
      for (const ServerShardRun& run : plan.runs) comm.broadcast(plan.owner, bytes_of(run, flat));
    return;
  }
  for (std::size_t first = 0; first < plans.size(); first += ranks)
    send_to_all(comm, std::span(plans).subspan(first, std::min(ranks, plans.size() - first)), flat);
}

ServerShard::ServerShard(const ServerShardPlan& plan, const Parameters& flat, std::shared_ptr<const Codec> codec,
                         std::unique_ptr<ShardRule> rule, int clients, int gathers)
    : plan_(plan), codec_(std::move(codec)), rule_(std::move(rule)), gathers_(gathers) {
  for (const ServerShardRun& run : plan_.runs) {
    Slice slice = flat.slices[run.slice];
    slice.offset = run.local, slice.shift = run.offset - run.local;
    slice.rows = run.rows, slice.columns = run.columns;
    slice.shape.dims = {run.rows, run.columns};
    p_.chunks.push_back({p_.slices.size(), 0, run.columns});
    p_.slices.push_back(std::move(slice));
  }
  const std::size_t size = round_up(plan_.local_size());
  p_.weights = FloatBuffer(size);
  p_.gradients = FloatBuffer(size);
  p_.sparse_rows.resize(p_.slices.size());
  scratch_ = FloatBuffer(plan_.largest_run);
  if (codec_->lossy()) residual_ = FloatBuffer(plan_.largest_run);
  slots_.resize(static_cast<std::size_t>(clients));
  if (codec_->lossy())
    for (Slot& slot : slots_) slot.known = FloatBuffer(size);
  rule_->bind(p_);
}

void ServerShard::load(const float* flat) {
  plan_.gather(flat, p_.weights.data());
  batches_ = pushes_ = gathered_ = 0;
  for (Slot& slot : slots_) {
    assert(!slot.here);
    slot.seen = slot.seen_before = slot.gathered = 0;
    if (codec_->lossy()) std::copy_n(p_.weights.data(), p_.size(), slot.known.data());
  }
}

void ServerShard::store(float* flat) const { plan_.scatter(p_.weights.data(), flat); }

std::size_t ServerShard::handle(int client, std::span<std::byte> message) {
  Slot& slot = slots_[static_cast<std::size_t>(client)];
  if (!slot.here) {
    slot.here = true;
    slot.done = false;
    std::memcpy(&slot.head, message.data(), sizeof slot.head);
    slot.values = message.data() + kHeadBytes;
    if (slot.head.pushes && slot.head.apart) arrive(slot);
  }
  if (!slot.done && slot.head.pushes && !slot.head.apart) gather(slot.head);
  if (!slot.done && !slot.head.pushes) slot.done = batches_ >= slot.head.batch;
  if (!slot.done) return 0;
  slot.here = false;
  const ResponseHead head{slot.staleness};
  std::memcpy(message.data(), &head, sizeof head);
  const bool fetches = slot.head.fetches != 0;
  const std::size_t bytes = fetches ? message.size() : kHeadBytes;
  if (client != plan_.owner) count_message(responses_, bytes, fetches ? plan_.values : 0);
  if (!fetches) return bytes;
  write_weights(slot, message.data() + kHeadBytes);
  slot.seen_before = slot.seen;
  slot.seen = pushes_ + slot.gathered;
  return bytes;
}

// A push without a batch.
void ServerShard::arrive(Slot& slot) {
  slot.staleness = pushes_ + gathered_ - (slot.head.late ? slot.seen_before : slot.seen);
  gather_apart(slot);
  slot.done = true;
}

void ServerShard::note_push(Slot& slot) { ++slot.seen, ++slot.seen_before; }

void ServerShard::replace(const Slot& slot) {
  const std::byte* from = slot.values;
  for (const ServerShardRun& run : plan_.runs) {
    codec_->decode(run.rows, run.columns, from, p_.weights.data() + run.local);
    from += codec_->bytes(run.rows, run.columns);
  }
  ++pushes_;
}

void ServerShard::gather_apart(Slot& slot) {
  note_push(slot);
  if (slot.head.replaces) return replace(slot);
  add(slot, 1, gathered_ == 0);
  if (gathered_ == 0) gathered_terms_ = {};
  gathered_terms_.columns += slot.head.columns;
  gathered_terms_.learning_rate = slot.head.learning_rate;
  gathered_terms_.momentum_per_sample = slot.head.momentum_per_sample;
  ++slot.gathered;
  if (++gathered_ >= gathers_) flush();
}

void ServerShard::flush() {
  if (gathered_ == 0) return;
  const std::int64_t pushes = gathered_;
  gathered_ = 0;
  for (Slot& slot : slots_) slot.gathered = 0;
  update(gathered_terms_, pushes);
}

// Updates with a batch, once all of it has arrived and all earlier ones are done: in the order of clients.
bool ServerShard::gather(const PushHead& batch) {
  if (batch.batch != batches_) return false;
  std::int64_t samples = 0;
  int here = 0;
  UpdateTerms terms{0, batch.learning_rate, batch.momentum_per_sample};
  const auto belongs = [&](const Slot& s) {
    return s.here && !s.done && s.head.pushes && !s.head.apart && s.head.batch == batch.batch;
  };
  for (const Slot& s : slots_)
    if (belongs(s)) ++here, samples += s.head.samples, terms.columns += s.head.columns;
  if (here < batch.batch_size) return false;
  bool first = true;
  for (Slot& s : slots_) {
    if (!belongs(s)) continue;
    float factor = 1;
    if (rule_->means())
      factor = samples > 0 ? static_cast<float>(static_cast<double>(s.head.samples) / static_cast<double>(samples))
                           : 1.0f / static_cast<float>(here);
    s.staleness = pushes_ - s.seen;
    s.done = true;
    if (s.head.replaces)
      replace(s);
    else
      add(s, factor, first);
    first = false;
  }
  if (!batch.replaces) update(terms, here);
  for (Slot& s : slots_)
    if (s.here && s.done) note_push(s);
  ++batches_;
  return true;
}

void ServerShard::add(const Slot& slot, float factor, bool first) {
  const std::byte* from = slot.values;
  for (const ServerShardRun& run : plan_.runs) {
    float* sum = p_.gradients.data() + run.local;
    if (factor == 1) {
      if (first)
        codec_->decode(run.rows, run.columns, from, sum);
      else
        codec_->decode_add(run.rows, run.columns, from, sum);
    } else {
      float* value = scratch_.data();
      codec_->decode(run.rows, run.columns, from, value);
      for (std::size_t i = 0; i < run.size(); ++i) sum[i] = first ? factor * value[i] : sum[i] + factor * value[i];
    }
    from += codec_->bytes(run.rows, run.columns);
  }
}

void ServerShard::update(const UpdateTerms& terms, std::int64_t pushes) {
  rule_->apply(p_, terms);
  pushes_ += pushes;
}

void ServerShard::write_weights(Slot& slot, std::byte* out) {
  for (const ServerShardRun& run : plan_.runs) {
    const float* w = p_.weights.data() + run.local;
    if (!codec_->lossy()) {
      codec_->encode(run.rows, run.columns, w, nullptr, out);
    } else {
      // The quantisation error is part of the next difference.
      float* known = slot.known.data() + run.local;
      for (std::size_t i = 0; i < run.size(); ++i) scratch_.data()[i] = w[i] - known[i];
      std::fill_n(residual_.data(), run.size(), 0.0f);
      codec_->encode(run.rows, run.columns, scratch_.data(), residual_.data(), out);
      codec_->decode_add(run.rows, run.columns, out, known);
    }
    out += codec_->bytes(run.rows, run.columns);
  }
}

}  // namespace tutti
