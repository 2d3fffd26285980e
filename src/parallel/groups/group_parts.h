// SPDX-License-Identifier: Apache-2.0
// group_parts.h -- what strategies over groups are made of, and how their states share one archive.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/groups/options.h"
#include "tutti/archive.h"
#include "tutti/communicator.h"
#include "tutti/strategy.h"

namespace tutti {

struct GroupParts {
  GroupLayout layout;
  std::unique_ptr<Communicator> group;  // this rank's, for `inside`
  std::unique_ptr<Communicator> tells;  // the same, for what the ranks of a group tell each other about sums
  std::unique_ptr<Communicator> peers;  // ranks of other groups that `between` talks to
  std::unique_ptr<Strategy> inside;
  std::unique_ptr<Strategy> between;  // null on ranks that leave this to others of their group
  bool contributes = false;           // what an optimizer wants summed instead of gradients is summed between groups
};

// The entries of one level, under a name of their own.
class LevelArchive : public Archive {
 public:
  LevelArchive(Archive& a, std::string prefix) : a_(a), prefix_(std::move(prefix)) {}
  bool loading() const override { return a_.loading(); }
  bool has(std::string_view name) const override { return a_.has(full(name)); }
  void operator()(std::string_view name, bool& v) override { a_(full(name), v); }
  void operator()(std::string_view name, std::int64_t& v) override { a_(full(name), v); }
  void operator()(std::string_view name, double& v) override { a_(full(name), v); }
  void operator()(std::string_view name, std::string& v) override { a_(full(name), v); }
  void operator()(std::string_view name, std::span<float> v) override { a_(full(name), v); }

 private:
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }
  Archive& a_;
  std::string prefix_;
};

// What two levels have spent together; groups of groups count as within.
ExchangeStats stats_of_levels(ExchangeStats within, const ExchangeStats& between);

// Collective in the group: the first rank tells the others whether sums have come, for how many columns, and the
// metrics.
class LeaderBroadcast {
 public:
  explicit LeaderBroadcast(Communicator& group) : comm_(group) {}
  void broadcast(bool& delivered, std::int64_t& columns, StepMetrics&);

 private:
  Communicator& comm_;
  std::vector<std::int64_t> words_;
};

// The same for a first rank that may wait for servers before it has words: the others nap until it tells them, for the
// core may be needed where somebody serves.
class SleepingBroadcast {
 public:
  using Words = std::array<std::int64_t, 2>;
  explicit SleepingBroadcast(Communicator& group);
  void broadcast(Words&);

 private:
  Words words_{};
  std::vector<std::unique_ptr<Transfer>> transfers_;  // to the others, or from the first
  const bool leads_;
};

}  // namespace tutti
