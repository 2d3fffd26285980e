// SPDX-License-Identifier: Apache-2.0
#include "strategy/stripes.h"

namespace tutti {
namespace {

void add_stripes(StripePlan& plan, std::size_t chunk, std::size_t columns) {
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  std::size_t first = 0;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    // The columns left over go to other ranks with every chunk, so that biases do not all end at rank 0.
    const bool extra = (owner + ranks - chunk % ranks) % ranks < columns % ranks;
    const std::size_t n = columns / ranks + (extra ? 1 : 0);
    plan.stripes.push_back({first, n, 0});
    first += n;
  }
}

void lay_out(StripePlan& plan, StripeGroup& group, const Parameters& parameters, const Codec& codec) {
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  group.section_begin.assign(ranks + 1, 0);
  group.section_values.assign(ranks, 0);
  if (group.sparse) return;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    std::size_t bytes = 0;
    for (std::size_t p = group.first_chunk; p < group.end_chunk; ++p) {
      Stripe& stripe = plan.stripes[p * ranks + owner];
      const std::size_t rows = parameters.slices[parameters.chunks[p].slice].rows;
      stripe.bytes_before = bytes;
      bytes += codec.bytes(rows, stripe.columns);
      group.section_values[owner] += rows * stripe.columns;
    }
    group.section_begin[owner + 1] = group.section_begin[owner] + bytes;
  }
}

}  // namespace

StripePlan plan_stripes(const Parameters& parameters, const Codec& codec, int ranks, std::size_t group_values) {
  StripePlan plan;
  plan.ranks = ranks;
  plan.group_of.resize(parameters.chunks.size());
  std::size_t values = 0;
  for (std::size_t p = 0; p < parameters.chunks.size(); ++p) {
    add_stripes(plan, p, parameters.chunks[p].columns);
    const bool sparse = parameters.slices[parameters.chunks[p].slice].sparse_gradient;
    if (plan.groups.empty() || values >= group_values || sparse || plan.groups.back().sparse) {
      plan.groups.push_back({p, p, sparse, {}, {}});
      values = 0;
    }
    values += parameters.count(parameters.chunks[p]);
    plan.groups.back().end_chunk = p + 1;
  }
  if (plan.groups.size() > 1 && values < group_values && !plan.groups.back().sparse &&
      !plan.groups[plan.groups.size() - 2].sparse) {  // the rest goes with the group before it
    plan.groups[plan.groups.size() - 2].end_chunk = plan.groups.back().end_chunk;
    plan.groups.pop_back();
  }
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    lay_out(plan, plan.groups[g], parameters, codec);
    for (std::size_t p = plan.groups[g].first_chunk; p < plan.groups[g].end_chunk; ++p) plan.group_of[p] = g;
  }
  return plan;
}

}  // namespace tutti
