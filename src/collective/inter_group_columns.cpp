// SPDX-License-Identifier: Apache-2.0
#include "collective/inter_group_columns.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/nap.h"

namespace tutti {
namespace {

// Fewer values than this do not deserve a message of their own.
constexpr std::size_t kRunValues = 65536;
// Two tags per run, the rest of the range is for others.
constexpr std::size_t kMostRuns = 16000;

std::size_t aligned(std::size_t n) { return (n + 15) / 16 * 16; }

}  // namespace

InterGroupColumns::InterGroupColumns(Communicator& group, Parameters& whole, int inter_group_ranks)
    : comm_(group),
      whole_(whole),
      me_(group.rank()),
      inter_group_ranks_(inter_group_ranks),
      floats_(make_codec({}, whole.gradients.memory(), group.takes_device_memory())),
      plan_(plan_shards(whole, *floats_, inter_group_ranks, std::max(kRunValues, whole.size() / kMostRuns))),
      run_(plan_.buckets.size()) {
  assert(inter_group_ranks >= 1 && inter_group_ranks <= group.size());
  for (std::size_t p = 0; p < whole.chunks.size(); ++p)
    if (whole.slices[whole.chunks[p].slice].sparse_gradient) lists_known_at_ = p + 1;
  if (is_inter_group_rank()) lay_out();
  for (std::size_t r = 0; r < run_.size(); ++r) plan_messages(r);
}

void InterGroupColumns::lay_out() {
  mine_.slices = whole_.slices;
  for (std::size_t s = 0; s < mine_.slices.size(); ++s) {
    Slice& slice = mine_.slices[s];
    if (slice.sparse_gradient && sparse_owner(s) == me_) continue;
    slice.columns = 0;
    slice.sparse_gradient = slice.sparse_by_row = false;
  }
  for (std::size_t p = 0; p < whole_.chunks.size(); ++p) {
    GradientChunk chunk = whole_.chunks[p];
    Slice& slice = mine_.slices[chunk.slice];
    if (!slice.sparse_gradient) {
      const bool elsewhere = whole_.slices[chunk.slice].sparse_gradient;
      chunk.first_column = slice.columns;
      chunk.columns = elsewhere ? 0 : plan_.shard(p, me_).columns;
      slice.columns += chunk.columns;
    }
    mine_.chunks.push_back(chunk);
  }
  std::size_t size = 0;
  for (Slice& slice : mine_.slices) {
    slice.offset = size;
    slice.shape.dims = {slice.rows, slice.columns};
    size += aligned(slice.size());
  }
  mine_.weights = FloatBuffer(size, whole_.gradients);
  mine_.gradients = FloatBuffer(size, whole_.gradients);
  mine_.sparse_rows.assign(mine_.slices.size(), {});
}

void InterGroupColumns::plan_messages(std::size_t r) {
  const Bucket& plan = plan_.buckets[r];
  Run& run = run_[r];
  const int tag = static_cast<int>(2 * r);
  if (plan.sparse) {
    const std::size_t slice = whole_.chunks[plan.first_chunk].slice;
    run.sparse = std::make_unique<RowSparseBroadcast>(comm_, whole_, slice, sparse_owner(slice), tag);
    return;
  }
  if (comm_.size() == 1) return;
  run.bytes = MessageBytes(plan.section_begin.back(), *floats_);
  for (int step = 1; step < comm_.size(); ++step) {
    const int to = (me_ + step) % comm_.size(), from = (me_ + comm_.size() - step) % comm_.size();
    if (is_inter_group_rank() && plan.section_bytes(me_) > 0)
      run.sends.push_back(comm_.plan_send(to, tag, run.bytes.span().subspan(section(r, me_), plan.section_bytes(me_))));
    if (from < inter_group_ranks_ && plan.section_bytes(from) > 0)
      run.receives.push_back(
          comm_.plan_receive(from, tag, run.bytes.span().subspan(section(r, from), plan.section_bytes(from))));
  }
}

float* InterGroupColumns::place(Parameters& p, std::size_t chunk) const {
  return p.gradients.data() + p.offset(p.chunks[chunk]);
}

void InterGroupColumns::load_lists() {
  if (lists_known_at_ > 0) synchronize();
  for (std::size_t s = 0; s < mine_.slices.size(); ++s) {
    if (!mine_.slices[s].sparse_gradient) continue;
    clear_sparse_rows(mine_.slices[s], mine_.sparse_rows[s], mine_.gradients);
    mine_.sparse_rows[s] = whole_.sparse_rows[s];
  }
}

void InterGroupColumns::load(std::size_t chunk) {
  if (!is_inter_group_rank()) return;
  const GradientChunk& own = mine_.chunks[chunk];
  const Slice& slice = mine_.slices[own.slice];
  if (!slice.sparse_gradient) {
    const float* from = place(whole_, chunk) + plan_.shard(chunk, me_).first * slice.rows;
    copy(from, place(mine_, chunk), slice.rows, own.columns);
    return;
  }
  synchronize();
  const float* from = place(whole_, chunk);
  float* to = place(mine_, chunk);
  for (const std::uint32_t row : mine_.sparse_rows[own.slice])
    for (std::size_t i = 0; i < slice.sparse_row_size(); ++i) {
      const std::size_t at = slice.sparse_by_row ? row + i * slice.rows : row * slice.rows + i;
      to[at] = from[at];
    }
}

void InterGroupColumns::gather(const float* whole, float* mine) const {
  for (std::size_t p = 0; p < mine_.chunks.size(); ++p) {
    const GradientChunk& own = mine_.chunks[p];
    const Slice& slice = mine_.slices[own.slice];
    const std::size_t skipped = slice.sparse_gradient ? 0 : plan_.shard(p, me_).first * slice.rows;
    std::copy_n(whole + whole_.offset(whole_.chunks[p]) + skipped, mine_.count(own), mine + mine_.offset(own));
  }
}

void InterGroupColumns::arm() {
  armed_ = true;
  written_ = sent_ = 0;
  for (Run& run : run_)
    if (run.sparse) run.sparse->arm();
  advance();
}

void InterGroupColumns::advance() {
  for (; armed_ && listening_ < run_.size() && floats_->query(run_[listening_].stored); ++listening_)
    for (auto& t : run_[listening_].receives) t->start();
  for (; sent_ < written_ && floats_->query(run_[sent_].encoded); ++sent_)
    for (auto& t : run_[sent_].sends) t->start();
}

void InterGroupColumns::send(std::size_t chunk) {
  const std::size_t r = plan_.bucket_of[chunk];
  Run& run = run_[r];
  const Bucket& plan = plan_.buckets[r];
  if (run.sparse) {
    if (sparse_owner(whole_.chunks[chunk].slice) == me_) synchronize(), run.sparse->send(mine_);
  } else if (run.bytes.data()) {
    const GradientChunk& own = mine_.chunks[chunk];
    floats_->encode(mine_.slices[own.slice].rows, own.columns, place(mine_, chunk), nullptr,
                    run.bytes.data() + section(r, me_) + plan_.shard(chunk, me_).bytes_before);
  }
  if (plan.end_chunk != chunk + 1) return;
  written_ = r + 1;
  run.encoded = floats_->record_event();
  advance();
  bytes_ += static_cast<std::int64_t>(plan.section_bytes(me_) * run.sends.size());
}

bool InterGroupColumns::in_flight(std::size_t r) {
  advance();
  return r < listening_ && (!is_inter_group_rank() || r < sent_);
}

bool InterGroupColumns::try_complete(std::size_t r) {
  Run& run = run_[r];
  if (!in_flight(r)) return false;
  if (run.sparse) return run.sparse->try_complete();
  return std::all_of(run.receives.begin(), run.receives.end(), [](auto& t) { return t->done(); });
}

void InterGroupColumns::complete(std::size_t r) {
  Run& run = run_[r];
  assert(!is_inter_group_rank() || r < written_);
  for (Nap nap; !in_flight(r);) nap.nothing_happened();
  if (run.sparse) return run.sparse->complete();
  for (auto& t : run.receives) t->wait();
}

void InterGroupColumns::store(std::size_t r) {
  Run& run = run_[r];
  if (r + 1 == run_.size()) armed_ = false, listening_ = 0;
  if (run.sparse) {
    synchronize();
    return run.sparse->store();
  }
  for (std::size_t p = first_chunk(r); p < end_chunk(r); ++p) {
    const std::size_t rows = whole_.slices[whole_.chunks[p].slice].rows;
    for (int c = 0; c < inter_group_ranks_; ++c) {
      const Shard& shard = plan_.shard(p, c);
      float* const to = place(whole_, p) + shard.first * rows;
      if (c == me_)
        copy(place(mine_, p), to, rows, shard.columns);
      else
        floats_->decode(rows, shard.columns, run.bytes.data() + section(r, c) + shard.bytes_before, to);
    }
  }
  run.stored = floats_->record_event();
}

void InterGroupColumns::flush() {
  for (Run& run : run_) {
    if (run.sparse) run.sparse->flush();
    for (auto& t : run.sends) t->wait();
  }
}

std::int64_t InterGroupColumns::bytes_and_reset() {
  std::int64_t bytes = std::exchange(bytes_, 0);
  for (Run& run : run_)
    if (run.sparse) bytes += run.sparse->bytes_and_reset();
  return bytes;
}

}  // namespace tutti
