// SPDX-License-Identifier: Apache-2.0
// level_archive.h -- stores the states of two levels of groups in one archive.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "tutti/archive.h"
#include "tutti/exchange_stats.h"

namespace tutti {

// The entries of one level, under a name prefix.
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

// The combined statistics of two levels; inner groups of groups count as inside.
inline ExchangeStats stats_of_levels(ExchangeStats within, const ExchangeStats& between) {
  within.bytes_between = 0;
  within += between;
  within.groups = true;
  within.bytes_between = between.bytes_sent;
  return within;
}

}  // namespace tutti
