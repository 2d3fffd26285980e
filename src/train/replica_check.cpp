// SPDX-License-Identifier: Apache-2.0
#include "train/replica_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <map>

#include "base/activity.h"
#include "base/exit_codes.h"
#include "comm/agreement.h"
#include "train/container.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

using Hashes = std::vector<std::uint64_t>;

Hashes hashes_of(const Parameters& p) {
  Hashes hashes;
  for (const Slice& s : p.slices) {
    if (s.shard) {  // no other rank has the same
      hashes.push_back(0);
      continue;
    }
    const auto bytes = std::as_bytes(p.weights.span().subspan(s.offset, s.size()));
    hashes.push_back(XXH3_64bits(bytes.data(), bytes.size()));
    made_progress();
  }
  return hashes;
}

ReplicaDifference difference_of(std::size_t slice, const Hashes& of_ranks) {
  std::map<std::uint64_t, int> votes;
  for (const std::uint64_t h : of_ranks) ++votes[h];
  const auto most = std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) { return a.second < b.second; });
  ReplicaDifference d{slice, {}};
  const bool majority = 2 * static_cast<std::size_t>(most->second) > of_ranks.size();
  for (int r = 0; r < static_cast<int>(of_ranks.size()); ++r) {
    const bool right = majority && of_ranks[static_cast<std::size_t>(r)] == most->first;
    if (!right) d.wrong.push_back(r);
    if (right && d.right < 0) d.right = r;
  }
  return d;
}

// Saves on one rank and loads the same entries on all others.
class CopyingArchive final : public ByteArchive {
 public:
  CopyingArchive(Communicator& comm, int from) : comm_(comm), from_(from) {}
  bool loading() const override { return comm_.rank() != from_; }
  bool has(std::string_view) const override { return true; }
  std::size_t text_size(std::string_view, const std::string& now) override {
    std::uint64_t size = now.size();
    comm_.broadcast(from_, writable_bytes(size));
    return size;
  }
  void entry(std::string_view, EntryType, std::span<std::byte> bytes) override {
    if (!bytes.empty()) comm_.broadcast(from_, bytes);
  }

 private:
  Communicator& comm_;
  const int from_;
};

// `comm`: the ranks that were compared. Collective over them.
std::string describe(const Training& t, Communicator& comm, const std::vector<ReplicaDifference>& found) {
  const auto hosts = hosts_of(comm);
  std::string text;
  for (const ReplicaDifference& d : found) {
    std::vector<std::string> ranks;
    for (const int r : d.wrong)
      ranks.push_back(fmt::format("rank {} on {}", comm.world_rank(r), hosts[static_cast<std::size_t>(r)]));
    const std::string& name = t.network->parameters().slices[d.slice].name;
    text += text.empty() ? "" : "; ";
    text += d.right >= 0
                ? fmt::format("'{}' of {} differs from that of most ranks", name, fmt::join(ranks, ", "))
                : fmt::format("'{}' differs between {}, and there is no majority", name, fmt::join(ranks, ", "));
  }
  return text;
}

void copy_optimizer_among(Training& t, Communicator& comm, int from) {
  if (t.layer_ranks || t.sgd.shard_optimizer) return;
  CopyingArchive copy(comm, from);
  t.optimizer->archive(copy);
}

void take_majority(Training& t, Communicator& comm, const std::vector<ReplicaDifference>& found) {
  Parameters& p = t.network->parameters();
  for (const ReplicaDifference& d : found) {
    const Slice& s = p.slices[d.slice];
    comm.broadcast(d.right, std::as_writable_bytes(p.weights.span().subspan(s.offset, s.size())));
  }
  // What changed a weight may have changed the optimizer's state; it would change the weight again.
  if (&comm == t.world)
    copy_optimizer(t, found[0].right);
  else
    copy_optimizer_among(t, comm, found[0].right);
}

