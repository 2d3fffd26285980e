// SPDX-License-Identifier: Apache-2.0
#include "parallel/hybrid/hybrid_method.h"

#include <algorithm>
#include <utility>

#include "parallel/groups/level_archive.h"
#include "parallel/local_gradients.h"

namespace tutti {
namespace {

constexpr const char* level_of_shards = "shards";
constexpr const char* level_common_to_shards = "shards common/";

// A range of slices as Parameters of their own, over the same memory.
struct View {
  std::size_t first_slice = 0, first_chunk = 0, offset = 0;
  Parameters parameters;

  void look_at(Parameters& whole, std::size_t begin, std::size_t end) {
    parameters = {};
    first_slice = begin;
    offset = begin < whole.slices.size() ? whole.slices[begin].offset : whole.size();
    const std::size_t last = end < whole.slices.size() ? whole.slices[end].offset : whole.size();
    parameters.weights = FloatBuffer::view(whole.weights, offset, last - offset);
    parameters.gradients = FloatBuffer::view(whole.gradients, offset, last - offset);
    for (std::size_t s = begin; s < end; ++s) {
      parameters.slices.push_back(whole.slices[s]);
      parameters.slices.back().offset -= offset;
    }
    first_chunk = whole.chunks.size();
    for (std::size_t c = 0; c < whole.chunks.size(); ++c) {
      GradientChunk chunk = whole.chunks[c];
      if (chunk.slice < begin || chunk.slice >= end) continue;
      first_chunk = std::min(first_chunk, c);
      chunk.slice -= begin;
      parameters.chunks.push_back(chunk);
    }
    parameters.sparse_rows.resize(end - begin);
  }
};

// The two ranges: slices that every rank holds, and shards.
struct Views {
  Parameters* whole = nullptr;
  View common, shards;

  void look_at(Parameters& p) {
    whole = &p;
    const auto first =
        std::find_if(p.slices.begin(), p.slices.end(), [](const Slice& s) { return s.shard.has_value(); });
    const auto split = static_cast<std::size_t>(first - p.slices.begin());
    common.look_at(p, 0, split), shards.look_at(p, split, p.slices.size());
  }
};

// Passes reduced chunks of a view on as chunks of the whole.
class ViewSink final : public ReducedGradientSink {
 public:
  void pass(Parameters& whole, View& view, ReducedGradientSink& to) { whole_ = &whole, view_ = &view, to_ = &to; }
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    share_rows(chunk);
    to_->on_reduced(chunk + view_->first_chunk, columns);
  }
  void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) override {
    numbers_.clear();
    for (const std::size_t chunk : chunks) share_rows(chunk), numbers_.push_back(chunk + view_->first_chunk);
    to_->on_reduced(std::span<const std::size_t>(numbers_), columns);
  }
  Summed summed(std::int64_t columns) const override { return to_->summed(columns); }
  void contribute(std::size_t chunk, std::int64_t columns, int ranks) override {
    to_->contribute(chunk + view_->first_chunk, columns, ranks);
  }
  const float* mask() const override { return to_->mask() ? to_->mask() + view_->offset : nullptr; }

 private:
  // The rows of a sparse gradient that the exchange has written.
  void share_rows(std::size_t chunk) {
    const std::size_t slice = view_->parameters.chunks[chunk].slice;
    if (view_->parameters.slices[slice].sparse_gradient)
      whole_->sparse_rows[slice + view_->first_slice] = view_->parameters.sparse_rows[slice];
  }
  Parameters* whole_ = nullptr;
  View* view_ = nullptr;
  ReducedGradientSink* to_ = nullptr;
  std::vector<std::size_t> numbers_;
};

// An exchange of what every rank holds, and one of shards.
template <class Exchange>
class Hybrid : public Exchange {
 public:
  Hybrid(std::unique_ptr<Exchange> common, std::unique_ptr<Exchange> shards)
      : common_(std::move(common)), shards_(std::move(shards)) {}

  void start(Parameters& p) override {
    views_.look_at(p);
    common_->start(views_.common.parameters);
    shards_->start(views_.shards.parameters);
  }
  void begin_epoch(std::int64_t epoch) override { common_->begin_epoch(epoch), shards_->begin_epoch(epoch); }

