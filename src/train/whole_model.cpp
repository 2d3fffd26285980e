// SPDX-License-Identifier: Apache-2.0
#include "train/whole_model.h"

#include <algorithm>

namespace tutti {
namespace {

constexpr int parts_tag = 32002;

std::size_t part_size(const ParameterShard& shard, int rank, int ranks) { return shard.part(rank, ranks).elements(); }

// On rank 0, `whole` receives the parts of all ranks.
void gather_parts(Communicator& ranks, const ParameterShard& shard, std::span<const float> mine,
                  std::span<float> whole) {
  if (ranks.rank() != 0) {
    if (!mine.empty()) ranks.send(0, parts_tag, std::as_bytes(mine))->wait();
    return;
  }
  put_part(shard, 0, ranks.size(), mine, whole);
  std::vector<float> part;
  for (int r = 1; r < ranks.size(); ++r) {
    part.resize(part_size(shard, r, ranks.size()));
    if (part.empty()) continue;
    ranks.receive(r, parts_tag, std::as_writable_bytes(std::span(part)))->wait();
    put_part(shard, r, ranks.size(), part, whole);
  }
}

}  // namespace

WholeModel::WholeModel(Network& network, Communicator* ranks) : ranks_(ranks) {
  view.graph = &network.graph();
  const auto add = [&](const std::string& name, const Shape& shape, const std::optional<ParameterShard>& shard,
                       std::span<float> values) {
    if (!shard) return view.values.push_back({name, shape, values});
    auto& part = *parts_.emplace_back(std::make_unique<Part>(Part{*shard, values, {}}));
    part.whole.resize(shard->whole.elements());
    view.values.push_back({name, shard->whole, part.whole});
  };
  Parameters& p = network.parameters();
  for (const Slice& s : p.slices) add(s.name, s.shape, s.shard, p.weights.span().subspan(s.offset, s.size()));
  for (const Network::State& s : network.state()) add(s.name, s.shape, s.shard, s.values);
  std::sort(view.values.begin(), view.values.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

void WholeModel::gather() {
  // In the order of names, which is that of all ranks.
  for (auto& p : parts_) gather_parts(*ranks_, p->shard, p->mine, p->whole);
}

void WholeModel::scatter() {
  for (auto& p : parts_) take_part(p->shard, ranks_->rank(), ranks_->size(), p->whole, p->mine);
}

void WholeArchive::operator()(std::string_view name, std::span<float> v) {
  const auto slice = std::ranges::find_if(parameters_.slices, [&](const Slice& s) {
    return s.shard && name.ends_with(s.name) && name.size() > s.name.size() &&
           name[name.size() - s.name.size() - 1] == '/' && v.size() == s.size();
  });
  if (slice == parameters_.slices.end()) {
    if (to_) (*to_)(name, v);
    return;
  }
  const bool receives = !loading_ && ranks_.rank() == 0;  // of other groups, too, which do not save
  std::vector<float> whole(to_ || receives ? slice->shard->whole.elements() : 0);
  if (!loading_) gather_parts(ranks_, *slice->shard, v, whole);
  if (to_) (*to_)(name, whole);
  if (loading_) take_part(*slice->shard, ranks_.rank(), ranks_.size(), whole, v);
}

}  // namespace tutti
