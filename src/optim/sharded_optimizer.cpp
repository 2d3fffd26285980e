// SPDX-License-Identifier: Apache-2.0
#include "optim/sharded_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>

namespace tutti {
namespace {

constexpr std::size_t not_here = static_cast<std::size_t>(-1);

std::size_t end_of(const Slice& s) { return s.offset + s.size(); }

// The columns of a slice that lie in [first, last) of the flat weights; ranges are cut at columns.
ShardRange columns_in(const Slice& s, std::size_t first, std::size_t last) {
  const auto column = [&](std::size_t at) {
    return at <= s.offset ? 0 : std::min((at - s.offset + s.rows - 1) / s.rows, s.columns);
  };
  return {column(first), column(last)};
}

// Single values are those of the first archive: both optimizers count alike.
class SameScalars final : public Archive {
 public:
  explicit SameScalars(Archive& a) : a_(a) {}
  bool loading() const override { return a_.loading(); }
  bool has(std::string_view name) const override { return a_.has(name); }
  void operator()(std::string_view name, bool& v) override { once(name, v); }
  void operator()(std::string_view name, std::int64_t& v) override { once(name, v); }
  void operator()(std::string_view name, double& v) override { once(name, v); }
  void operator()(std::string_view name, std::string& v) override { once(name, v); }
  void operator()(std::string_view name, std::span<float> v) override { a_(name, v); }

 private:
  template <class T>
  void once(std::string_view name, T& v) {
    const auto known = seen_.find(name);
    if (known != seen_.end()) {
      v = std::get<T>(known->second);
      return;
    }
    a_(name, v);
    seen_.emplace(name, v);
  }
  Archive& a_;
  std::map<std::string, std::variant<bool, std::int64_t, double, std::string>, std::less<>> seen_;
};

}  // namespace

std::vector<std::size_t> optimizer_ranges(const Parameters& p, const Optimizer& optimizer, int ranks) {
  std::size_t values = 0, end = 0;
  for (const Slice& s : p.slices)
    if (!s.shard) values += s.size(), end = end_of(s);
  std::vector<std::size_t> bounds{0};
  std::size_t before = 0;
  for (const Slice& s : p.slices) {
    if (s.shard) continue;
    while (static_cast<int>(bounds.size()) < ranks) {
      const std::size_t wanted = values * bounds.size() / static_cast<std::size_t>(ranks);
      if (wanted > before + s.size()) break;
      // Up to a whole column, or to the nearer end of the parameter.
      const bool parts = optimizer.works_on_parts();
      const std::size_t unit = parts ? s.rows : s.size(), half = parts ? unit - 1 : unit / 2;
      bounds.push_back(s.offset + (wanted - before + half) / unit * unit);
    }
    before += s.size();
  }
  bounds.resize(static_cast<std::size_t>(ranks), end);
  bounds.push_back(end);
  return bounds;
}

void ShardedOptimizer::bind(Parameters& p) {
  whole_ = &p;
  const int ranks = ranks_.size();
  const auto bounds = optimizer_ranges(p, *divided_, ranks);
  const auto me = static_cast<std::size_t>(ranks_.rank());
  const std::size_t first = bounds[me], last = bounds[me + 1];
  const auto common = static_cast<std::size_t>(
      std::find_if(p.slices.begin(), p.slices.end(), [](const Slice& s) { return s.shard.has_value(); }) -
      p.slices.begin());
  const std::size_t rest = common < p.slices.size() ? p.slices[common].offset : p.size();
  const auto look_at = [&](Parameters& view, std::size_t begin, std::size_t end) {
    view = {};
    view.weights = FloatBuffer::view(p.weights, begin, end - begin);
    view.gradients = FloatBuffer::view(p.gradients, begin, end - begin);
  };
  look_at(range_, first, last), look_at(shards_, rest, p.size());
  for (std::size_t i = 0; i < common; ++i) {
    Slice s = p.slices[i];
    ParameterShard shard{.whole = Shape{{s.rows, s.columns}}, .axis = 1, .single = !divided_->works_on_parts()};
    for (const std::size_t bound : bounds) shard.bounds.push_back(columns_in(s, 0, bound).last);
    const ShardRange mine = columns_in(s, first, last);
    s.offset = mine.size() ? s.offset + mine.first * s.rows - first : 0;
    s.columns = mine.size(), s.shape = Shape{{s.rows, s.columns}}, s.shard = shard;
    range_.slices.push_back(std::move(s));
  }
  for (std::size_t i = common; i < p.slices.size(); ++i) {
    shards_.slices.push_back(p.slices[i]);
    shards_.slices.back().offset -= rest;
  }
  range_.sparse_rows.resize(range_.slices.size()), shards_.sparse_rows.resize(shards_.slices.size());
  shards_.sum_over_shards = p.sum_over_shards;
  chunk_of_.assign(p.chunks.size(), not_here);
  for (std::size_t c = 0; c < p.chunks.size(); ++c) {
    GradientChunk chunk = p.chunks[c];
    if (chunk.slice >= common) {
      chunk.slice -= common;
      chunk_of_[c] = shards_.chunks.size();
      shards_.chunks.push_back(chunk);
      continue;
    }
    const ShardRange mine = columns_in(p.slices[chunk.slice], first, last);
    const std::size_t begin = std::max(chunk.first_column, mine.first),
                      end = std::min(chunk.first_column + chunk.columns, mine.last);
    if (begin >= end) continue;
    chunk_of_[c] = range_.chunks.size();
    range_.chunks.push_back({chunk.slice, begin - mine.first, end - begin});
  }
  divided_->bind(range_), parts_->bind(shards_);
  held_.slices = range_.slices;
  held_.slices.insert(held_.slices.end(), shards_.slices.begin(), shards_.slices.end());
}

// The rows of a sparse gradient that lie in the range.
void ShardedOptimizer::list_rows(const GradientChunk& chunk) {
  const bool divided = chunk.slice < range_.slices.size();
  const std::size_t slice = divided ? chunk.slice : chunk.slice - range_.slices.size();
  const auto& all = whole_->sparse_rows[chunk.slice];
  auto& mine = (divided ? range_ : shards_).sparse_rows[slice];
  mine.clear();
  if (!divided || whole_->slices[chunk.slice].sparse_by_row) {
    mine.assign(all.begin(), all.end());
    return;
  }
  const auto& bounds = range_.slices[slice].shard->bounds;
  const auto me = static_cast<std::size_t>(ranks_.rank());
  for (const std::uint32_t row : all)
    if (row >= bounds[me] && row < bounds[me + 1]) mine.push_back(row - static_cast<std::uint32_t>(bounds[me]));
}

void ShardedOptimizer::update(std::size_t chunk) {
  if (chunk_of_[chunk] == not_here) return;
  const GradientChunk& c = whole_->chunks[chunk];
  if (whole_->slices[c.slice].sparse_gradient) list_rows(c);
  (c.slice < range_.slices.size() ? divided_ : parts_)->update(chunk_of_[chunk]);
}

void ShardedOptimizer::archive(Archive& a) {
  SameScalars same(a);
  divided_->archive(same);
  if (!shards_.slices.empty()) parts_->archive(same);
}

std::string ShardedOptimizer::describe() const {
  return fmt::format("{}, its state divided among {} ranks", divided_->describe(), ranks_.size());
}

}  // namespace tutti
