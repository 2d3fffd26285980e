// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/shard_optimizer.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <string>
#include <variant>

#include "tutti/error.h"

namespace tutti {
namespace {

using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<float>>;
using State = std::map<std::string, Value, std::less<>>;

// An in-memory archive. Passes floats to `floats`: name, stored values, and the visitor's values.
class StateArchive final : public Archive {
 public:
  using Floats = std::function<void(const std::string& name, std::vector<float>& kept, std::span<float> v)>;
  StateArchive(State& state, bool loading, Floats floats)
      : state_(state), loading_(loading), floats_(std::move(floats)) {}
  bool loading() const override { return loading_; }
  bool has(std::string_view name) const override { return !loading_ || state_.contains(name); }
  void operator()(std::string_view n, bool& v) override { visit(n, v); }
  void operator()(std::string_view n, std::int64_t& v) override { visit(n, v); }
  void operator()(std::string_view n, double& v) override { visit(n, v); }
  void operator()(std::string_view n, std::string& v) override { visit(n, v); }
  void operator()(std::string_view n, std::span<float> v) override {
    Value& kept = state_[std::string(n)];
    if (!std::holds_alternative<std::vector<float>>(kept)) kept = std::vector<float>(v.size());
    floats_(std::string(n), std::get<std::vector<float>>(kept), v);
  }

 private:
  template <class T>
  void visit(std::string_view name, T& v) {
    if (loading_)
      v = std::get<T>(state_.at(std::string(name)));
    else
      state_[std::string(name)] = v;
  }

  State& state_;
  const bool loading_;
  Floats floats_;
};

void copy_out(const std::string&, std::vector<float>& kept, std::span<float> v) { std::ranges::copy(v, kept.begin()); }
void copy_in(const std::string&, std::vector<float>& kept, std::span<float> v) {
  assert(kept.size() == v.size());
  std::ranges::copy(kept, v.begin());
}

State state_of(Optimizer& optimizer) {
  State state;
  StateArchive a(state, false, copy_out);
  optimizer.archive(a);
  return state;
}

// The state of a parameter has a name that ends in "/" and its name; the longest matching name wins.
template <class Slices>
std::size_t slice_of(const std::string& entry, const Slices& slices) {
  std::size_t found = slices.size();
  for (std::size_t s = 0; s < slices.size(); ++s)
    if (entry.ends_with("/" + slices[s].name) &&
        (found == slices.size() || slices[s].name.size() > slices[found].name.size()))
      found = s;
  if (found == slices.size()) throw Error("state of the optimizer belongs to no parameter: " + entry);
  return found;
}

Optimizer& optimizer_of(ServerShard& shard) { return static_cast<OptimizerRule&>(shard.rule()).optimizer(); }

// The part of a parameter's state that belongs to the shard.
std::span<float> part(std::vector<float>& whole, const ServerShard& shard, std::size_t run) {
  const ServerShardRun& r = shard.plan().runs[run];
  return std::span(whole).subspan(r.first_column * r.rows, r.size());
}

// Loads the state of all shards of this rank from that of the run, or stores it there.
void visit_shards(State& whole, bool loading, Server& server, const std::vector<ServerShard*>& shards) {
  server.exclusively([&] {
    for (ServerShard* shard : shards) {
      if (!shard) continue;
      StateArchive a(whole, loading, [&](const std::string& name, std::vector<float>& kept, std::span<float> v) {
        const std::span<float> mine = part(kept, *shard, slice_of(name, shard->parameters().slices));
        loading ? std::ranges::copy(mine, v.begin()) : std::ranges::copy(v, mine.begin());
      });
      optimizer_of(*shard).archive(a);
    }
  });
}

class SumRule : public ShardRule {
 public:
  void apply(Parameters& shard, const UpdateTerms&) override {
    float* w = shard.weights.data();
    const float* sum = shard.gradients.data();
    for (std::size_t i = 0; i < shard.size(); ++i) w[i] = w[i] - sum[i];
  }
};

class MeanRule final : public SumRule {
 public:
  bool means() const override { return true; }
};

}  // namespace

std::unique_ptr<ShardRule> make_sum_rule() { return std::make_unique<SumRule>(); }
std::unique_ptr<ShardRule> make_mean_rule() { return std::make_unique<MeanRule>(); }

void OptimizerRule::apply(Parameters& shard, const UpdateTerms& terms) {
  // Rows of a sparse gradient that no push lists are zero and are not updated.
  for (std::size_t s = 0; s < shard.slices.size(); ++s) {
    const Slice& slice = shard.slices[s];
    if (!slice.sparse_gradient) continue;
    shard.sparse_rows[s].clear();
    const float* g = shard.gradients.data() + slice.offset;
    const std::size_t step = slice.sparse_by_row ? slice.rows : 1, next = slice.sparse_by_row ? 1 : slice.rows;
    for (std::size_t row = 0; row < slice.sparse_row_count(); ++row)
      for (std::size_t i = 0; i < slice.sparse_row_size(); ++i)
        if (g[row * next + i * step] != 0) {
          shard.sparse_rows[s].push_back(static_cast<std::uint32_t>(row));
          break;
        }
  }
  if (terms.columns == 0) return;
  optimizer_->begin_step({terms.learning_rate, terms.momentum_per_sample, terms.columns});
  for (std::size_t i = 0; i < shard.chunks.size(); ++i) optimizer_->update(i);
}

void spread_optimizer(Optimizer& of_run, Server& server, const std::vector<ServerShard*>& shards) {
  State whole = state_of(of_run);
  visit_shards(whole, true, server, shards);
}

void collect_optimizer(Optimizer& of_run, Server& server, const std::vector<ServerShard*>& shards,
                       const std::vector<ServerShardPlan>& plans, Communicator& comm, const Parameters& flat) {
  State whole = state_of(of_run);
  visit_shards(whole, false, server, shards);
  const auto broadcast = [&](int owner, auto span) { comm.broadcast(owner, std::as_writable_bytes(span)); };
  for (auto& [name, value] : whole) {
    // Counts of updates, which are equal for all shards.
    if (auto* n = std::get_if<std::int64_t>(&value)) broadcast(plans[0].owner, std::span(n, 1));
    if (auto* x = std::get_if<double>(&value)) broadcast(plans[0].owner, std::span(x, 1));
    auto* floats = std::get_if<std::vector<float>>(&value);
    if (!floats) continue;
    const std::size_t slice = slice_of(name, flat.slices);
    for (const ServerShardPlan& plan : plans)
      for (const ServerShardRun& run : plan.runs)
        if (run.slice == slice)
          broadcast(plan.owner, std::span(*floats).subspan(run.first_column * run.rows, run.size()));
  }
  StateArchive a(whole, true, copy_in);
  of_run.archive(a);
}

}  // namespace tutti