 protected:
  void count() {
    this->stats_ += common_->exchange_stats_and_reset();
    this->stats_ += shards_->exchange_stats_and_reset();
  }
  std::unique_ptr<Exchange> common_, shards_;
  Views views_;
};

class HybridGradients final : public Hybrid<GradientExchange> {
 public:
  using Hybrid::Hybrid;
  void begin_step(const StepInfo& step, ReducedGradientSink& sink) override {
    pass_to(sink);
    announced_ = false;
    common_->begin_step(step, to_common_);
    shards_->begin_step(step, to_shards_);
  }
  bool follows_device() const override { return common_->follows_device() && shards_->follows_device(); }
  void chunk_ready(std::size_t chunk) override {
    if (!std::exchange(announced_, true)) take_rows(views_.common), take_rows(views_.shards);
    const std::size_t first = views_.shards.first_chunk;
    chunk < first ? common_->chunk_ready(chunk) : shards_->chunk_ready(chunk - first);
  }
  void finish_step() override {
    common_->finish_step(), shards_->finish_step();
    count();
  }
  void drain(ReducedGradientSink& sink) override {
    pass_to(sink);
    common_->drain(to_common_), shards_->drain(to_shards_);
    count();
  }
  void archive(Archive& a) override {
    common_->archive(a);
    LevelArchive level(a, level_of_shards);
    shards_->archive(level);
  }

 private:
  void pass_to(ReducedGradientSink& sink) {
    to_common_.pass(*views_.whole, views_.common, sink);
    to_shards_.pass(*views_.whole, views_.shards, sink);
  }
  // The network has listed the rows of sparse gradients before it announces the first chunk.
  void take_rows(View& v) {
    for (std::size_t s = 0; s < v.parameters.slices.size(); ++s)
      if (v.parameters.slices[s].sparse_gradient)
        v.parameters.sparse_rows[s] = views_.whole->sparse_rows[s + v.first_slice];
  }
  ViewSink to_common_, to_shards_;
  bool announced_ = false;  // a chunk of this step
};

class HybridWeights final : public Hybrid<WeightExchange> {
 public:
  using Hybrid::Hybrid;
  bool is_due(const StepInfo& step) const override { return common_->is_due(step) || shards_->is_due(step); }
  WeightChange after_update(const StepInfo& step) override {
    return joined(common_->after_update(step), shards_->after_update(step));
  }
  void drain() override { common_->drain(), shards_->drain(); }
  WeightChange end_epoch() override { return joined(common_->end_epoch(), shards_->end_epoch()); }
  void show(Weights which, std::span<const float> changed_from) override {
    const auto part = [&](const View& v) {
      return changed_from.empty() ? changed_from : changed_from.subspan(v.offset, v.parameters.size());
    };
    common_->show(which, part(views_.common)), shards_->show(which, part(views_.shards));
  }
  // What the exchange of a shard calls common is so only among the ranks that hold this shard.
  void archive(Archive& a, Section section) override {
    common_->archive(a, section);
    if (section == Section::common) return;
    LevelArchive common(a, level_common_to_shards), own(a, level_of_shards);
    shards_->archive(common, Section::common);
    shards_->archive(own, Section::per_rank);
  }

 private:
  WeightChange joined(WeightChange a, const WeightChange& b) {
    count();
    a.weights_changed |= b.weights_changed, a.reset_momentum |= b.reset_momentum;
    return a;
  }
};

}  // namespace

ParallelMethod make_hybrid(ParallelMethod common, ParallelMethod shards) {
  ParallelMethod m = std::move(common);
  for (auto& c : shards.communicators) m.communicators.push_back(std::move(c));
  m.gradients = std::make_unique<HybridGradients>(std::move(m.gradients), std::move(shards.gradients));
  m.weights = std::make_unique<HybridWeights>(std::move(m.weights), std::move(shards.weights));
  // Ranks see different shards, so they must agree on whether a gradient overflows.
  if (m.traits.overflow == OverflowCheck::reduced) m.traits.overflow = OverflowCheck::agree;
  return m;
}

}  // namespace tutti
