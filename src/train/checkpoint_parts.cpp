// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_parts.h"

#include <algorithm>
#include <numeric>

#include "optim/sharded_optimizer.h"
#include "parallel/local_gradients.h"
#include "train/checkpointing.h"
#include "train/rank_state.h"
#include "train/whole_model.h"

namespace tutti {

namespace {

void archive_warm_start(Training& t, Archive& a) {
  constexpr const char* over = "ranks share the data";
  if (t.warm_start.epoch != WarmStart::never && a.has(over)) a(over, t.warm_start.over);
}

// Only counts.
class SizesArchive final : public SavingByteArchive {
 public:
  explicit SizesArchive(std::vector<std::uint64_t>& sizes) : sizes_(sizes) {}
  void entry(std::string_view, EntryType, std::span<std::byte> bytes) override { sizes_.push_back(bytes.size()); }

 private:
  std::vector<std::uint64_t>& sizes_;
};

}  // namespace

void archive_exchange_state(Training& t, Archive& a, WeightExchange::Section section) {
  if (section == WeightExchange::Section::common) archive_warm_start(t, a);
  archive(t.parallel->method, a, section);
}

namespace {

void archive_common_state(Training& t, Archive& a) {
  archive_exchange_state(t, a, WeightExchange::Section::common);
  t.grad_scaler.archive(a);
}

// State of the network that this rank has for itself. With another number of ranks, all start from the model's mean;
// those that update on their own, from that of rank q modulo P.
void archive_own_state(Training& t, Archive& a) {
  for (auto& s : t.network->state()) {
    const auto own = t.own_statistics.find(s.name);
    const std::span<float> values = own == t.own_statistics.end() ? s.values : std::span(own->second);
    const std::string name = "network/" + s.name, alone = same_ranks_name(name);
    if (t.parallel->method.traits.own_updates)
      a(name, values);
    else if (a.loading() ? a.has(alone) : own != t.own_statistics.end())
      a(alone, values);
  }
}

void archive_rank_state(Training& t, Archive& a) {
  archive_exchange_state(t, a, WeightExchange::Section::per_rank);
  // Ranks that skip different updates each adapt a scale of their own; new ranks start with rank 0's.
  t.grad_scaler.archive(a, own_name(""));
  if (t.parallel->method.traits.own_updates) t.optimizer->archive(a);
  archive_own_state(t, a);
}

}  // namespace

void archive_average(Training& t, Archive* to, bool loading) {
  if (loading ? !WeightAverage::is_in(*to) : !t.average) return;
  WeightAverage not_kept(0);
  if (!t.average) not_kept.bind(t.network->parameters());
  WeightAverage& average = t.average ? *t.average : not_kept;
  if (t.layer_ranks) {
    WholeArchive whole(to, loading, t.network->parameters(), *t.layer_ranks);
    average.archive(whole);
  } else if (to) {
    average.archive(*to);
  }
  if (loading) average.swap();
}

void archive_optimizer(Training& t, Archive* to, bool loading) {
  const auto* sharded = dynamic_cast<const ShardedOptimizer*>(t.optimizer.get());
  if (!t.layer_ranks && !sharded) {
    if (to) t.optimizer->archive(*to);
    return;
  }
  WholeArchive whole(to, loading, sharded ? sharded->held() : t.network->parameters(),
                     sharded ? *t.world : *t.layer_ranks);
  t.optimizer->archive(whole);
}

CheckpointParts parts_of(Training& t, ModelView model) {
  return {std::move(model),
          [&](Archive* to) { archive_optimizer(t, to, false), archive_average(t, to, false); },
          [&](Archive& a) { archive_common_state(t, a); },
          [&](Archive& a) { archive_rank_state(t, a); },
          t.method_name,
          [&](Archive& a) { archive_warm_start(t, a), t.grad_scaler.archive(a); },
          t.network_of_files};
}

std::vector<std::uint64_t> sizes_of_checkpoint(const Training& t) {
  std::vector<std::uint64_t> sizes;
  for (const ModelValue& v : view_model(*t.network).values) sizes.push_back(v.values.size_bytes());
  SizesArchive count(sizes);
  t.optimizer->archive(count);
  if (t.average) t.average->archive(count);
  return sizes;
}

std::uint64_t bytes_of_checkpoint(const Training& t) {
  const auto sizes = sizes_of_checkpoint(t);
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

SavedStatistics::SavedStatistics(Training& t) : t_(t) {
  if (t.world->size() == 1) return;
  states_ = t.network->running_statistics();
  for (const auto& s : states_) t.own_statistics[s.name].assign(s.values.begin(), s.values.end());
  share_statistics(t);
}

SavedStatistics::~SavedStatistics() {
  for (const auto& s : states_) std::ranges::copy(t_.own_statistics[s.name], s.values.begin());
  t_.own_statistics.clear();
}

}  // namespace tutti