// The common weights of parameter servers exist once. During a warm start each rank may train on its own: the results
// of different processors differ in the last bits.
bool has_replicas(const Training& t) {
  return t.sgd.faults.verify_replicas > 0 && t.world->size() > 1 && t.sgd.parallel.exchanges() &&
         !t.sgd.parallel.traits().at_servers && t.sgd.parallel.keeps_step() &&
         (t.warm_start.over || t.warm_start.shares_data);
}

// With groups that exchange weights between them: the ranks of this rank's group if they make every update together,
// so that their own weights are equal, too. Null otherwise.
Communicator* ranks_of_group(const Training& t) {
  const ParallelMethod& m = t.parallel->method;
  const bool verifies = t.sgd.faults.verify_replicas > 0 && t.warm_start.over;
  const bool alike = m.traits.own_updates && !m.traits.gradients_between_groups;
  return verifies && alike && m.update_ranks && m.update_ranks->size() > 1 ? m.update_ranks : nullptr;
}

// Collective over `comm`.
void compare_and_act(Training& t, Communicator& comm) {
  const Doing doing("compares the replicas");
  t.network->synchronize();
  const auto found = compare_replicas(t.network->parameters(), comm);
  if (found.empty()) return;
  const std::string what = fmt::format("epoch {}, after {} minibatches: {}", t.progress.epoch + 1,
                                       t.progress.minibatches_in_epoch, describe(t, comm, found));
  const bool majority = std::all_of(found.begin(), found.end(), [](const auto& d) { return d.right >= 0; });
  if (t.sgd.faults.on_divergence == OnDivergence::majority && majority) {
    take_majority(t, comm, found);
    // warning() writes on rank 0 of the run only, which the other groups do not have.
    const bool speaks = comm.rank() == 0 && t.world->rank() != 0;
    return (speaks ? log::warning_of_rank : log::warning)(
        fmt::format("{}: the weights of most ranks are taken. Look after the memory of that host", what));
  }
  throw CodedError(
      kReplicasDiffer,
      fmt::format("The weights of the ranks differ (silent corruption?) in {}\nfix: look after the memory of "
                  "that host, and start again: the run goes on from its last checkpoint, which was compared",
                  what));
}

}  // namespace

void copy_optimizer(Training& t, int from) {
  if (t.world->size() > 1 && !t.parallel->method.traits.own_updates) copy_optimizer_among(t, *t.world, from);
}

std::vector<ReplicaDifference> compare_replicas(const Parameters& p, Communicator& comm) {
  const Hashes mine = hashes_of(p);
  const auto sums = from_all(comm, XXH3_64bits(mine.data(), mine.size() * sizeof(std::uint64_t)));
  if (std::adjacent_find(sums.begin(), sums.end(), std::not_equal_to<>()) == sums.end()) return {};
  Hashes all(mine.size() * sums.size());
  comm.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<ReplicaDifference> found;
  for (std::size_t s = 0; s < mine.size(); ++s) {
    Hashes of_ranks;
    for (std::size_t r = 0; r < sums.size(); ++r) of_ranks.push_back(all[r * mine.size() + s]);
    if (std::adjacent_find(of_ranks.begin(), of_ranks.end(), std::not_equal_to<>()) != of_ranks.end())
      found.push_back(difference_of(s, of_ranks));
  }
  return found;
}

void verify_replicas(Training& t, std::int64_t before) {
  const std::int64_t every = t.sgd.faults.verify_replicas;
  if (every == 0 || t.progress.minibatches_in_epoch / every == before / every) return;
  verify_group_weights(t);
  if (!has_replicas(t)) return;
  const CommonWeights common(*t.parallel->method.weights);
  compare_and_act(t, *t.world);
}

void verify_group_weights(Training& t) {
  if (Communicator* const group = ranks_of_group(t)) compare_and_act(t, *group);
}

void verify_common_weights(Training& t) {
  if (has_replicas(t)) compare_and_act(t, *t.world);
}

}  // namespace tutti
