// SPDX-License-Identifier: Apache-2.0
// residual.h -- the local state of a rank in checkpoints: residuals, whose sum over the ranks survives a change of the
// number of ranks, and state that is lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "tutti/archive.h"
#include "tutti/communicator.h"
#include "tutti/parameters.h"

namespace tutti {

// Names of the entries that are lost with ranks that stop between exchanges.
constexpr std::string_view kOwnWeights = "weights of their own beside the centre";
constexpr std::string_view kLearnedAlone = "what they have learned since the last exchange";

// This rank's part of an entry whose sum survives (tutti/archive.h). Loading gives what this rank saved, or zeros if it
// is new, plus its part of the residuals of missing ranks.
inline void archive_residual(Archive& a, std::string_view name, std::span<float> values) {
  if (a.has(sum_on_reshard_name(name)))
    a(sum_on_reshard_name(name), values);
  else
    std::fill(values.begin(), values.end(), 0.0f);
  if (!a.loading() || !a.has(inherited_name(name))) return;
  FloatBuffer inherited(values.size());
  a(inherited_name(name), inherited.span());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += inherited.data()[i];
}

// A single rank never sums shards, so residuals of owners of the earlier run are added to its own. Of groups of one
// rank each, which all have loaded them, the first takes them.
inline void take_owned(Communicator& comm, std::span<float> owned, std::span<float> own) {
  if (comm.size() > 1) return;
  const bool first = comm.world_rank(0) == 0;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const float value = std::exchange(owned[i], 0.0f);
    if (first) own[i] += value;
  }
}

}  // namespace tutti
