// SPDX-License-Identifier: Apache-2.0
// options.h -- groups = byNode | size:4 | n:2: the division of the ranks into groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/config.h"

namespace tutti {

struct GroupOptions {
  enum class Kind { none, by_node, of_size, number };
  Kind kind = Kind::none;
  std::int64_t count = 0;  // ranks per group, or number of groups

  void describe(config::Fields& f);
  bool any() const { return kind != Kind::none; }
  std::string text() const;  // as written
};

// Groups are numbered by their first rank; members are in rank order.
struct GroupLayout {
  int group = 0;             // of this rank
  int local = 0;             // this rank's index in its group
  std::vector<int> sizes;    // by group
  std::vector<int> members;  // ranks of this group

  int groups() const { return static_cast<int>(sizes.size()); }
  int size() const { return sizes[static_cast<std::size_t>(group)]; }
  int smallest() const;
  bool even() const;
  std::string text() const;  // "2 groups of 4 ranks"
};

// Throws ConfigError if there are too few ranks for the number of groups.
void check_groups(const GroupOptions&, int ranks);
// Collective; also checks.
GroupLayout lay_out_groups(const GroupOptions&, Communicator&);
// The same from names: ranks with the same name form a group.
GroupLayout group_by_name(const std::vector<std::string>& names, int rank);

}  // namespace tutti
