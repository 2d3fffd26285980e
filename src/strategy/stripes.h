// SPDX-License-Identifier: Apache-2.0
// stripes.h -- who owns what: the columns of every chunk are divided over the ranks, and neighbouring small chunks
// share one message per destination. The numbers do not depend on any of this, because columns are encoded one by one.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti {

// The columns of one chunk that one rank owns.
struct Stripe {
  std::size_t first = 0, columns = 0;  // relative to the chunk
  std::size_t bytes_before = 0;        // in the owner's section of the group
};

// A run of chunks, in the order of their announcement, whose stripes travel together.
struct StripeGroup {
  std::size_t first_chunk = 0, end_chunk = 0;
  bool sparse = false;                     // one chunk that has its own exchange; no stripes
  std::vector<std::size_t> section_begin;  // per owner, in the group's encoded bytes; one more for the end
  std::vector<std::size_t> section_values;

  std::size_t section_bytes(int owner) const {
    const auto at = static_cast<std::size_t>(owner);
    return section_begin[at + 1] - section_begin[at];
  }
};

struct StripePlan {
  int ranks = 1;
  std::vector<StripeGroup> groups;
  std::vector<std::size_t> group_of;  // chunk -> group
  std::vector<Stripe> stripes;        // [chunk * ranks + owner]

  const Stripe& stripe(std::size_t chunk, int owner) const {
    return stripes[chunk * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(owner)];
  }
};

// Groups have at least `group_values` values unless there are fewer in all; every rank makes the same plan.
StripePlan plan_stripes(const Parameters&, const Codec&, int ranks, std::size_t group_values);

}  // namespace tutti
